#include "qkv/train/tasks/embed/embed_task.h"

#include <algorithm>
#include <array>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/models/rows_at.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/scale.h"
#include "qkv/ops/general/slice.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/train/fields.h"
#include "qkv/train/tasks/embed/embed_loss.h"

namespace qkv::pipelines {

static Words<Pooling> words(Pooling) {
  static constexpr std::array<std::pair<std::string_view, Pooling>, 4> kWords{
      {{"mean", Pooling::mean}, {"cls", Pooling::cls}, {"max", Pooling::max}, {"last", Pooling::last_token}}};
  return kWords;
}

}  // namespace qkv::pipelines

namespace qkv::train {

static Words<EmbedLoss> words(EmbedLoss) {
  static constexpr std::array<std::pair<std::string_view, EmbedLoss>, 4> kWords{
      {{"auto", EmbedLoss::automatic},
       {"contrastive", EmbedLoss::contrastive},
       {"cosent", EmbedLoss::cosent},
       {"cosine_mse", EmbedLoss::cosine_mse}}};
  return kWords;
}

namespace {

EmbedLoss resolved(EmbedLoss loss, const EmbedPairs& pairs) {
  if (loss == EmbedLoss::automatic) return pairs.scored() ? EmbedLoss::cosent : EmbedLoss::contrastive;
  if (loss != EmbedLoss::contrastive && !pairs.scored()) {
    throw UsageError(concat("train.loss = ", field_text(words(loss), loss),
                            ": expected lines of a score and two sentences, found pairs without scores"));
  }
  return loss;
}

// The training's loss, or the usual one of the held-out pairs if they lack or have scores.
EmbedLoss validation_loss(EmbedLoss trained, const std::optional<EmbedPairs>& pairs) {
  if (!pairs || pairs->scored() == (trained != EmbedLoss::contrastive)) return trained;
  return resolved(EmbedLoss::automatic, *pairs);
}

float score_max_of(const EmbedTaskOptions& options, const EmbedPairs& pairs) {
  if (options.score_max > 0 || !pairs.scored()) return options.score_max;
  const float largest = *std::ranges::max_element(pairs.scores);
  if (options.loss == EmbedLoss::cosine_mse && !(largest > 0)) {
    throw UsageError(
        concat("train.score_max: expected a score above 0 in the training file, found at most ", largest));
  }
  return largest;
}

// The folder's encoder without heads, in a form that its family can express.
models::TextEncoderConfig encoder_config(const StartFolder& start, const EmbedTaskOptions& options) {
  models::TextEncoderConfig config = start.text_encoder_config();
  config.masked_language = config.next_sentence = false;
  config.labelled = models::ClassificationTarget::nothing;
  config.labels.clear();
  config.pad_ids.clear();
  if (options.dropout >= 0) {
    config.embedding.dropout = options.dropout;
    config.encoder.set_dropout(options.dropout, options.dropout);
  }
  config.encoder.drop_path = options.drop_path;
  // BERT's class without heads has a pooler, which is then unused.
  const models::EncoderFamily* const family = models::find_family(models::encoder_families(), start.family());
  config.pooler = true;
  config.pooler = family->fits(config);
  models::require_expressible(config, start.family());
  return config;
}

}  // namespace

void list_settings(Settings& all, EmbedTaskOptions& o) {
  const Range finite_above_0{.least = 0,
                             .most = std::numeric_limits<double>::max(),
                             .without_least = true,
                             .expected = "more than 0"};
  const Range less_than_1{.most = 1, .without_most = true, .expected = "less than 1"};
  all.add("train.loss", o.loss, kDecidesWeights)
      .flag({"|",
             "Loss; auto: cosent with scores, contrastive without\n  contrastive: each sentence finds its "
             "own among the second sentences of the batch\n  cosent: cosines are ranked like scores\n  "
             "cosine_mse: the cosine is the score, divided by --score-max"});
  all.add("train.temperature", o.temperature, kDecidesWeights, finite_above_0)
      .flag({"NUMBER", "Divisor of cosines in contrastive and cosent"});
  all.add("train.symmetric", o.symmetric, kDecidesWeights).flag({"", "Contrastive in both directions"});
  all.add("train.score_max", o.score_max, kDecidesWeights, at_least(0))
      .flag({"SCORE", "Score of cosine 1, for cosine_mse; 0: the largest of the training file"});
  all.add("train.batch_pairs", o.batch_pairs, kDecidesWeights, at_least(1))
      .flag({"PAIRS", "Pairs per batch; more are more negatives for contrastive"});
  all.add("train.max_length", o.max_length, kDecidesWeights, at_least(1))
      .flag({"TOKENS",
             "Maximum tokens of a sentence, special tokens included; the rest is cut off (a folder of "
             "sentence-transformers: its own)"});
  all.add("model.pooling", o.pooling, kDecidesWeights)
      .flag({"|", "Pooling of token vectors into one vector (a folder of sentence-transformers: its own)",
             "--pool"});
  all.add("model.normalize", o.normalize, kDecidesWeights);
  all.add("model.dropout", o.dropout, kDecidesWeights, less_than_1)
      .flag({"RATE", "Dropout everywhere; -1: as in the folder; 0: none"});
  all.add("model.drop_path", o.drop_path, kDecidesWeights, below_one());
}

void EmbedTaskOptions::validate() const { validate_settings(*this); }

EmbedTask::EmbedTask(Inputs inputs)
    : ModelTask(encoder_config(inputs.start, inputs.options), std::move(inputs.fields)),
      inputs_(std::move(inputs)),
      loss_(resolved(inputs_.options.loss, inputs_.train)),
      valid_loss_(validation_loss(loss_, inputs_.valid)),
      score_max_(score_max_of(inputs_.options, inputs_.train)) {
  inputs_.options.validate();
}

TaskInfo EmbedTask::info() const {
  return {.name = "embed",
          .items = "pairs",
          .units = "tokens",
          .train_items = inputs_.train.pairs(),
          .valid_items = inputs_.valid ? inputs_.valid->pairs() : 0,
          .sizes = {{"vocabulary", model_.config().vocabulary}}};
}

std::vector<Field> EmbedTask::data_fields() const {
  return {{"data.fingerprint", std::to_string(inputs_.train.fingerprint())},
          {"valid.fingerprint", inputs_.valid ? std::to_string(inputs_.valid->fingerprint()) : "0"}};
}

std::unique_ptr<BatchStream> EmbedTask::batches(uint64_t seed, data::CursorState from) const {
  const std::vector<int64_t> costs(static_cast<size_t>(inputs_.train.pairs()), 1);
  return stream_of(data::BatchCursor(costs, {.budget = inputs_.options.batch_pairs, .seed = seed}, from),
                   [this](const data::Batch& pairs) { return make_batch(inputs_.train, pairs.items); });
}

Variable EmbedTask::pair_loss(EmbedLoss kind, const Variable& first, const Variable& second,
                              const EmbedBatch& batch) const {
  const EmbedTaskOptions& options = inputs_.options;
  switch (kind) {
    case EmbedLoss::cosent:
      return scaled(cosent_loss(first, second, batch.scores, options.temperature),
                    static_cast<float>(batch.size.items));
    case EmbedLoss::cosine_mse: {
      std::vector<float> targets = batch.scores;
      for (float& target : targets) target /= score_max_;
      return cosine_mse_loss(first, second, targets);
    }
    case EmbedLoss::automatic:
    case EmbedLoss::contrastive:
      break;
  }
  return contrastive_loss(first, second,
                          {.temperature = options.temperature,
                           .symmetric = options.symmetric,
                           .first_keys = batch.first_keys,
                           .second_keys = batch.second_keys});
}

BatchLoss EmbedTask::loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const {
  const auto& own = static_cast<const EmbedBatch&>(batch);
  const Ragged ids = own.rows.ragged();
  const Variable vectors = pooled_rows(model_(ids, context), ids.offsets, inputs_.options.pooling);
  const int64_t n = own.size.items;
  const Variable sum = pair_loss(loss_, slice(vectors, 0, 0, n), slice(vectors, 0, n, n), own);
  return {scaled(sum, 1.0f / static_cast<float>(step.labels)),
          {{"loss", CurveSum(sum), static_cast<double>(n)}}};
}

void EmbedTask::begin(const std::filesystem::path& folder) const {
  inputs_.start.begin(folder);
  const EmbedTaskOptions& options = inputs_.options;
  const int64_t length = std::min(options.max_length, model_.config().max_positions.value_or(INT64_MAX));
  pipelines::write_sentence_transformer(
      folder,
      {.vector = {.pooling = options.pooling, .normalize = options.normalize},
       .max_length = length,
       .prompt = {}},
      model_.config().embedding.d_model);
}

void EmbedTask::export_model(const std::filesystem::path& folder) const {
  models::save_text_encoder(folder, model_, inputs_.start.family());
  pipelines::write_proof(folder);
}

Variable pooled_rows(const Variable& hidden, const Offsets& offsets, pipelines::Pooling pooling) {
  switch (pooling) {
    case pipelines::Pooling::max:
      return segment_max(hidden, offsets);
    case pipelines::Pooling::cls:
      return models::rows_at(hidden, hidden.value().cols(), offsets);
    case pipelines::Pooling::last_token:
      return models::rows_at(hidden, hidden.value().cols(), offsets, models::kLastToken);
    case pipelines::Pooling::mean:
      return segment_mean(hidden, offsets);
    default:
      throw UsageError("model.pooling: expected mean, cls, max or last, found another");
  }
}

}  // namespace qkv::train
