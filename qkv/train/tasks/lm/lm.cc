#include "qkv/train/tasks/lm/lm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"
#include "qkv/text/train_tokenizer.h"
#include "qkv/train/fields.h"
#include "qkv/train/ranks/node_share.h"

namespace qkv::train {

static Words<LmBlocks> words(LmBlocks /*blocks*/) {
  static constexpr std::array<std::pair<std::string_view, LmBlocks>, 2> kWords{
      {{"gpt2", LmBlocks::gpt2}, {"llama", LmBlocks::llama}}};
  return kWords;
}

namespace {

constexpr const char *kBpe = "bpe", *kChars = "chars", *kCharacters = "characters";

bool is_trained(const std::string& tokenizer) { return tokenizer == kBpe || tokenizer == kChars; }

models::LanguageModelConfig config_of(const LmJob& job, int64_t vocabulary, int32_t start, int32_t end) {
  return with_model_names([&] {
    models::LanguageModelConfig config = job.blocks == LmBlocks::gpt2
                                             ? models::gpt2(job.shape, vocabulary, start, end)
                                             : models::llama(job.shape, vocabulary, start, end);
    config.validate();
    return config;
  });
}

struct Texts {
  data::Documents train, valid;
  std::string valid_name;  // for messages
};

Texts read_texts(const LmJob& job, const std::atomic<bool>* stop) {
  const LmDataOptions& options = job.corpus;
  const data::OnBadLine bad = options.skip_bad_utf8 ? data::OnBadLine::skip : data::OnBadLine::fail;
  const auto read = [&](const std::filesystem::path& path) {
    data::Documents documents = data::read_documents(path, options.documents, bad, stop);
    if (documents.skipped_bad_utf8 > 0) {
      log_warning(concat(path.string(), ": ", counted(documents.skipped_bad_utf8, "lines"),
                         " of invalid UTF-8 left out"));
    }
    return documents;
  };
  Texts texts{.train = read(options.train), .valid = {}, .valid_name = options.valid.string()};
  if (!options.valid.empty()) {
    texts.valid = read(options.valid);
  } else if (options.valid_share > 0) {
    texts.valid = data::split_off(texts.train, options.valid_share);
    texts.valid_name = concat("the last ", 100 * options.valid_share, " % of ", options.train.string());
  }
  return texts;
}

// Trains on the training text alone, which is a file of its own if a part was held out.
LmTokenizer make_tokenizer(const LmJob& job, const Texts& texts, const std::filesystem::path& cache,
                           const std::atomic<bool>* stop) {
  if (!is_trained(job.corpus.tokenizer)) return open_lm_tokenizer(job.corpus.tokenizer);
  text::TokenizerTraining training{
      .inputs = {job.corpus.train},
      .kind = job.corpus.tokenizer == kBpe ? text::TokenizerKind::bpe : text::TokenizerKind::chars,
      .vocab_size = job.corpus.vocab_size,
      .skip_bad_utf8 = job.corpus.skip_bad_utf8};
  const bool held_out = job.corpus.valid.empty() && job.has_validation();
  if (!held_out) return trained_lm_tokenizer(text::train_tokenizer(training, stop), job.corpus.documents);
  const std::filesystem::path part = cache / "train.txt";
  AtomicFile file(part);
  for (const std::string& text : texts.train.texts) {
    file.write(text);
    if (job.corpus.documents != data::DocumentBounds::none) file.write("\n\n");
  }
  file.commit();
  training.inputs = {part};
  LmTokenizer tokenizer = trained_lm_tokenizer(text::train_tokenizer(training, stop), job.corpus.documents);
  std::filesystem::remove(part);
  return tokenizer;
}

// The configuration of the folder's model, and its special tokens as the tokenizer's.
models::LanguageModelConfig config_of(const LmJob& job, const StartFolder& start, LmTokenizer& tokenizer) {
  models::LanguageModelConfig config = start.language_model_config();
  config.embedding.dropout = job.shape.dropout;
  config.decoder.set_dropout(job.shape.dropout, job.shape.attention_dropout);
  config.decoder.drop_path = job.shape.drop_path;
  if (tokenizer.tokenizer.size() > config.vocabulary) {
    throw DataError(concat(start.from().string(), ": expected a tokenizer of at most the model's ",
                           config.vocabulary, " tokens, found ", tokenizer.tokenizer.size()));
  }
  if (config.eos_ids.empty()) config.eos_ids = {tokenizer.end};
  tokenizer.end = config.eos_ids.front();
  tokenizer.start = config.bos_ids.empty() ? tokenizer.end : config.bos_ids.front();
  return config;
}

void report(const std::string& name, const data::TokenDocuments& documents) {
  log_info(concat(name, ": ", counted(documents.documents(), "documents"), ", ",
                  counted(documents.tokens(), "tokens"), " of ", counted(documents.bytes, "bytes")));
  if (documents.unknown == 0) return;
  log_warning(concat(name, ": ", documents.unknown, " of ", documents.tokens(),
                     " tokens stand for characters outside the vocabulary (<unk>)"));
}

}  // namespace

LmJob::LmJob() {
  options.schedule.kind = ScheduleKind::cosine;
  options.schedule.warmup_steps = 100;
  options.adam = {.beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .weight_decay = 0.1f};
}

std::vector<std::string> lm_preset_names() {
  std::vector<std::string> names = models::shape_preset_names();
  names.emplace_back(kCharacters);
  return names;
}

void LmJob::use_preset(std::string_view name) {
  if (name != kCharacters) {
    shape = models::shape_preset(name);
    return;
  }
  blocks = LmBlocks::llama;
  shape = {.layers = 6,
           .d_model = 256,
           .heads = 4,
           .d_ff = 704,
           .max_positions = 256,
           .dropout = 0.1f,
           .attention_dropout = 0};
}

Job::Defaults LmJob::short_run() const {
  if (!from.empty()) return {};
  return {{"model.blocks", "llama"},          {"model.layers", "2"},
          {"model.d_model", "128"},           {"model.heads", "2"},
          {"model.max_positions", "256"},     {"train.batch_tokens", "1024"},
          {"schedule.learning_rate", "0.002"}};
}

void LmJob::complete_task(const std::set<std::string>& given) {
  if (!from.empty()) {
    refuse_settings_of_folder(given, {"tokenizer."});
    const models::ModelShape wanted = shape;
    const models::LanguageModelConfig own =
        StartFolder(from, models::FolderKind::language, {}, /*resumes=*/false).language_model_config();
    shape = shape_of(own.decoder, own.max_positions);
    take_given(shape, wanted, given);
    corpus.tokenizer = field_text(from);
    if (!given.contains("schedule.learning_rate")) options.schedule.learning_rate = 5e-5f;
    limit_fine_tuning(options, given);
    return;
  }
  if (corpus.tokenizer == kChars && !given.contains("data.documents"))
    corpus.documents = data::DocumentBounds::none;
  if (!is_trained(corpus.tokenizer)) corpus.tokenizer = field_text(std::filesystem::path(corpus.tokenizer));
  if (blocks == LmBlocks::llama && !given.contains("model.d_ff"))
    shape.d_ff = (8 * shape.d_model / 3 + 31) / 32 * 32;  // as many weights as two matrices of 4 d_model
}

void LmJob::refuse_unused(const std::set<std::string>& given) const {
  if (corpus.tokenizer != kBpe)
    refuse_given(given, {"tokenizer.vocab_size"}, "without tokenizer.source = bpe");
  if (!corpus.valid.empty() && corpus.valid_share > 0)
    refuse_given(given, {"data.valid_share"}, "with data.valid");
}

void LmJob::check() const {
  if (corpus.train.empty()) throw UsageError("data.train: expected a file of training text, found none");
  options.validate();
  task.validate();
  if (from.empty()) config_of(*this, 2, 0, 1);
  if (!(corpus.valid_share >= 0 && corpus.valid_share < 1)) {
    throw UsageError(concat("data.valid_share: expected 0 to below 1, found ", corpus.valid_share));
  }
  if (corpus.tokenizer.empty()) {
    throw UsageError("tokenizer.source: expected bpe, chars or a tokenizer's folder, found none");
  }
  if (corpus.valid.empty() && corpus.valid_share == 0 && options.patience > 0) {
    throw UsageError(concat("train.patience: expected 0 without validation text, found ", options.patience));
  }
  for (const auto& [field, file] : {std::pair("data.train", &corpus.train), {"data.valid", &corpus.valid}}) {
    if (file->empty()) continue;
    text::require_readable_again(field, *file, "a resumed run reads it again");
    std::string line;
    if (!text::LineReader(*file).next(line))
      throw DataError(concat(file->string(), ": expected text, found an empty file"));
  }
}

std::unique_ptr<Task> LmJob::make_task(bool resumes, TrainObserver& observer,
                                       const std::atomic<bool>* stop) const {
  observer.on_stage("reading the text");
  Texts texts;
  if (!node || node->is_first()) texts = read_texts(*this, stop);
  const std::filesystem::path cache = folder / "cache";
  make_writable_folder(cache);
  if (!resumes && is_trained(corpus.tokenizer)) observer.on_stage("training the tokenizer");
  LmTokenizer tokenizer = resumes ? open_lm_tokenizer(folder) : make_tokenizer(*this, texts, cache, stop);

  std::optional<StartFolder> start;
  models::LanguageModelConfig config;
  if (from.empty()) {
    config = config_of(*this, tokenizer.tokenizer.size(), tokenizer.start, tokenizer.end);
  } else {
    start.emplace(from, models::FolderKind::language, folder, resumes);
    config = config_of(*this, *start, tokenizer);
  }

  observer.on_stage("tokenizing");
  data::DocumentTokens special{.start = tokenizer.start, .end = tokenizer.end, .unknown = tokenizer.unknown};
  if (corpus.documents == data::DocumentBounds::none) special.start = special.end = std::nullopt;
  const auto tokenize = [&](data::Documents& documents, const std::string& name) {
    data::TokenDocuments tokens = once_a_node<data::TokenDocuments>(node, [&] {
      return data::tokenize_documents(std::exchange(documents, {}), tokenizer.tokenizer, special, stop);
    });
    if (tokens.labels() == 0) {
      throw DataError(concat(name, ": expected text of two or more tokens, found ", tokens.tokens()));
    }
    report(name, tokens);
    return tokens;
  };
  data::TokenDocuments train = tokenize(texts.train, corpus.train.string());
  if (corpus.documents == data::DocumentBounds::none && train.labels() < shape.max_positions) {
    log_warning(concat(corpus.train.string(), ": ", train.tokens(),
                       " tokens are fewer than model.max_positions = ", shape.max_positions,
                       ": the model learns nothing about longer texts"));
  }
  std::optional<data::TokenDocuments> valid;
  if (has_validation()) valid = tokenize(texts.valid, texts.valid_name);
  const std::string family = start               ? start->family()
                             : shape.experts > 0 ? "mixtral"
                                                 : field_text(words(blocks), blocks);
  return std::make_unique<LmTask>(LmTask::Inputs{.config = config,
                                                 .family = family,
                                                 .options = task,
                                                 .tokenizer = std::move(tokenizer),
                                                 .bounds = corpus.documents,
                                                 .train = std::move(train),
                                                 .valid = std::move(valid),
                                                 .start = std::move(start),
                                                 .fields = task_fields()});
}

void LmJob::list(Settings& all) {
  all.add("model.blocks", blocks, kDecidesWeights)
      .flag({"|", "Kind of the blocks; with --preset characters: llama"});
  all.add_model(shape);
  all.flag("model.max_positions", {"TOKENS", "Maximum number of tokens that the model reads", "--context"});
  all.flag("model.dropout", {"RATE", "Dropout of the embeddings and after each sublayer; 0: none"});
  // Files may move: their tokens' fingerprint identifies them.
  all.add("data.train", corpus.train, kBookkeeping)
      .flag({"FILE", "Training text (default: the resumed run's)"});
  all.add("data.valid", corpus.valid, kBookkeeping)
      .flag({"FILE", "Validation text (default: the end of the training text)"});
  all.add("data.valid_share", corpus.valid_share, kDecidesWeights)
      .flag({"SHARE",
             "Share of the training text to hold out for validation without --valid; 0: no validation"});
  all.add("data.documents", corpus.documents, kDecidesWeights)
      .flag({"|", "What ends a document; none: the file is one text (default with --tokenizer chars: none)"});
  all.add("data.skip_bad_utf8", corpus.skip_bad_utf8, kDecidesWeights)
      .flag({"", "Skip lines that are not UTF-8"});
  all.add("model.from", from, kDecidesWeights)
      .flag({"DIR",
             "Folder of a language model (gpt2, llama, ...) to start from, with its tokenizer (default: "
             "random weights)"});
  all.add("tokenizer.source", corpus.tokenizer, kDecidesWeights)
      .flag({"bpe|chars|DIR", "Train byte-level BPE, take the text's characters, or use a folder's tokenizer",
             "--tokenizer"});
  all.add("tokenizer.vocab_size", corpus.vocab_size, kDecidesWeights)
      .flag({"N", "Tokens of --tokenizer bpe; fewer if the text yields fewer"});
  list_settings(all, task);
}

}  // namespace qkv::train
