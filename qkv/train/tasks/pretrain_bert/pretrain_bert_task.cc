#include "qkv/train/tasks/pretrain_bert/pretrain_bert_task.h"

#include <utility>

#include "qkv/base/error.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/fields.h"
#include "qkv/train/tasks/pretrain_bert/bert_start.h"

namespace qkv::train {
namespace {

Tensor list(const std::vector<int32_t>& values) { return Tensor::from(values, {std::ssize(values)}); }

}  // namespace

void list_settings(Settings& all, PretrainBertOptions& o) {
  all.add("train.batch_tokens", o.batch_tokens, kDecidesWeights, at_least(1))
      .flag({"TOKENS", "Tokens per batch"});
  all.add("train.max_length", o.segments.max_length, kDecidesWeights)
      .flag({"TOKENS", "Length of an input, special tokens included; longer sentences are cut and counted"});
  all.add("train.length_warmup", o.length_warmup, kDecidesWeights)
      .flag({"LENGTH:BATCHES,...",
             "First batches with shorter inputs, such as 16:600,32:200, without next-sentence prediction but "
             "for --nsp-from (default: none)"});
  all.add("train.nsp_from", o.segments.pairs_from, kDecidesWeights)
      .flag({"LENGTH", "Shortest length of --length-warmup with next-sentence prediction; 0: none has it"});
  all.add("train.no_nsp", o.no_nsp, kDecidesWeights)
      .flag({"", "Masked language modelling alone, without next-sentence prediction"});
  all.add("train.short_share", o.segments.short_share, kDecidesWeights)
      .flag({"SHARE", "Pairs made for a random shorter length"});
  all.add("train.halves", o.segments.halves, kDecidesWeights)
      .flag({"", "Divide pairs near their middle, not after a random sentence"});
  all.add("train.neighbours", o.segments.neighbours, kDecidesWeights)
      .flag({"DOCUMENTS",
             "Sample negative sentences from the nearest documents, up to this many before and after; 0: "
             "from any other document"});
  all.add("train.mask_rate", o.masking.rate, kDecidesWeights).flag({"SHARE", "Tokens to predict"});
  all.add("train.mask_share", o.masking.mask_share, kDecidesWeights);
  all.add("train.random_share", o.masking.random_share, kDecidesWeights);
  all.add("train.whole_words", o.masking.whole_words, kDecidesWeights)
      .flag({"", "Mask all pieces of a word together", "--whole-word"});
}

data::SegmentOptions PretrainBertOptions::segment_options() const {
  data::SegmentOptions result = segments;
  result.pairs = !no_nsp;
  return result;
}

void PretrainBertOptions::validate() const {
  validate_settings(*this);
  segment_options().validate();
  length_warmup.validate(data::SegmentOptions{.pairs = false}.least_length(), segments.max_length);
  if (length_warmup.stages.empty() && segments.pairs_from != 0)
    throw UsageError(
        concat("train.nsp_from: expected 0 without train.length_warmup, found ", segments.pairs_from));
  const int64_t longest = length_warmup.stages.empty() ? 0 : length_warmup.stages.back().max_length;
  if (segments.pairs_from > longest) {
    throw UsageError(concat("train.nsp_from: expected a length of train.length_warmup, at most ", longest,
                            ", found ", segments.pairs_from));
  }
  masking.validate();
}

PretrainBertTask::PretrainBertTask(Inputs inputs)
    : ModelTask(inputs.config, std::move(inputs.fields)), inputs_(std::move(inputs)) {
  inputs_.options.validate();
}

TaskInfo PretrainBertTask::info() const {
  const data::SegmentOptions segments = inputs_.options.segment_options();
  const auto items = [&](const data::SentenceDocuments& documents) {
    return std::ssize(data::make_segments(documents, segments, 0, 0));
  };
  return {.name = "pretrain-bert",
          .items = segments.pairs ? "pairs" : "segments",
          .units = "tokens",
          .train_items = items(inputs_.train),
          .valid_items = inputs_.valid ? items(*inputs_.valid) : 0,
          .sizes = {{"vocabulary", inputs_.config.vocabulary}}};
}

std::vector<Field> PretrainBertTask::data_fields() const {
  return {{"vocabulary.fingerprint", field_text(inputs_.tokenizer.fingerprint())},
          {"data.fingerprint", field_text(inputs_.train.fingerprint())},
          {"valid.fingerprint", inputs_.valid ? std::to_string(inputs_.valid->fingerprint()) : "0"}};
}

std::unique_ptr<BatchStream> PretrainBertTask::batches(uint64_t seed, data::CursorState from) const {
  const PretrainBertOptions& options = inputs_.options;
  return stream_of(data::SegmentCursor(inputs_.train, options.segment_options(), options.length_warmup,
                                       options.batch_tokens, seed, from),
                   [this, seed](const data::SegmentBatch& chosen) {
                     auto batch = std::make_unique<PretrainBertBatch>();
                     batch->rows = data::make_rows(inputs_.train, chosen, inputs_.tokenizer.vocabulary,
                                                   inputs_.options.masking, seed);
                     batch->size = {.items = std::ssize(chosen.items),
                                    .units = chosen.cost,
                                    .labels = std::ssize(batch->rows.labels)};
                     return batch;
                   });
}

BatchLoss PretrainBertTask::loss(const Batch& batch, const BatchSize& step,
                                 nn::ForwardContext& context) const {
  const data::MaskedRows& rows = static_cast<const PretrainBertBatch&>(batch).rows;
  const Ragged inputs = rows.inputs.ragged();
  const Variable hidden =
      model_(inputs, context, list(rows.types), rows.positions.empty() ? Tensor() : list(rows.positions));
  // Logits over the vocabulary only where a token is to be predicted. embedding() selects rows of a table.
  const Variable selected = embedding(hidden, list(rows.masked), {}, {});
  const CrossEntropyResult masked = model_.masked_language_loss(
      selected, list(rows.labels),
      {.factor = 1.0f / static_cast<float>(step.labels), .layout = context.weight_layout()});
  const auto labels = static_cast<double>(batch.size.labels), pairs = static_cast<double>(batch.size.items);
  const CurveSum masked_sum(masked.totals, 0);
  BatchLoss result{masked.loss, {{"loss", masked_sum, labels}, {"masked_loss", masked_sum, labels}}};
  if (!model_.config().next_sentence) return result;
  if (rows.not_next.empty()) {  // of a warm-up
    result.curves.push_back({"nsp_loss", 0, 0});
    return result;
  }
  const Variable next = cross_entropy(model_.next_sentence(hidden, inputs.offsets), list(rows.not_next),
                                      {.reduction = Reduction::sum});
  const CurveSum next_sum(next);
  // The two means have different counts. Scaled by labels per pair of the step, the second sum divided by the
  // step's labels is the mean over its pairs.
  CurveSum scaled_sum = next_sum;
  scaled_sum *= static_cast<double>(step.labels) / static_cast<double>(step.items);
  result.loss = masked.loss + next * (1.0f / static_cast<float>(step.items));
  result.curves.front().sum += scaled_sum;
  result.curves.push_back({"nsp_loss", next_sum, pairs});
  return result;
}

std::vector<Metric> PretrainBertTask::metrics() const {
  std::vector<Metric> all{{.name = "masked_loss", .higher_is_better = false}, {.name = "masked_accuracy"}};
  if (!inputs_.options.no_nsp) {
    all.push_back({.name = "nsp_loss", .higher_is_better = false});
    all.push_back({.name = "nsp_accuracy"});
  }
  return all;
}

std::optional<Evaluation> PretrainBertTask::evaluate(const EvaluationRequest& request) const {
  const PretrainBertOptions& options = inputs_.options;
  data::SegmentOptions segments = options.segment_options();
  segments.neighbours = 0;  // scores of different settings are comparable
  const std::optional<PretrainingScores> scores =
      evaluate_pretraining(model_, *inputs_.valid, segments, inputs_.tokenizer.vocabulary, options.masking,
                           options.batch_tokens, request);
  if (!scores) return std::nullopt;
  Evaluation result{
      .loss = scores->loss(),
      .metrics = {{"masked_loss", scores->masked_loss}, {"masked_accuracy", scores->masked_accuracy}}};
  if (!options.no_nsp) {
    result.metrics["nsp_loss"] = scores->nsp_loss;
    result.metrics["nsp_accuracy"] = scores->nsp_accuracy;
  }
  return result;
}

void PretrainBertTask::initialise_randomly(uint64_t seed) { initialise_bert(model_, inputs_.train, seed); }

void PretrainBertTask::begin(const std::filesystem::path& folder) const {
  if (inputs_.start) inputs_.start->begin(folder);
  inputs_.tokenizer.save(folder, *inputs_.config.max_positions);
}

void PretrainBertTask::export_model(const std::filesystem::path& folder) const {
  models::save_text_encoder(folder, model_, "bert");
  pipelines::write_proof(folder);
}

bool PretrainBertTask::is_head(const std::string& parameter) const {
  return parameter.starts_with("masked_language.") || parameter.starts_with("next_sentence.") ||
         parameter.starts_with("pooler.");
}

models::TextEncoderConfig with_pretraining_heads(models::TextEncoderConfig config, bool next_sentence) {
  config.masked_language = true;
  config.masked_language_activation = config.encoder.first().activation;
  config.pooler = config.next_sentence = next_sentence;
  return config;
}

}  // namespace qkv::train
