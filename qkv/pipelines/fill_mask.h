#pragma once
// Masked-token prediction.

#include "qkv/pipelines/text_encoder.h"

namespace qkv::pipelines {

struct FillMaskOptions {
  int64_t count = 5;  // predictions per mask, most likely first
};

struct MaskPrediction {
  int32_t id = 0;
  std::string token;  // as spelled in the vocabulary
  float probability = 0;
  std::string text;  // the input with the token in place of the mask
};

struct FilledText {
  std::vector<std::vector<MaskPrediction>> masks;  // one list per mask, most likely first
  std::string error;  // why there is no result, such as a text without a mask; empty on success
};

struct FillMaskRequest : EncoderRequest {
  FillMaskOptions options;
};

class MaskFiller : public TextEncoderPipeline {
 public:
  // Throws DataError for a model without a masked-language head or a tokenizer without a mask token, and the
  // errors of open_text_encoder().
  explicit MaskFiller(std::shared_ptr<const LoadedTextEncoder> encoder);
  explicit MaskFiller(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  int32_t mask_id() const { return mask_; }
  std::string_view mask_token() const;  // as the vocabulary spells it

  // The text contains the mask token: "[MASK]", "<mask>". Throws UsageError for a
  // count below 1.
  FillMaskRequest prepare(std::string_view text, const FillMaskOptions& options = {}) const;
  // hidden: [tokens, d_model], from encode().
  FilledText finish(const FillMaskRequest& request, const Tensor& hidden) const;

  std::vector<FilledText> operator()(std::span<const std::string> texts, const FillMaskOptions& options = {},
                                     int64_t batch_tokens = kEncoderBatchTokens) const;

 private:
  int32_t mask_;
};

}  // namespace qkv::pipelines
