#include "qkv/train/translation.h"

#include <algorithm>

#include "qkv/base/log.h"
#include "qkv/text/lines.h"

namespace qkv::train {
namespace {

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
  job.options.validate();
  models::TransformerConfig config = job.config;
  config.source_vocabulary = config.target_vocabulary = std::max<int64_t>(job.vocabulary.size, 4);
  config.validate();
  if (job.vocabulary.separate && config.shares_embeddings()) {
    throw UsageError("tying: expected two_way or none with separate vocabularies, found three_way");
  }
  if (job.vocabulary.separate && job.vocabulary.model.empty() != job.vocabulary.target_model.empty()) {
    throw UsageError("separate vocabularies: expected both SentencePiece models or neither, found one");
  }
  if (!job.vocabulary.separate && !job.vocabulary.target_model.empty()) {
    throw UsageError(concat("target vocabulary ", job.vocabulary.target_model.string(),
                            ": expected only with separate vocabularies"));
  }
  if (job.valid.source.empty() != job.valid.target.empty()) {
    throw UsageError("validation files: expected both or neither, found one");
  }
  if (job.valid.source.empty() && job.options.patience > 0) {
    throw UsageError(concat("patience: expected 0 without validation files, found ", job.options.patience));
  }
  require_fitting_folder(job.folder, job.existing);
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

text::MarianTokenizer make_tokenizer(const TranslationJob& job) {
  const VocabularyOptions& options = job.vocabulary;
  text::MarianModels models{
      .source = {}, .target = {}, .source_lang = options.source_lang, .target_lang = options.target_lang};
  if (options.separate) {
    models.source = model_for(job, options.model, {job.train.source});
    models.target = model_for(job, options.target_model, {job.train.target});
  } else {
    models.source = model_for(job, options.model, {job.train.source, job.train.target});
  }
  return text::MarianTokenizer::from_models(models);
}

}  // namespace

TrainResult train_translation(const TranslationJob& job, TrainObserver& observer,
                              const std::atomic<bool>* stop) {
  check(job);
  const bool resumes =
      job.existing == IfRunExists::resume && !CheckpointFolder(job.folder / "checkpoints").empty();
  observer.on_stage(resumes ? "reading the vocabulary" : "making the vocabulary");
  const text::MarianTokenizer tokenizer =
      resumes ? text::MarianTokenizer::load(job.folder) : make_tokenizer(job);
  const models::TransformerConfig config = complete_config(job.config, tokenizer);

  data::CorpusOptions corpus{.max_length = job.options.max_length, .bad_utf8 = job.bad_utf8};
  if (config.positions == nn::PositionKind::learned)
    corpus.max_length = std::min(corpus.max_length, config.max_positions - 1);  // </s> needs a place too
  const std::filesystem::path cache = job.folder / "cache";
  make_writable_folder(cache);
  observer.on_stage("turning text into tokens");
  const auto train = data::TokenStore::open_or_build(job.train, tokenizer, cache / "train.tokens", corpus);
  log_info(concat("training corpus: ", train.report().summary()));
  std::optional<ValidationSet> valid;
  if (!job.valid.source.empty()) {
    valid = ValidationSet::open(
        data::TokenStore::open_or_build(job.valid, tokenizer, cache / "valid.tokens", corpus),
        job.valid.target);
    log_info(concat("validation corpus: ", valid->store.report().summary()));
  }

  Trainer trainer(
      config, job.options,
      {.tokenizer = tokenizer, .train = train, .valid = valid ? &*valid : nullptr, .folder = job.folder},
      job.existing);
  return trainer.run(observer, stop);
}

std::optional<Fields> options_of_run(const std::filesystem::path& folder) {
  const std::optional<Checkpoint> checkpoint = CheckpointFolder(folder / "checkpoints").load_latest();
  if (!checkpoint) return std::nullopt;
  return checkpoint->fields;
}

}  // namespace qkv::train
