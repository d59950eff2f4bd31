#include "qkv/train/tasks/answers/answer_task.h"

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/slice.h"
#include "qkv/train/tasks/answers/answer_scores.h"
#include "qkv/train/tasks/labels/label_scores.h"

namespace qkv::train {
namespace {

uint64_t fingerprint_of(const AnswerTask::Inputs::Validation& valid) {
  Hash64 hash;
  hash.add(valid.rows.rows.fingerprint());
  for (const data::Question& question : valid.questions.items) {
    for (const data::RightAnswer& answer : question.answers) {
      hash.add(uint64_t{answer.text.size()});
      hash.add(answer.text);
    }
  }
  return hash.value();
}

}  // namespace

void list_settings(Settings& all, AnswerSettings& settings) {
  all.add("data.shared", settings.shared, kDecidesWeights, at_least(0))
      .flag({"TOKENS", "Tokens of a text in a window and the next one; at most half"});
  all.add("valid.max_answer_tokens", settings.max_answer_tokens, kDecidesWeights, at_least(1))
      .flag({"TOKENS", "Maximum tokens of an answer in validations"});
}

Variable span_cross_entropy(const Variable& logits, const Offsets& offsets, std::span<const int32_t> labels,
                            float label_smoothing) {
  if (std::ssize(labels) != 2 * offsets.sequences())
    throw ShapeError(concat("span_cross_entropy: expected 2 labels for each of ", offsets.sequences(),
                            " windows, found ", labels.size()));
  const Variable columns = transpose(logits);
  Variable sum;
  for (int64_t i = 0; i < offsets.sequences(); ++i) {
    const auto own = labels.subspan(static_cast<size_t>(2 * i), 2);
    const Variable loss = cross_entropy(
        slice(columns, 1, offsets.begin(i), offsets.length(i)), Tensor::from(own, {2}),
        {.ignored_label = kNoLabel, .label_smoothing = label_smoothing, .reduction = Reduction::sum});
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

AnswerTask::AnswerTask(Inputs inputs)
    : EncoderTask(std::move(inputs.encoder), inputs.options, std::move(inputs.train),
                  std::move(inputs.fields)),
      settings_(inputs.settings),
      valid_(std::move(inputs.valid)) {}

TaskInfo AnswerTask::info() const {
  return {.name = "answer",
          .items = "windows",
          .units = "tokens",
          .train_items = std::ssize(train().items),
          .valid_items = valid_ ? std::ssize(valid_->rows.rows.items) : 0,
          .sizes = {{"vocabulary", model_.config().vocabulary}}};
}

std::vector<Field> AnswerTask::data_fields() const {
  return {{"data.fingerprint", std::to_string(train().fingerprint())},
          {"valid.fingerprint", valid_ ? std::to_string(fingerprint_of(*valid_)) : "0"}};
}

BatchLoss AnswerTask::loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const {
  const auto& own = static_cast<const LabelBatch&>(batch);
  const Offsets offsets = own.texts.ragged().offsets;
  const Variable logits = model_.classifier_logits(hidden_states(model_, own, context), offsets, context);
  const Variable sum = span_cross_entropy(logits, offsets, own.labels, options().label_smoothing);
  return mean_loss(sum, batch, step);
}

std::optional<Evaluation> AnswerTask::evaluate(const EvaluationRequest& request) const {
  const std::optional<AnswerScores> found =
      score_answers(model_, valid_->questions, valid_->rows, settings_.max_answer_tokens,
                    evaluation_batch_tokens(), request);
  if (!found) return std::nullopt;
  return Evaluation{.loss = found->loss, .metrics = found->all.means()};
}

}  // namespace qkv::train
