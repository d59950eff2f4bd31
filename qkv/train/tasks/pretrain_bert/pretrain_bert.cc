#include "qkv/train/tasks/pretrain_bert/pretrain_bert.h"
#include "qkv/train/ranks/node_share.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/text/text_file.h"
#include "qkv/train/fields.h"

namespace qkv::train {
namespace {

StartFolder open_start(const std::filesystem::path& from, const std::filesystem::path& run, bool resumes) {
  StartFolder start(from, models::FolderKind::encoder, run, resumes);
  if (start.family() != "bert") {
    throw UsageError(concat("model.from ", from.string(), ": expected the folder of a BERT, found \"",
                            start.family(), "\""));
  }
  return start;
}

// The folder's encoder with the heads of pretraining and the run's rates of dropout.
models::TextEncoderConfig config_of(const StartFolder& start, const models::ModelShape& shape, bool pairs) {
  models::TextEncoderConfig config = start.text_encoder_config();
  config.labelled = models::ClassificationTarget::nothing;
  config.labels.clear();
  config.embedding.dropout = shape.dropout;
  config.encoder.set_dropout(shape.dropout, shape.attention_dropout);
  config.encoder.drop_path = shape.drop_path;
  return with_pretraining_heads(std::move(config), pairs);
}

data::SentenceDocuments read_text(const std::filesystem::path& path, const BertTokenizer& tokenizer,
                                  const data::SegmentOptions& segments, data::OnBadLine bad_utf8,
                                  const std::atomic<bool>* stop) {
  data::SentenceDocuments text =
      data::read_sentence_documents(path, tokenizer.tokenizer,
                                    {.max_tokens = segments.max_length - segments.special_tokens(),
                                     .unknown = tokenizer.unknown(),
                                     .bad_utf8 = bad_utf8},
                                    stop);
  if (segments.pairs) data::require_documents_for_pairs(text.counts(), path);
  log_info(concat(path.string(), ": ", text.summary()));
  if (text.unknown == text.tokens()) {
    throw DataError(concat(path.string(),
                           ": expected text in the characters of the vocabulary, found none: all ",
                           text.tokens(), " tokens are unknown"));
  }
  constexpr int64_t kFew = 100;
  if (text.unknown > text.tokens() / kFew) {
    log_warning(concat(path.string(), ": ", text.unknown, " of ", text.tokens(),
                       " tokens are unknown: the vocabulary lacks their characters; they are not predicted"));
  }
  if (text.cut > text.sentences() / kFew) {
    log_warning(concat(path.string(), ": ", text.cut, " of ", text.sentences(),
                       " sentences are longer than train.max_length = ", segments.max_length,
                       " allows, and were cut"));
  }
  return text;
}

}  // namespace

PretrainBertJob::PretrainBertJob() {
  options.schedule.kind = ScheduleKind::linear;
  options.schedule.warmup_steps = 200;
  options.schedule.learning_rate = 1e-3f;
  options.adam.weight_decay = 0.01f;  // Devlin et al. 2019, appendix A.2
  options.best_by = "loss";
}

TrainOptions PretrainBertJob::trainer_options() const {
  TrainOptions result = options;
  result.schedule.d_model = shape.d_model;
  return result;
}

void PretrainBertJob::use_preset(std::string_view name) {
  shape = models::shape_preset(name);
  shape.max_positions = task.segments.max_length;
  positions_follow_length_ = true;
}

Job::Defaults PretrainBertJob::short_run() const {
  if (!from.empty()) return {};
  return {{"model.layers", "2"},          {"model.d_model", "128"},
          {"model.heads", "2"},           {"model.d_ff", "512"},
          {"train.max_length", "64"},     {"train.length_warmup", "16:1200"},
          {"train.batch_tokens", "1024"}, {"schedule.learning_rate", "0.002"}};
}

void PretrainBertJob::complete_task(const std::set<std::string>& given) {
  if (from.empty()) return;
  refuse_settings_of_folder(given, {"vocabulary."});
  const models::ModelShape wanted = shape;
  const models::TextEncoderConfig own = open_start(from, {}, /*resumes=*/false).text_encoder_config();
  shape = shape_of(own.encoder, own.max_positions.value_or(0));
  take_given(shape, wanted, given);
  positions_follow_length_ = false;
  if (!given.contains("train.max_length"))
    task.segments.max_length = std::min(task.segments.max_length, shape.max_positions);
  if (!given.contains("schedule.learning_rate")) options.schedule.learning_rate = 5e-5f;
  limit_fine_tuning(options, given);
}

void PretrainBertJob::refuse_unused(const std::set<std::string>& given) const {
  if (!vocabulary.tokenizer.empty())
    refuse_given(given, {"vocabulary.size", "vocabulary.cased"},
                 "with vocabulary.tokenizer, which has its own");
  if (task.no_nsp) {
    refuse_given(given, {"train.short_share", "train.halves", "train.neighbours", "train.nsp_from"},
                 "with train.no_nsp, which makes no pairs");
  }
}

void PretrainBertJob::check() const {
  if (train.empty()) throw UsageError("data.train: expected a file of training text, found none");
  trainer_options().validate();
  task.validate();
  validate_model(shape);
  if (shape.max_positions < task.segments.max_length) {
    throw UsageError(concat("model.max_positions: expected at least train.max_length = ",
                            task.segments.max_length, ", found ", shape.max_positions));
  }
  if (valid.empty() && options.patience > 0)
    throw UsageError(
        concat("train.patience: expected 0 without a validation file, found ", options.patience));
  text::require_readable_again("data.train", train, "it is read several times");
  text::require_readable_again("data.valid", valid, "it is read several times");
  for (const std::filesystem::path& file : {train, valid}) {
    if (file.empty()) continue;
    const data::DocumentCounts counts = data::count_documents(file);
    if (!task.no_nsp) data::require_documents_for_pairs(counts, file);
  }
}

std::unique_ptr<Task> PretrainBertJob::make_task(bool resumes, TrainObserver& observer,
                                                 const std::atomic<bool>* stop) const {
  std::optional<StartFolder> start;
  if (!from.empty()) start = open_start(from, folder, resumes);
  const bool trains = !resumes && !start && vocabulary.tokenizer.empty();
  observer.on_stage(trains ? "training the vocabulary" : "reading the vocabulary");
  BertTokenizer tokenizer = trains
                                ? train_bert_tokenizer({.inputs = {train},
                                                        .kind = text::TokenizerKind::wordpiece,
                                                        .vocab_size = vocabulary.size,
                                                        .lowercase = !vocabulary.cased,
                                                        .skip_bad_utf8 = bad_utf8 == data::OnBadLine::skip},
                                                       stop)
                                : open_bert_tokenizer(resumes ? folder
                                                      : start ? from
                                                              : vocabulary.tokenizer);
  observer.on_stage("tokenizing");
  const data::SegmentOptions segments = task.segment_options();
  const auto read = [&](const std::filesystem::path& path) {
    return once_a_node<data::SentenceDocuments>(
        node, [&] { return read_text(path, tokenizer, segments, bad_utf8, stop); });
  };
  data::SentenceDocuments text = read(train);
  std::optional<data::SentenceDocuments> held_out;
  if (!valid.empty()) held_out = read(valid);
  log_info(concat("the entropy of single tokens of the training text: ", text.unigram_entropy(), " nats"));
  models::TextEncoderConfig config;
  if (start) {
    config = config_of(*start, shape, segments.pairs);
    start->tokenizer(config.vocabulary);  // fits the model
  } else {
    config = with_pretraining_heads(models::bert(shape, tokenizer.tokenizer.size()), segments.pairs);
  }
  return std::make_unique<PretrainBertTask>(PretrainBertTask::Inputs{.config = config,
                                                                     .options = task,
                                                                     .tokenizer = std::move(tokenizer),
                                                                     .train = std::move(text),
                                                                     .valid = std::move(held_out),
                                                                     .start = std::move(start),
                                                                     .fields = task_fields()});
}

bool PretrainBertJob::set_field(std::string_view name, std::string_view value) {
  if (name == "model.max_positions") positions_follow_length_ = false;
  const bool known = Job::set_field(name, value);
  if (positions_follow_length_) shape.max_positions = task.segments.max_length;
  return known;
}

void PretrainBertJob::list(Settings& all) {
  // Files may move: their tokens' fingerprint identifies them.
  all.add("model.from", from, kDecidesWeights)
      .flag({"DIR",
             "Folder of a BERT to continue, with its tokenizer; heads that it lacks are new (default: random "
             "weights)"});
  all.add("vocabulary.tokenizer", vocabulary.tokenizer, kDecidesWeights)
      .flag({"DIR",
             "Folder with a WordPiece tokenizer to use (tokenizer.json or vocab.txt) (default: one is "
             "trained)"});
  all.add("vocabulary.size", vocabulary.size, kDecidesWeights)
      .flag(
          {"N", "Size of the vocabulary to train; smaller if the text yields fewer pieces", "--vocab-size"});
  all.add("vocabulary.cased", vocabulary.cased, kDecidesWeights)
      .flag({"", "Keep case and accents in the vocabulary to train"});
  all.add("data.train", train, kBookkeeping)
      .flag({"FILE",
             "Training text, one sentence per line, a blank line between documents (default: the resumed "
             "run's)"});
  all.add("data.valid", valid, kBookkeeping).flag({"FILE", "Validation text, likewise (default: none)"});
  all.add("data.skip_bad_utf8", bad_utf8, kDecidesWeights).flag({"", "Skip lines that are not UTF-8"});
  all.add_model(shape);
  all.flag("model.dropout", {"RATE", "Dropout of the embeddings and after each sublayer; 0: none"});
  list_settings(all, task);
}

}  // namespace qkv::train
