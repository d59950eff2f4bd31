#pragma once
// Words that are missing from texts.

#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

struct FillMaskOptions {
  int64_t count = 5;  // predictions for each mask, the most likely first
};

struct MaskPrediction {
  int32_t id = 0;
  std::string token;  // as the vocabulary spells it
  float probability = 0;
  std::string text;  // with the token in the mask's position
};

struct FilledText {
  std::vector<std::vector<MaskPrediction>> masks;  // of each mask in the text, the most likely first
  std::string error;  // why there is no result, such as a text without a mask; empty: there is one
};

struct FillMaskRequest : EncoderRequest {
  FillMaskOptions options;
};

class MaskFiller : public TextEncoderPipeline {
 public:
  // Throws UsageError for a model without a masked-language head or a tokenizer without a mask token, and
  // what open_text_encoder() throws.
  explicit MaskFiller(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit MaskFiller(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // The mask is spelled as the vocabulary does: "[MASK]", "<mask>". Throws UsageError for a count below 1.
  FillMaskRequest prepare(std::string_view text, const FillMaskOptions& options = {}) const;
  // hidden: [tokens, d_model], as encode() gives them.
  FilledText finish(const FillMaskRequest& request, const Tensor& hidden) const;

  std::vector<FilledText> operator()(std::span<const std::string> texts, const FillMaskOptions& options = {},
                                     int64_t batch_tokens = kEncoderBatchTokens) const;

 private:
  int32_t mask_;
};

}  // namespace qkv::pipelines
