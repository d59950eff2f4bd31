#include "apps/demo.h"

#include <map>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"

namespace qkv::apps {
namespace {

constexpr const char* kMark = "demo.json";

// All settings that affect the weights.
using Settings = std::map<std::string, std::string>;

Settings settings_of(const train::TranslationJob& job) {
  Settings settings{{"qkv", QKV_VERSION}};
  for (const train::Field& field : job.fields()) {
    if (!field.name.starts_with("data.")) settings[field.name] = field.value;  // the folder may be moved
  }
  return settings;
}

struct Mark {
  double training_seconds = 0;
  Settings settings;
};

Mark read_mark(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kMark;
  const JsonValue object = parse_json(read_file(path), path.string());
  Mark mark{.training_seconds = object["training_seconds"].number(), .settings = {}};
  object["settings"].members(
      [&](std::string_view name, const JsonValue& value) { mark.settings.emplace(name, value.string()); });
  return mark;
}

}  // namespace

train::TranslationJob demo_job(const std::filesystem::path& folder) {
  train::TranslationJob job;
  const std::filesystem::path corpus = folder / "corpus";
  job.train = {.source = corpus / "train.en", .target = corpus / "train.de"};
  job.valid = {.source = corpus / "validation.en", .target = corpus / "validation.de"};
  job.folder = folder;
  job.config = models::preset("tiny");
  job.config.dropout = job.config.embedding_dropout = 0;
  job.config.max_positions = 64;
  job.vocabulary = {.model = {},
                    .target_model = {},
                    .separate = false,
                    .size = 150,
                    .kind = text::SubwordKind::bpe,
                    .character_coverage = 1,
                    .byte_fallback = false,
                    .source_lang = "en",
                    .target_lang = "de"};
  job.task.batch_tokens = 1024;
  job.task.label_smoothing = 0;
  job.options.optimizer.average_decay = 0.98f;
  job.options.schedule = {.kind = train::ScheduleKind::cosine, .warmup_steps = 100, .learning_rate = 2e-3f};
  job.options.max_steps = 500;
  job.options.validate_every = 50;
  job.task.bleu_every = 0;  // a line is one long word
  job.options.checkpoint_minutes = 0;
  job.options.keep_checkpoints = 1;
  job.existing = train::IfRunExists::replace;
  return job;
}

NumberSplitOptions demo_numbers(uint64_t seed) {
  return {.largest = 9'999, .held_out = 500, .validation = 200, .always_train = 100, .seed = seed};
}

DemoFolder look_at(const train::TranslationJob& job) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(job.folder, error);
  if (status.type() == fs::file_type::not_found) return DemoFolder::fresh;
  if (!fs::is_directory(status)) {
    throw UsageError(concat("--out ", job.folder.string(), ": expected a folder, found a file"));
  }
  if (fs::is_empty(job.folder, error)) return DemoFolder::fresh;
  if (error) throw IoError(concat(job.folder.string(), ": cannot be read: ", error.message()));
  if (!fs::exists(job.folder / kMark)) {
    throw UsageError(concat("--out ", job.folder.string(),
                            ": expected a new folder, an empty one or an earlier demo's, found other files"));
  }
  const Mark mark = read_mark(job.folder);
  if (mark.training_seconds <= 0) return DemoFolder::unfinished;
  return mark.settings == settings_of(job) ? DemoFolder::finished : DemoFolder::other;
}

void mark_folder(const train::TranslationJob& job, double seconds) {
  const nlohmann::ordered_json mark{{"training_seconds", seconds}, {"settings", settings_of(job)}};
  write_file_atomically(job.folder / kMark, mark.dump(2) + "\n");
}

double training_seconds(const std::filesystem::path& folder) { return read_mark(folder).training_seconds; }

std::vector<std::string> translate_all(const pipelines::Translator& translator,
                                       const std::vector<std::string>& sources,
                                       const pipelines::TranslateOptions& options) {
  std::vector<std::string> texts;
  for (const pipelines::Translation& one : translator(sources, options)) texts.push_back(one.text);
  return texts;
}

}  // namespace qkv::apps
