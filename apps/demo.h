#pragma once
// The demo's model: a small Transformer that translates English number words to German.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/number_words.h"
#include "qkv/pipelines/translate.h"
#include "qkv/train/tasks/translation/translation.h"

namespace qkv::apps {

// The demo's training settings, tuned for two cores; --seed and --steps change them.
train::TranslationJob demo_job(const std::filesystem::path& folder);
NumberSplitOptions demo_numbers(uint64_t seed);

// The state of an output folder.
enum class DemoFolder {
  fresh,       // missing or empty
  finished,    // an earlier demo with equal settings has finished
  other,       // an earlier demo with other settings
  unfinished,  // an earlier demo was interrupted
};

// Throws UsageError if the folder has other contents, which the demo does not overwrite.
DemoFolder look_at(const train::TranslationJob& job);

// Marks the folder as the demo's. `seconds`: training time; 0: training has not finished.
void mark_folder(const train::TranslationJob& job, double seconds);

// The training time passed to mark_folder(). Throws IoError or DataError.
double training_seconds(const std::filesystem::path& folder);

// The best translation of each text; empty if there is none.
std::vector<std::string> translate_all(const pipelines::Translator& translator,
                                       const std::vector<std::string>& sources,
                                       const pipelines::TranslateOptions& options);

}  // namespace qkv::apps
