#include "qkv/pipelines/zero_shot/zero_shot.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/pipelines/zero_shot/labels.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

bool begins_with_entail(std::string_view label) {
  constexpr std::string_view kEntail = "entail";
  return label.size() >= kEntail.size() &&
         std::ranges::equal(label.substr(0, kEntail.size()), kEntail,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

std::optional<size_t> entailment_of(const models::TextEncoderConfig& config) {
  const auto found = std::ranges::find_if(config.labels, begins_with_entail);
  if (found == config.labels.end() || config.labels.size() < 2) return std::nullopt;
  return static_cast<size_t>(found - config.labels.begin());
}

// Of the first of two logits.
double softmax_of(double x, double other) { return 1 / (1 + std::exp(other - x)); }

}  // namespace

bool ZeroShotClassifier::fits(const models::TextEncoderConfig& config) {
  return config.labelled == models::ClassificationTarget::texts &&
         config.problem == models::ProblemType::single_label && entailment_of(config).has_value();
}

ZeroShotClassifier::ZeroShotClassifier(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextClassifier(std::move(encoder)),
      max_length_(max_text_length(this->encoder()->folder, model().config(), tokenizer())) {
  if (fits(model().config())) return;
  std::string labels;
  for (const std::string& label : model().config().labels)
    labels += concat(labels.empty() ? "" : ", ", label);
  throw DataError(
      concat(this->encoder()->folder.string(),
             ": expected a model of natural language inference, with a label entailment, found the labels ",
             labels));
}

ZeroShotClassifier::ZeroShotClassifier(const std::filesystem::path& folder,
                                       const models::LoadOptions& options)
    : ZeroShotClassifier(open_text_encoder(folder, options)) {}

std::vector<ZeroShotRequest> ZeroShotClassifier::prepare(std::string_view text,
                                                         std::span<const std::string> labels,
                                                         const ZeroShotOptions& options) const {
  require_labels(labels, options.hypothesis);
  const text::EncodeOptions cut{
      .truncation =
          text::Truncation{.max_length = max_length_, .strategy = text::TruncationStrategy::only_first}};
  std::vector<ZeroShotRequest> requests;
  const auto failed = [](std::string error) {
    return ZeroShotRequest{{.encoding = {}, .error = std::move(error)}};
  };
  for (const std::string& label : labels) {
    const std::string hypothesis = hypothesis_of(options.hypothesis, label);
    try {
      requests.push_back(text::is_blank(text)
                             ? failed("expected text, found none")
                             : ZeroShotRequest{TextClassifier::prepare(text, hypothesis, cut)});
    } catch (const UsageError&) {  // nothing of the text would be left
      requests.push_back(failed(concat("hypothesis: expected room for the text in ", max_length_,
                                       " tokens (the model's limit), found none beside '", label, "'")));
    }
  }
  return requests;
}

Entailment ZeroShotClassifier::finish(const ZeroShotRequest& /*request*/, const Tensor& hidden) const {
  const Tensor logits = probabilities_of(hidden, models::ProblemType::regression);
  const size_t entailed = *entailment_of(model().config());
  // As transformers: the first label, or the last if that is the first.
  const size_t other = entailed == 0 ? model().config().labels.size() - 1 : 0;
  return {.entailed = logits.values()[entailed], .contradicted = logits.values()[other]};
}

Classified ZeroShotClassifier::merged(std::span<const Entailment> parts, std::span<const std::string> labels,
                                      const ZeroShotOptions& options) {
  std::vector<double> found;
  double most = -INFINITY;
  for (const Entailment& part : parts) {
    if (!part.error.empty()) return {.labels = {}, .error = part.error};
    most = std::max(most, double{part.entailed});
  }
  const bool apart = options.multi_label || parts.size() == 1;
  double sum = 0;
  for (const Entailment& part : parts) {
    found.push_back(apart ? softmax_of(part.entailed, part.contradicted) : std::exp(part.entailed - most));
    sum += found.back();
  }
  std::vector<float> probabilities;
  for (const double one : found) probabilities.push_back(static_cast<float>(apart ? one : one / sum));
  return {.labels = ranked(probabilities, {labels.begin(), labels.end()}), .error = {}};
}

std::vector<Classified> ZeroShotClassifier::operator()(std::span<const std::string> texts,
                                                       std::span<const std::string> labels,
                                                       const ZeroShotOptions& options,
                                                       int64_t batch_tokens) const {
  return run_parts(
      texts.size(), batch_tokens, [&](size_t i) { return prepare(texts[i], labels, options); },
      [this](const ZeroShotRequest& request, const Tensor& hidden) { return finish(request, hidden); },
      [&](std::span<const Entailment> parts) { return merged(parts, labels, options); });
}

}  // namespace qkv::pipelines
