#include "qkv/train/tasks/lm/lm_evaluation.h"

#include <algorithm>
#include <memory>
#include <span>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/search/language.h"
#include "qkv/train/ranks/division.h"

namespace qkv::train {
namespace {

// One line of at most this many characters.
std::string one_line(const std::string& text, int64_t characters) {
  std::string line;
  for (size_t at = 0; at < text.size() && characters > 0; --characters) {
    const char32_t character = next_character(text, at);
    if (character == U'\n') {
      line += "↵";
    } else {
      append_utf8(line, character < U' ' ? U' ' : character);
    }
  }
  return line;
}

}  // namespace

std::optional<LmScore> score_documents(const models::LanguageModel& model,
                                       const data::TokenDocuments& documents, const LmScoring& options,
                                       const EvaluationRequest& request) {
  const int64_t length = model.config().max_positions;
  const int64_t stride = options.stride == 0 ? usual_stride(length) : options.stride;
  const std::vector<data::TokenWindow> windows = data::evaluation_windows(documents, length, stride);
  std::vector<int64_t> costs;
  for (const data::TokenWindow& window : windows) costs.push_back(window.tokens);

  LmScore score{.bytes = documents.bytes, .unknown = documents.unknown};
  const std::vector<data::Batch> batches = data::sequential_batches(costs, options.batch_tokens);
  const bool complete = divide(
      *request.ranks, request.stop, std::ssize(batches),
      [&](int64_t batch) {
        std::vector<data::TokenWindow> some;
        for (const int64_t item : batches[static_cast<size_t>(batch)].items)
          some.push_back(windows[static_cast<size_t>(item)]);
        const data::WindowRows rows = data::window_rows(documents, some);
        nn::ForwardContext context;
        const Tensor hidden = model(rows.inputs.ragged(), context).value();
        std::vector<float> log_probabilities;  // of the labels
        int64_t row = 0;
        for (const data::TokenWindow& window : some) {
          const int64_t counted = window.tokens - window.context;
          const auto labels =
              std::span(rows.labels)
                  .subspan(static_cast<size_t>(row + window.context), static_cast<size_t>(counted));
          const std::vector<float> own =
              model.logits().log_probabilities(hidden.slice_rows(row + window.context, counted), labels);
          log_probabilities.insert(log_probabilities.end(), own.begin(), own.end());
          row += window.tokens;
        }
        return pack(log_probabilities);
      },
      [&](int64_t, std::string_view result) {
        for (const float log_probability : unpack<float>(result)) {
          score.nll -= static_cast<double>(log_probability);
          ++score.labels;
        }
      });
  if (!complete) return std::nullopt;
  return score;
}

std::string sample_line(const models::LanguageModel& model, const text::Tokenizer& tokenizer,
                        const LmSampling& options) {
  search::Request request{
      .source = options.prompt, .options = search::language_defaults(), .prefix = {}, .key = options.key};
  request.options.sampling = search::Sampling{.temperature = options.temperature, .seed = 1};
  request.options.max_new_tokens = static_cast<int>(options.max_tokens);
  request.options.min_new_tokens = 1;
  // The search owns its model; this one outlives it.
  const std::shared_ptr<const models::LanguageModel> handle(std::shared_ptr<const void>(), &model);
  std::vector<search::NBest> found = search::hypotheses_of(search::generate(handle, std::span(&request, 1)));
  std::vector<int32_t>& ids = found.front().front().ids;
  if (!ids.empty() && std::ranges::count(model.config().eos_ids, ids.back()) > 0) ids.pop_back();
  return one_line(tokenizer.decode(ids), options.max_characters);
}

}  // namespace qkv::train
