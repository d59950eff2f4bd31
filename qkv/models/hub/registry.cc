#include <array>

#include "qkv/models/hub/family.h"

namespace qkv::models {

std::span<const TranslationFamily> translation_families() {
  static const std::array kFamilies{t5_family(), marian_family(), qkv_family()};
  return kFamilies;
}

std::span<const LanguageFamily> language_families() {
  static const std::array kFamilies{gpt2_family(), llama_family()};
  return kFamilies;
}

std::span<const EncoderFamily> encoder_families() {
  static const std::array kFamilies{bert_family(), roberta_family(), distilbert_family(),
                                    t5_encoder_family()};
  return kFamilies;
}

std::span<const ImageFamily> image_families() {
  static const std::array kFamilies{vit_family(), deit_family()};
  return kFamilies;
}

}  // namespace qkv::models
