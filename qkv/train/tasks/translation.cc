#include "qkv/train/tasks/translation.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/log.h"
#include "qkv/text/lines.h"

namespace qkv::train {
namespace {

constexpr std::string_view kModel = "model.";

Words<text::SubwordKind> words(text::SubwordKind) {
  static constexpr std::array<std::pair<std::string_view, text::SubwordKind>, 2> kWords{
      {{"unigram", text::SubwordKind::unigram}, {"bpe", text::SubwordKind::bpe}}};
  return kWords;
}

// A path is recorded from the root, so that a run can be resumed from another folder.
void assign(std::string_view /*field*/, std::string_view text, std::filesystem::path& value) { value = text; }
std::string to_text(const std::filesystem::path& value) {
  return value.empty() ? std::string() : std::filesystem::absolute(value).lexically_normal().string();
}
void assign(std::string_view field, std::string_view text, data::OnBadLine& value) {
  bool skip = false;
  parse_field(field, text, skip);
  value = skip ? data::OnBadLine::skip : data::OnBadLine::fail;
}
std::string to_text(data::OnBadLine value) { return field_text(value == data::OnBadLine::skip); }
void assign(std::string_view field, std::string_view text, text::SubwordKind& value) {
  parse_field(field, text, words(value), value);
}
std::string to_text(text::SubwordKind value) { return field_text(words(value), value); }
template <class Value>
void assign(std::string_view field, std::string_view text, Value& value) {
  parse_field(field, text, value);
}
template <class Value>
std::string to_text(const Value& value) {
  return field_text(value);
}

// Where the tokens come from. Files may move: the fingerprint of their tokens decides.
template <class Job, class Visit>
void visit_data_fields(Job& job, const Visit& visit) {
  visit("vocabulary.model", job.vocabulary.model, true);
  visit("vocabulary.target_model", job.vocabulary.target_model, true);
  visit("vocabulary.separate", job.vocabulary.separate, true);
  visit("vocabulary.size", job.vocabulary.size, true);
  visit("vocabulary.kind", job.vocabulary.kind, true);
  visit("vocabulary.character_coverage", job.vocabulary.character_coverage, true);
  visit("vocabulary.byte_fallback", job.vocabulary.byte_fallback, true);
  visit("vocabulary.source_lang", job.vocabulary.source_lang, true);
  visit("vocabulary.target_lang", job.vocabulary.target_lang, true);
  visit("data.source", job.train.source, false);
  visit("data.target", job.train.target, false);
  visit("data.valid_source", job.valid.source, false);
  visit("data.valid_target", job.valid.target, false);
  visit("data.skip_bad_utf8", job.bad_utf8, true);
}

std::vector<Field> data_fields(const TranslationJob& job) {
  std::vector<Field> result;
  visit_data_fields(job, [&](const char* field, const auto& member, bool decides) {
    result.push_back({field, to_text(member), decides});
  });
  return result;
}

// A corpus is read several times: for its lines, its vocabulary, its fingerprint and its tokens.
void require_readable_again(const char* field, const std::filesystem::path& file) {
  std::error_code ignored;
  const auto type = std::filesystem::status(file, ignored).type();
  using std::filesystem::file_type;
  const bool pipe = type == file_type::fifo || type == file_type::socket || type == file_type::character;
  if (!pipe && file != "-") return;
  throw UsageError(concat(field, " ", file.string(), ": expected a file, as it is read several times, found ",
                          pipe ? "a pipe" : "stdin", "; write the text to a file, which gzip may compress"));
}

void require_equal_lines(const data::CorpusFiles& files) {
  const int64_t source = text::count_lines(files.source), target = text::count_lines(files.target);
  for (const auto& [path, lines] : {std::pair(files.source, source), std::pair(files.target, target)}) {
    if (lines == 0) throw DataError(concat(path.string(), ": expected lines of text, found an empty file"));
  }
  if (source != target) {
    throw DataError(concat("parallel files: expected equal numbers of lines, found ", source, " in ",
                           files.source.string(), " and ", target, " in ", files.target.string()));
  }
}

void check(const TranslationJob& job) {
  TrainOptions options = job.options;
  options.schedule.d_model = job.config.d_model;
  options.validate();
  job.task.validate();
  models::TransformerConfig config = job.config;
  config.source_vocabulary = config.target_vocabulary = std::max<int64_t>(job.vocabulary.size, 4);
  config.eos_id = config.pad_id = config.decoder_start_id = 0;  // the tokenizer's, later
  try {
    config.validate();
  } catch (const UsageError& error) {
    throw UsageError(concat(kModel, error.what()));
  }
  if (job.vocabulary.separate && config.shares_embeddings()) {
    throw UsageError("model.tying: expected two_way or none with separate vocabularies, found three_way");
  }
  if (job.vocabulary.separate && job.vocabulary.model.empty() != job.vocabulary.target_model.empty()) {
    throw UsageError("vocabulary.separate: expected both SentencePiece models or neither, found one");
  }
  if (!job.vocabulary.separate && !job.vocabulary.target_model.empty()) {
    throw UsageError(concat("vocabulary.target_model ", job.vocabulary.target_model.string(),
                            ": expected only with separate vocabularies"));
  }
  if (job.valid.source.empty() != job.valid.target.empty()) {
    throw UsageError("validation files: expected both or neither, found one");
  }
  if (job.valid.source.empty() && job.options.patience > 0) {
    throw UsageError(
        concat("train.patience: expected 0 without validation files, found ", job.options.patience));
  }
  require_fitting_folder(job.folder, job.existing);
  require_readable_again("data.source", job.train.source);
  require_readable_again("data.target", job.train.target);
  require_readable_again("data.valid_source", job.valid.source);
  require_readable_again("data.valid_target", job.valid.target);
  require_equal_lines(job.train);
  if (!job.valid.source.empty()) require_equal_lines(job.valid);
  make_writable_folder(job.folder);
}

std::string model_for(const TranslationJob& job, const std::filesystem::path& given,
                      std::vector<std::filesystem::path> texts) {
  if (!given.empty()) return read_file(given);
  return text::train_sentencepiece({.inputs = std::move(texts),
                                    .vocab_size = job.vocabulary.size,
                                    .smaller_if_needed = true,
                                    .kind = job.vocabulary.kind,
                                    .character_coverage = job.vocabulary.character_coverage,
                                    .seed = job.options.seed,
                                    .byte_fallback = job.vocabulary.byte_fallback,
                                    .skip_bad_utf8 = job.bad_utf8 == data::OnBadLine::skip});
}

text::TranslationTokenizer make_tokenizer(const TranslationJob& job) {
  const VocabularyOptions& options = job.vocabulary;
  text::MarianModels models{
      .source = {}, .target = {}, .source_lang = options.source_lang, .target_lang = options.target_lang};
  if (options.separate) {
    models.source = model_for(job, options.model, {job.train.source});
    models.target = model_for(job, options.target_model, {job.train.target});
  } else {
    models.source = model_for(job, options.model, {job.train.source, job.train.target});
  }
  return text::TranslationTokenizer::from_models(models);
}

}  // namespace

TrainResult train_translation(const TranslationJob& job, TrainObserver& observer,
                              const std::atomic<bool>* stop) {
  check(job);
  const bool resumes =
      job.existing == IfRunExists::resume && !CheckpointFolder(job.folder / "checkpoints").empty();
  observer.on_stage(resumes ? "reading the vocabulary" : "making the vocabulary");
  const text::TranslationTokenizer tokenizer =
      resumes ? text::TranslationTokenizer::load(job.folder) : make_tokenizer(job);
  const models::TransformerConfig config = complete_config(job.config, tokenizer);

  data::CorpusOptions corpus{.max_length = job.task.max_length, .bad_utf8 = job.bad_utf8};
  if (config.positions == nn::PositionKind::learned)
    corpus.max_length = std::min(corpus.max_length, config.max_positions - 1);  // </s> needs a position too
  const std::filesystem::path cache = job.folder / "cache";
  make_writable_folder(cache);
  observer.on_stage("turning text into tokens");
  auto train = data::TokenStore::open_or_build(job.train, tokenizer, cache / "train.tokens", corpus);
  log_info(concat("training corpus: ", train.report().summary()));
  std::optional<ValidationSet> valid;
  if (!job.valid.source.empty()) {
    valid = ValidationSet::open(
        data::TokenStore::open_or_build(job.valid, tokenizer, cache / "valid.tokens", corpus),
        job.valid.target);
    log_info(concat("validation corpus: ", valid->store.report().summary()));
  }
  TrainOptions options = job.options;
  options.schedule.d_model = config.d_model;
  Trainer trainer(std::make_unique<TranslationTask>(TranslationTask::Inputs{.config = config,
                                                                            .options = job.task,
                                                                            .tokenizer = tokenizer,
                                                                            .train = std::move(train),
                                                                            .valid = std::move(valid),
                                                                            .fields = data_fields(job)}),
                  options, job.folder, job.existing);
  return trainer.run(observer, stop);
}

bool set_field(TranslationJob& job, std::string_view name, std::string_view value) {
  if (name.starts_with(kModel)) {
    try {
      return models::set_field(job.config, name.substr(kModel.size()), value);
    } catch (const UsageError& error) {
      throw UsageError(concat(kModel, error.what()));
    }
  }
  bool found = set_field(job.task, name, value) || set_field(job.options, name, value);
  visit_data_fields(job, [&](std::string_view field, auto& member, bool /*decides*/) {
    if (field != name) return;
    assign(field, value, member);
    found = true;
  });
  return found;
}

std::vector<Field> fields(const TranslationJob& job) {
  std::vector<Field> all;
  for (const auto& [name, value] : models::fields(job.config)) all.push_back({concat(kModel, name), value});
  for (const std::vector<Field>& some : {fields(job.task), fields(job.options), data_fields(job)})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::optional<Fields> fields_of_run(const std::filesystem::path& folder) {
  const std::optional<Checkpoint> checkpoint = CheckpointFolder(folder / "checkpoints").load_latest();
  if (!checkpoint) return std::nullopt;
  return checkpoint->fields;
}

}  // namespace qkv::train
