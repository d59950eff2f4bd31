#pragma once
// Classification by labels that no model was trained on (Yin et al. 2019): a classifier of natural language
// inference reads a text as premise and "This example is LABEL." as hypothesis, and the label is as likely as
// the text entails it.

#include <span>
#include <string>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/pipelines/classify.h"

namespace qkv::pipelines {

// transformers' defaults.
struct ZeroShotOptions {
  std::string hypothesis = "This example is {}.";  // with the label in place of {}
  bool multi_label = false;  // labels do not exclude each other: each has a probability of its own

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"hypothesis", "TEXT",
           "Sentence that is true of a text with a label, which takes the place of {}; of\n"
           "images: This is a photo of {}."},
          self.hypothesis);
    visit({"multi_label", "", "Several labels may apply to a text: each has a probability of its own"},
          self.multi_label);
  }
};

// A text, and the hypothesis of one label.
struct ZeroShotRequest : EncoderRequest {};

// The logits of one label.
struct Entailment {
  float entailed = 0, contradicted = 0;
  std::string error = {};
};

class ZeroShotClassifier : public TextClassifier {
 public:
  // Whether a model has a label that begins with "entail", in any case, and another one.
  static bool fits(const models::TextEncoderConfig& config);

  // Throws DataError for a model that does not fit, and the errors of TextClassifier.
  explicit ZeroShotClassifier(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit ZeroShotClassifier(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // A request for each label. A text that is too long beside the hypothesis is cut, as in transformers.
  // Throws UsageError for no labels, an empty or a repeated one, and a hypothesis without {}.
  std::vector<ZeroShotRequest> prepare(std::string_view text, std::span<const std::string> labels,
                                       const ZeroShotOptions& options = {}) const;
  // Of one label. hidden: [tokens, d_model], from encode().
  Entailment finish(const ZeroShotRequest& request, const Tensor& hidden) const;
  // Of a text, from those of all labels. Probabilities are a softmax of the entailment logits of all labels;
  // with multi_label or a single label, of a label's two logits.
  static Classified merged(std::span<const Entailment> parts, std::span<const std::string> labels,
                           const ZeroShotOptions& options);

  std::vector<Classified> operator()(std::span<const std::string> texts, std::span<const std::string> labels,
                                     const ZeroShotOptions& options = {},
                                     int64_t batch_tokens = kEncoderBatchTokens) const;

 private:
  int64_t max_length_;
};

}  // namespace qkv::pipelines
