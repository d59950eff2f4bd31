#include "qkv/train/tasks/lm/lm_task.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/general/router.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/fields.h"

namespace qkv::train {
namespace {

bool has_experts(const nn::StackOptions& stack) {
  return std::ranges::any_of(stack.layers, [](const nn::LayerOptions& one) { return one.experts.count > 0; });
}

}  // namespace

void list_settings(Settings& all, LmOptions& options) {
  all.add("train.batch_tokens", options.batch_tokens, kDecidesWeights, at_least(1))
      .flag({"TOKENS", "Tokens per batch"});
  all.add("train.balance", options.balance, kDecidesWeights, between(0, 100))
      .flag({"COEFFICIENT", "Coefficient of the loss that balances the use of experts; 0: none"});
  all.add("train.samples", options.samples, kBookkeeping, between(0, 100))
      .flag({"N", "Lines of generated text to show at each validation; 0: none"});
}

void LmOptions::validate() const { validate_settings(*this); }

LmTask::LmTask(Inputs inputs)
    : ModelTask(inputs.config, std::move(inputs.fields)), inputs_(std::move(inputs)) {
  inputs_.options.validate();
}

TaskInfo LmTask::info() const {
  const int64_t length = inputs_.config.max_positions;
  const auto windows = [&](const data::TokenDocuments& documents, int64_t stride) {
    return std::ssize(data::evaluation_windows(documents, length, stride));
  };
  return {.name = "lm",
          .items = "sequences",
          .units = "tokens",
          .train_items = windows(inputs_.train, length),
          .valid_items = inputs_.valid ? windows(*inputs_.valid, usual_stride(length)) : 0,
          .sizes = {{"vocabulary", inputs_.config.vocabulary}}};
}

std::vector<Field> LmTask::data_fields() const {
  return {
      {"data.fingerprint", std::to_string(data::fingerprint(inputs_.train, inputs_.tokenizer.tokenizer))},
      {"valid.fingerprint",
       inputs_.valid ? std::to_string(data::fingerprint(*inputs_.valid, inputs_.tokenizer.tokenizer)) : "0"}};
}

std::unique_ptr<BatchStream> LmTask::batches(uint64_t seed, data::CursorState from) const {
  return stream_of(data::WindowCursor(inputs_.train, inputs_.config.max_positions,
                                      inputs_.options.batch_tokens, seed, from),
                   [this](const std::vector<data::TokenWindow>& windows) {
                     auto batch = std::make_unique<LmBatch>();
                     batch->rows = data::window_rows(inputs_.train, windows);
                     const int64_t labels = std::ssize(batch->rows.labels);
                     batch->size = {.items = std::ssize(windows), .units = labels, .labels = labels};
                     return batch;
                   });
}

// The balancing loss of a batch counts by the batch's share of the labels, as its other loss does.
BatchLoss LmTask::loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const {
  const data::WindowRows& rows = static_cast<const LmBatch&>(batch).rows;
  const auto labels = static_cast<double>(batch.size.labels);
  const double coefficient = double{inputs_.options.balance};
  if (has_experts(inputs_.config.decoder) && coefficient > 0)
    context.balance =
        std::make_shared<RouterBalance>(coefficient * labels / static_cast<double>(step.labels));
  const Variable hidden = model_(rows.inputs.ragged(), context);
  const CrossEntropyResult result = model_.logits().cross_entropy(
      hidden, Tensor::from(rows.labels, {std::ssize(rows.labels)}),
      {.factor = 1.0f / static_cast<float>(step.labels), .layout = context.weight_layout()});
  CurveSum sum(result.totals, 0);
  if (!context.balance) return {result.loss, {{"loss", sum, labels}}};
  const double balance = context.balance->loss() * labels;
  sum += coefficient * balance;
  return {result.loss, {{"loss", sum, labels}, {"balance", balance, labels}}};
}

std::vector<Metric> LmTask::metrics() const {
  return {{.name = "perplexity", .higher_is_better = false},
          {.name = "bits_per_byte", .higher_is_better = false}};
}

std::optional<Evaluation> LmTask::evaluate(const EvaluationRequest& request) const {
  const std::optional<LmScore> score =
      score_documents(model_, *inputs_.valid, {.batch_tokens = inputs_.options.batch_tokens}, request);
  if (!score) return std::nullopt;
  Evaluation result{
      .loss = score->loss(),
      .metrics = {{"perplexity", score->perplexity()}, {"bits_per_byte", score->bits_per_byte()}},
      .samples = {}};
  if (!std::isfinite(result.loss) || inputs_.options.samples == 0) return result;
  const data::TokenDocuments& train = inputs_.train;
  constexpr int64_t kCharacters = 80;
  // As many tokens as this many bytes have on average.
  const int64_t tokens = std::clamp<int64_t>(kCharacters * train.tokens() / train.bytes + 1, 8, kCharacters);
  for (int64_t line = 0; line < inputs_.options.samples; ++line) {
    result.samples.push_back(sample_line(model_, inputs_.tokenizer.tokenizer,
                                         {.prompt = sample_prompt(),
                                          .max_tokens = tokens,
                                          .max_characters = kCharacters,
                                          .key = static_cast<uint64_t>(line)}));
  }
  return result;
}

// What precedes the beginning of a text: the start token of documents, a line end in a stream.
std::vector<int32_t> LmTask::sample_prompt() const {
  const LmTokenizer& tokenizer = inputs_.tokenizer;
  if (inputs_.bounds != data::DocumentBounds::none) return {tokenizer.start};
  std::vector<int32_t> ids =
      tokenizer.tokenizer.encode("\n", {.special_tokens = false, .truncation = {}}).ids;
  const bool usable = ids.size() == 1 && ids.front() != tokenizer.unknown;
  return usable ? ids : std::vector<int32_t>{inputs_.train.ids.front()};
}

void LmTask::begin(const std::filesystem::path& folder) const {
  if (inputs_.start) inputs_.start->begin(folder);
  save_lm_tokenizer(inputs_.tokenizer, folder, inputs_.config.max_positions, inputs_.bounds);
}

void LmTask::export_model(const std::filesystem::path& folder) const {
  const LmTokenizer& tokenizer = inputs_.tokenizer;
  const nlohmann::ordered_json generation{
      {"bos_token_id", tokenizer.start}, {"eos_token_id", tokenizer.end}, {"pad_token_id", tokenizer.end}};
  make_writable_folder(folder);
  write_file_atomically(folder / "generation_config.json", generation.dump(2) + "\n");
  models::save_language_model(folder, model_, inputs_.family);
  pipelines::write_proof(folder);
}

}  // namespace qkv::train
