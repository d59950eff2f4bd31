#include "qkv/train/tasks/translation/translation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"
#include "qkv/train/fields.h"
#include "qkv/train/ranks/node_share.h"

namespace qkv::text {

static Words<SubwordKind> words(SubwordKind) {
  static constexpr std::array<std::pair<std::string_view, SubwordKind>, 2> kWords{
      {{"unigram", SubwordKind::unigram}, {"bpe", SubwordKind::bpe}}};
  return kWords;
}

}  // namespace qkv::text

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

std::string model_for(const TranslationJob& job, const std::filesystem::path& given,
                      std::vector<std::filesystem::path> texts, const std::atomic<bool>* stop) {
  if (!given.empty()) return read_file(given);
  text::TrainedLines lines;
  std::string model = text::train_sentencepiece({.inputs = std::move(texts),
                                                 .vocab_size = job.vocabulary.size,
                                                 .smaller_if_needed = true,
                                                 .kind = job.vocabulary.kind,
                                                 .character_coverage = job.vocabulary.character_coverage,
                                                 .max_sentences = job.vocabulary.lines,
                                                 .seed = job.options.seed,
                                                 .byte_fallback = job.vocabulary.byte_fallback,
                                                 .skip_bad_utf8 = job.bad_utf8 == data::OnBadLine::skip},
                                                stop, &lines);
  const bool sampled = lines.used == job.vocabulary.lines && lines.used < lines.lines;
  log_info(concat("vocabulary: trained on ", lines.used, sampled ? concat(" of ", lines.lines) : "",
                  noun(lines.used, " lines"), sampled ? ", drawn at random (vocabulary.lines)" : ""));
  return model;
}

// Training settings of a model, which do not come from the folder that a run starts from.
void take_rates(models::TransformerConfig& config, const models::TransformerConfig& from) {
  config.dropout = from.dropout;
  config.embedding_dropout = from.embedding_dropout;
  config.attention_dropout = from.attention_dropout;
  config.activation_dropout = from.activation_dropout;
  config.drop_path = from.drop_path;
}

text::TranslationTokenizer tokenizer_of(const StartFolder& start, const models::TransformerConfig& config) {
  text::TranslationTokenizer tokenizer = text::TranslationTokenizer::load(
      start.files_at(), {.source = config.source_vocabulary, .target = config.target_vocabulary});
  if (tokenizer.has_languages() || !tokenizer.around_source().before.empty()) {
    throw DataError(concat(start.from().string(),
                           ": expected a tokenizer that adds </s> alone to a text, as ",
                           "others are not trained, found one whose texts begin with <s> or a language"));
  }
  for (const text::Side side : {text::Side::source, text::Side::target}) {
    const int64_t most = side == text::Side::source ? config.source_vocabulary : config.target_vocabulary;
    if (tokenizer.size(side) > most) {
      throw DataError(concat(start.from().string(), ": expected a tokenizer of at most the model's ", most,
                             " tokens, found ", tokenizer.size(side)));
    }
    if (tokenizer.eos_id(side) == config.eos_id) continue;
    throw DataError(concat(start.from().string(), ": expected a tokenizer that ends texts with the model's ",
                           "eos_token_id, ", config.eos_id, ", found ", tokenizer.eos_id(side)));
  }
  return tokenizer;
}

text::TranslationTokenizer make_tokenizer(const TranslationJob& job, const std::atomic<bool>* stop) {
  const VocabularyOptions& options = job.vocabulary;
  text::MarianModels models{
      .source = {}, .target = {}, .source_lang = options.source_lang, .target_lang = options.target_lang};
  if (!options.model.empty()) models.source_name = options.model.string();
  if (!options.target_model.empty()) models.target_name = options.target_model.string();
  if (options.separate) {
    models.source = model_for(job, options.model, {job.train.source}, stop);
    models.target = model_for(job, options.target_model, {job.train.target}, stop);
  } else {
    models.source = model_for(job, options.model, {job.train.source, job.train.target}, stop);
  }
  return text::TranslationTokenizer::from_models(models);
}

// Warns of pairs beyond the model's positions: programs that open the folder cut texts there.
void warn_of_long_pairs(const models::TransformerConfig& config, const data::TokenStore& store,
                        bool left_out) {
  const int64_t most = config.max_tokens().value_or(std::numeric_limits<int64_t>::max());
  if (left_out && store.report().skipped_long > 0) {
    log_warning(concat("model.max_positions = ", most, ": ", store.report().skipped_long,
                       " training pairs are longer (</s> counts) and were left out"));
  }
  int64_t longer = 0, longest = 0;
  for (int64_t pair = 0; pair < store.pairs(); ++pair) {
    const int64_t tokens = std::max(store.source_length(pair), store.target_length(pair)) + 1;  // </s>
    longest = std::max(longest, tokens);
    longer += tokens > most ? 1 : 0;
  }
  if (longer == 0) return;
  log_warning(concat("model.max_positions = ", most, ": ", longer, " of ", store.pairs(),
                     " training pairs are longer, up to ", longest,
                     " tokens with </s>. They are trained on, but the model's folder allows for no texts of ",
                     "that length; train.max_length = ", most - 1, " leaves them out"));
}

}  // namespace

TrainOptions TranslationJob::trainer_options() const {
  TrainOptions result = options;
  result.schedule.d_model = config.d_model;
  return result;
}

Job::Defaults TranslationJob::short_run() const {
  if (!from.empty()) return {};
  return {{"model.encoder_layers", "2"}, {"model.decoder_layers", "2"}, {"model.d_model", "128"},
          {"model.heads", "4"},          {"model.d_ff", "512"},         {"train.batch_tokens", "2048"},
          {"schedule.kind", "cosine"}};
}

void TranslationJob::complete_task(const std::set<std::string>& given) {
  if (!from.empty()) {
    refuse_settings_of_folder(given, {"vocabulary."});
    const models::TransformerConfig wanted = config;
    config = StartFolder(from, models::FolderKind::translation, {}, /*resumes=*/false).transformer_config();
    take_given(config, wanted, given);
    complete_fine_tuning(options, given);
    return;
  }
  if (vocabulary.separate && !given.contains("model.tying")) config.tying = models::Tying::two_way;
}

void TranslationJob::refuse_unused(const std::set<std::string>& given) const {
  if (vocabulary.model.empty()) return;
  refuse_given(given,
               {"vocabulary.size", "vocabulary.lines", "vocabulary.kind", "vocabulary.character_coverage",
                "vocabulary.byte_fallback"},
               "with vocabulary.model, which has its own");
}

void TranslationJob::check() const {
  for (const auto& [file, field] :
       {std::pair(&train.source, "data.source"), {&train.target, "data.target"}}) {
    if (file->empty()) throw UsageError(concat(field, ": expected a file of training text, found none"));
  }
  trainer_options().validate();
  task.validate();
  models::TransformerConfig some;
  if (from.empty()) {
    some = config;
  } else {
    take_rates(some, config);
  }
  some.source_vocabulary = some.target_vocabulary = std::max<int64_t>(vocabulary.size, 4);
  some.eos_id = some.pad_id = some.decoder_start_id = 0;  // replaced by the tokenizer's
  validate_model(some);
  if (vocabulary.separate && from.empty() && config.shares_embeddings()) {
    throw UsageError("model.tying: expected two_way or none with separate vocabularies, found three_way");
  }
  if (vocabulary.separate && vocabulary.model.empty() != vocabulary.target_model.empty()) {
    throw UsageError("vocabulary.separate: expected both SentencePiece models or neither, found one");
  }
  if (!vocabulary.separate && !vocabulary.target_model.empty()) {
    throw UsageError(concat("vocabulary.target_model ", vocabulary.target_model.string(),
                            ": expected only with separate vocabularies"));
  }
  if (valid.source.empty() != valid.target.empty()) {
    throw UsageError("validation files: expected both or neither, found one");
  }
  if (valid.source.empty() && options.patience > 0) {
    throw UsageError(concat("train.patience: expected 0 without validation files, found ", options.patience));
  }
  text::require_readable_again("data.source", train.source, "it is read several times");
  text::require_readable_again("data.target", train.target, "it is read several times");
  text::require_readable_again("data.valid_source", valid.source, "it is read several times");
  text::require_readable_again("data.valid_target", valid.target, "it is read several times");
  require_equal_lines(train);
  if (!valid.source.empty()) require_equal_lines(valid);
}

std::unique_ptr<Task> TranslationJob::make_task(bool resumes, TrainObserver& observer,
                                                const std::atomic<bool>* stop) const {
  const std::filesystem::path cache = folder / "cache";
  observer.on_stage(resumes || !from.empty() ? "reading the vocabulary" : "training the vocabulary");
  std::optional<StartFolder> start;
  std::optional<text::TranslationTokenizer> tokenizer;
  models::TransformerConfig complete;
  if (from.empty()) {
    tokenizer = resumes ? text::TranslationTokenizer::load(folder) : make_tokenizer(*this, stop);
    complete = complete_config(config, *tokenizer);
  } else {
    start.emplace(from, models::FolderKind::translation, folder, resumes);
    complete = start->transformer_config();
    take_rates(complete, config);
    tokenizer = tokenizer_of(*start, complete);
    // Ids of another tokenizer with the same vocabulary.
    if (!resumes) std::filesystem::remove_all(cache);
  }

  data::CorpusOptions corpus{.max_length = task.max_length, .bad_utf8 = bad_utf8};
  if (complete.positions == nn::PositionKind::learned)
    corpus.max_length = std::min(corpus.max_length, complete.max_positions - 1);  // </s> needs a position too
  make_writable_folder(cache);
  observer.on_stage("tokenizing");
  // Once a node: its other ranks map the file of the first one.
  const auto tokens_of = [&](const data::CorpusFiles& files, const char* name) {
    std::optional<data::TokenStore> store;
    const std::vector<std::string> at =
        once_a_node<SharedTexts>(node, [&] {
          store = data::TokenStore::open_or_build(files, *tokenizer, cache / name, corpus, stop);
          return SharedTexts{{std::filesystem::absolute(cache / name).string()}};
        }).texts;
    return store ? *store : data::TokenStore::open(at.front());
  };
  const data::TokenStore pairs = tokens_of(train, "train.tokens");
  log_info(concat("training corpus: ", pairs.report().summary()));
  warn_of_long_pairs(complete, pairs, corpus.max_length < task.max_length);
  std::optional<ValidationSet> held_out;
  if (!valid.source.empty()) {
    held_out = ValidationSet::open(tokens_of(valid, "valid.tokens"), valid.target);
    log_info(concat("validation corpus: ", held_out->store.report().summary()));
  }
  TranslationJob recorded = *this;
  recorded.config = complete;
  return std::make_unique<TranslationTask>(TranslationTask::Inputs{.config = complete,
                                                                   .options = task,
                                                                   .tokenizer = *tokenizer,
                                                                   .train = pairs,
                                                                   .valid = std::move(held_out),
                                                                   .start = std::move(start),
                                                                   .fields = recorded.task_fields()});
}

void TranslationJob::list(Settings& all) {
  all.add_model(config);
  all.flag("model.dropout", {"RATE", "Dropout after each sublayer; 0: none"});
  list_settings(all, task);
  // Files may move: their tokens' fingerprint identifies them.
  all.add("model.from", from, kDecidesWeights)
      .flag({"DIR",
             "Folder of an encoder-decoder (Marian, T5) to start from, with its tokenizer (default: random "
             "weights)"});
  all.add("vocabulary.model", vocabulary.model, kDecidesWeights)
      .flag({"FILE", "SentencePiece model to use (default: one is trained)", "--vocab"});
  all.add("vocabulary.target_model", vocabulary.target_model, kDecidesWeights)
      .flag({"FILE", "Likewise for the target, with --separate-vocab (default: one is trained)",
             "--target-vocab"});
  all.add("vocabulary.separate", vocabulary.separate, kDecidesWeights)
      .flag({"", "Train one vocabulary per language", "--separate-vocab"});
  all.add("vocabulary.size", vocabulary.size, kDecidesWeights)
      .flag(
          {"N", "Size of the vocabulary to train; smaller if the text yields fewer pieces", "--vocab-size"});
  all.add("vocabulary.lines", vocabulary.lines, kDecidesWeights, at_least(0))
      .flag({"LINES", "Lines to train the vocabulary on, a random sample of both files; 0: all",
             "--vocab-lines"});
  all.add("vocabulary.kind", vocabulary.kind, kDecidesWeights)
      .flag({"|", "Kind of the vocabulary to train", "--vocab-kind"});
  all.add("vocabulary.character_coverage", vocabulary.character_coverage, kDecidesWeights);
  all.add("vocabulary.byte_fallback", vocabulary.byte_fallback, kDecidesWeights)
      .flag({"", "Encode rare characters as bytes, not <unk>"});
  all.add("vocabulary.source_lang", vocabulary.source_lang, kDecidesWeights)
      .flag({"CODE", "Language of the source, such as en (default: unknown)"});
  all.add("vocabulary.target_lang", vocabulary.target_lang, kDecidesWeights)
      .flag({"CODE", "Language of the target, such as de (default: unknown)"});
  all.add("data.source", train.source, kBookkeeping)
      .flag({"FILE", "Training text, one sentence per line (default: the resumed run's)", "--src"});
  all.add("data.target", train.target, kBookkeeping)
      .flag({"FILE", "Its translation, line by line (default: the resumed run's)", "--tgt"});
  all.add("data.valid_source", valid.source, kBookkeeping)
      .flag({"FILE", "Validation text (default: none)", "--valid-src"});
  all.add("data.valid_target", valid.target, kBookkeeping)
      .flag({"FILE", "Its translation (default: none)", "--valid-tgt"});
  all.add("data.skip_bad_utf8", bad_utf8, kDecidesWeights).flag({"", "Skip lines that are not UTF-8"});
}

}  // namespace qkv::train
