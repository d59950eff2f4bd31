#include "qkv/train/tasks/answers/answer_scores.h"

#include <algorithm>
#include <cmath>

#include "qkv/metrics/answers.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/train/ranks/division.h"
#include "qkv/train/tasks/labels/label_scores.h"

namespace qkv::train {
namespace {

// -log softmax of the logits of a window's tokens, at the label.
double loss_of(const Tensor& logits, int64_t column, int32_t label) {
  const auto logit = [&](int64_t row) { return double{logits.data()[row * logits.cols() + column]}; };
  double most = -INFINITY, sum = 0;
  for (int64_t row = 0; row < logits.rows(); ++row) most = std::max(most, logit(row));
  for (int64_t row = 0; row < logits.rows(); ++row) sum += std::exp(logit(row) - most);
  return std::log(sum) + most - logit(label);
}

// What a window gives: its loss, the best answer, and the probability of none.
struct WindowScore {
  double loss = 0, begin = 0, end = 0, probability = 0, none = 1;
};

pipelines::AnsweredText answered(const WindowScore& score, const std::string& text, bool unanswerable) {
  pipelines::AnsweredText result;
  const auto begin = static_cast<size_t>(score.begin), end = static_cast<size_t>(score.end);
  if (end > begin) {
    result.answers.push_back({.text = text.substr(begin, end - begin),
                              .begin = begin,
                              .end = end,
                              .probability = static_cast<float>(score.probability)});
  }
  if (unanswerable) result.answers.push_back({.text = {}, .probability = static_cast<float>(score.none)});
  return result;
}

}  // namespace

std::map<std::string, double> AnswerTotals::means() const {
  const auto count = static_cast<double>(std::max<int64_t>(questions, 1));
  return {{"exact_match", exact / count}, {"f1", f1 / count}};
}

std::optional<AnswerScores> score_answers(const models::TextEncoder& model, const data::Questions& questions,
                                          const AnswerRows& rows, int64_t max_answer_tokens,
                                          int64_t batch_tokens, const EvaluationRequest& request) {
  const std::vector<data::Batch> batches = data::sequential_batches(rows.rows.costs(), batch_tokens);
  const auto context_of = [&](size_t window) -> const std::string& {
    return questions.contexts[questions.items[rows.questions[window]].context];
  };
  const auto score = [&](int64_t number) {
    const std::vector<int64_t>& items = batches[static_cast<size_t>(number)].items;
    const auto batch = label_batch(rows.rows, items);
    const Offsets offsets = batch->texts.ragged().offsets;
    nn::ForwardContext context;
    const Tensor logits =
        pipelines::finite_logits(model.classifier_logits(hidden_states(model, *batch, context), offsets));
    std::vector<WindowScore> result;
    for (size_t k = 0; k < items.size(); ++k) {
      const auto window = static_cast<size_t>(items[k]);
      const auto index = static_cast<int64_t>(k);
      const Tensor own = logits.slice_rows(offsets.begin(index), offsets.length(index));
      WindowScore& one = result.emplace_back();
      const std::vector<int32_t>& labels = rows.rows.items[window].labels;
      for (const int64_t column : {0, 1}) {
        const int32_t label = labels[static_cast<size_t>(column)];
        if (label != kNoLabel) one.loss += loss_of(own, column, label);
      }
      const pipelines::LikelyRanges found =
          pipelines::likely_ranges(own, rows.tokens[window], context_of(window), 1, max_answer_tokens);
      one.none = found.none.value_or(0);
      if (found.ranges.empty()) continue;
      one.begin = static_cast<double>(found.ranges[0].bytes.begin);
      one.end = static_cast<double>(found.ranges[0].bytes.end);
      one.probability = found.ranges[0].probability;
    }
    return pack(result);
  };
  std::vector<WindowScore> windows(rows.questions.size());
  const auto take = [&](int64_t number, std::string_view result) {
    const std::vector<WindowScore> scores = unpack<WindowScore>(result);
    const std::vector<int64_t>& items = batches[static_cast<size_t>(number)].items;
    for (size_t k = 0; k < items.size(); ++k) windows[static_cast<size_t>(items[k])] = scores[k];
  };
  if (!divide(*request.ranks, request.stop, std::ssize(batches), score, take)) return std::nullopt;

  AnswerScores result;
  const bool unanswerable = questions.has_unanswerable();
  const pipelines::AnswerOptions options{.top = 1, .unanswerable = unanswerable};
  for (size_t window = 0; window < windows.size();) {
    const size_t question = rows.questions[window];
    std::vector<pipelines::AnsweredText> own;
    for (; window < windows.size() && rows.questions[window] == question; ++window) {
      result.loss += windows[window].loss;
      own.push_back(answered(windows[window], context_of(window), unanswerable));
    }
    const pipelines::AnsweredText merged = pipelines::QuestionAnswerer::merged(own, options);
    const std::string answer = merged.answers.empty() ? std::string() : merged.answers.front().text;
    std::vector<std::string> right;
    for (const data::RightAnswer& one : questions.items[question].answers) right.push_back(one.text);
    const metrics::AnswerScore found = metrics::score_answer(answer, right);
    const auto add = [&](AnswerTotals& totals) {
      ++totals.questions;
      totals.exact += found.exact;
      totals.f1 += found.f1;
    };
    add(result.all);
    if (right.empty()) add(result.unanswerable);
  }
  result.loss /= static_cast<double>(std::max<int64_t>(rows.rows.labels(), 1));
  return result;
}

}  // namespace qkv::train
