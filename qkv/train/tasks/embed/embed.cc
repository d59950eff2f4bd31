#include "qkv/train/tasks/embed/embed.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/data/sentence_pairs.h"
#include "qkv/pipelines/embed.h"
#include "qkv/text/lines.h"
#include "qkv/text/text_file.h"
#include "qkv/train/fields.h"
#include "qkv/train/ranks/node_share.h"
#include "qkv/train/tasks/start_folder.h"

namespace qkv::train {
EmbedJob::EmbedJob() {
  options.schedule = {.kind = ScheduleKind::linear, .warmup_steps = 100, .learning_rate = 2e-5f};
  options.adam.weight_decay = 0.01f;
  options.optimizer.average_decay = 0;
}

void EmbedJob::list(Settings& all) {
  all.add("model.from", from, kDecidesWeights)
      .flag({"DIR",
             "Folder of the text encoder (bert, modernbert, t5, ...) or language model to start from, or a "
             "folder of "
             "sentence-transformers (default: the resumed run's)"});
  all.add("data.train", train, kBookkeeping)
      .flag({"FILE",
             "Training pairs: lines of SCORE<TAB>SENTENCE<TAB>SENTENCE, or of SENTENCE<TAB>SENTENCE for "
             "pairs that belong together (default: the resumed run's)"});
  all.add("data.valid", valid, kBookkeeping)
      .flag({"FILE", "Validation pairs, of either form (default: none)"});
  list_settings(all, task);
}

void EmbedJob::use_preset(std::string_view name) {
  if (!name.empty())
    throw UsageError(concat("preset: expected none, as the model is that of model.from, found '", name, "'"));
}

void EmbedJob::complete_task(const std::set<std::string>& given) {
  limit_fine_tuning(options, given);
  if (from.empty() || !std::filesystem::exists(from / "modules.json")) return;
  const pipelines::TextEmbedOptions own = pipelines::TextEmbedder(from).default_options();
  if (!own.prompt.empty()) {
    log_warning(concat(from.string(), ": its prompt \"", own.prompt,
                       "\" is not used: training and the exported model have none"));
  }
  if (own.dense)
    throw UsageError(
        concat(from.string(), ": expected no Dense modules, as they are not trained, found some"));
  using pipelines::Pooling;
  if (own.vector.pooling == Pooling::weighted_mean || own.vector.pooling == Pooling::mean_sqrt_len) {
    throw UsageError(concat(
        from.string(), ": expected a pooling that can be trained (mean, cls, max, last), found another"));
  }
  if (!given.contains("model.pooling")) task.pooling = own.vector.pooling;
  if (!given.contains("model.normalize")) task.normalize = own.vector.normalize;
  if (!given.contains("train.max_length") && own.max_length) task.max_length = *own.max_length;
}

// By the loss, and without one by the pairs.
void EmbedJob::refuse_unused(const std::set<std::string>& given) const {
  EmbedLoss loss = task.loss;
  if (loss == EmbedLoss::automatic) {
    const bool uses_all = !given.contains("train.symmetric") && !given.contains("train.score_max");
    if (uses_all || !std::filesystem::is_regular_file(train)) return;
    data::SentencePair pair;
    data::SentencePairReader(train).next(pair);
    loss = pair.score ? EmbedLoss::cosent : EmbedLoss::contrastive;
  }
  const char* const where = loss == EmbedLoss::cosent       ? "with the loss cosent"
                            : loss == EmbedLoss::cosine_mse ? "with the loss cosine_mse"
                                                            : "with the loss contrastive";
  if (loss != EmbedLoss::contrastive && task.symmetric) refuse_given(given, {"train.symmetric"}, where);
  if (loss != EmbedLoss::cosine_mse) refuse_given(given, {"train.score_max"}, where);
  if (loss == EmbedLoss::cosine_mse) refuse_given(given, {"train.temperature"}, where);
}

void EmbedJob::check() const {
  if (from.empty()) throw UsageError("model.from: expected the folder of a text encoder, found none");
  if (train.empty()) throw UsageError("data.train: expected a file of sentence pairs, found none");
  trainer_options().validate();
  task.validate();
  if (valid.empty() && options.patience > 0)
    throw UsageError(concat("train.patience: expected 0 without validation data, found ", options.patience));
  for (const auto& [field, file] : {std::pair("data.train", &train), {"data.valid", &valid}}) {
    if (file->empty()) continue;
    text::require_readable_again(field, *file, "a resumed run reads it again");
    const text::LineReader opens(*file);  // throws if it cannot be opened
  }
}

std::unique_ptr<Task> EmbedJob::make_task(bool resumes, TrainObserver& observer,
                                          const std::atomic<bool>* stop) const {
  const StartFolder start(from, models::FolderKind::encoder, folder, resumes);
  const models::TextEncoderConfig config = start.text_encoder_config();
  const text::Tokenizer tokenizer = start.tokenizer(config.vocabulary);
  const int64_t length = std::min(task.max_length, config.max_positions.value_or(task.max_length));
  observer.on_stage("tokenizing");
  const auto read = [&](const std::filesystem::path& file) {
    return once_a_node<EmbedPairs>(node, [&] { return EmbedPairs::read(file, tokenizer, length, stop); });
  };
  EmbedPairs pairs = read(train);
  std::optional<EmbedPairs> held_out;
  if (!valid.empty()) held_out = read(valid);
  return std::make_unique<EmbedTask>(EmbedTask::Inputs{.start = start,
                                                       .options = task,
                                                       .train = std::move(pairs),
                                                       .valid = std::move(held_out),
                                                       .fields = task_fields()});
}

}  // namespace qkv::train
