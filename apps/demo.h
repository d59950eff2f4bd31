#pragma once
// The demo's model: a small Transformer that turns English number words into German ones.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/number_words.h"
#include "qkv/pipelines/translate.h"
#include "qkv/train/tasks/translation.h"

namespace qkv::apps {

// How the demo trains, tuned for two cores; --seed and --steps change it.
train::TranslationJob demo_job(const std::filesystem::path& folder);
NumberSplitOptions demo_numbers(uint64_t seed);

// The demo's numbers begin here: no other is like "zero", and one example is none.
inline constexpr int kSmallest = 1;

// The lines to train on: each number once, but those below kRareBelow, which are few and have words of their
// own ("ten", "zwölf"), kCopiesOfRare times.
inline constexpr int kRareBelow = 100, kCopiesOfRare = 20;
std::vector<int> demo_lines(const std::vector<int>& train);

// What an output folder is to the demo.
enum class DemoFolder {
  fresh,       // missing or empty
  finished,    // an earlier demo of the same settings ended here
  other,       // an earlier demo of other settings
  unfinished,  // an earlier demo was stopped
};

// Throws UsageError where the folder has something else in it, which the demo does not write over.
DemoFolder look_at(const train::TranslationJob& job);

// Marks the folder as the demo's. `seconds`: that training took; 0: it has not ended.
void mark_folder(const train::TranslationJob& job, double seconds);

// The seconds that mark_folder() was told. Throws IoError or DataError.
double training_seconds(const std::filesystem::path& folder);

struct NumberTexts {
  std::vector<std::string> english, german;
};
NumberTexts texts_of(std::span<const int> numbers);

// The translations of all, the best of each; an empty one where there is none.
std::vector<std::string> translate_all(const pipelines::Translator& translator,
                                       const std::vector<std::string>& sources,
                                       const pipelines::TranslateOptions& options);

}  // namespace qkv::apps
