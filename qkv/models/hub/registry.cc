// The list of families: each file of families/ has a declaration and an entry in the array of its kind.

#include <array>
#include <vector>

#include "qkv/models/hub/family.h"

namespace qkv::models {

TranslationFamily t5_family();
TranslationFamily marian_family();
TranslationFamily qkv_family();

std::span<const TranslationFamily> translation_families() {
  static const std::array kFamilies{t5_family(), marian_family(), qkv_family()};
  return kFamilies;
}

LanguageFamily bloom_family();
LanguageFamily codegen_family();
LanguageFamily falcon_family();
LanguageFamily gemma_family();
LanguageFamily gemma2_family();
LanguageFamily gpt2_family();
LanguageFamily gpt_bigcode_family();
LanguageFamily gpt_neox_family();
LanguageFamily gptj_family();
LanguageFamily granite_family();
LanguageFamily llama_family();
LanguageFamily mistral_family();
LanguageFamily mpt_family();
LanguageFamily opt_family();
LanguageFamily phi_family();
LanguageFamily phi3_family();
LanguageFamily qwen2_family();
LanguageFamily qwen3_family();
LanguageFamily smollm3_family();
LanguageFamily stablelm_family();
LanguageFamily starcoder2_family();

std::span<const LanguageFamily> language_families() {
  static const std::array kFamilies{
      bloom_family(),     codegen_family(),     falcon_family(),   gemma_family(),   gemma2_family(),
      gpt2_family(),      gpt_bigcode_family(), gpt_neox_family(), gptj_family(),    granite_family(),
      llama_family(),     mistral_family(),     mpt_family(),      opt_family(),     phi_family(),
      phi3_family(),      qwen2_family(),       qwen3_family(),    smollm3_family(), stablelm_family(),
      starcoder2_family()};
  return kFamilies;
}

EncoderFamily bert_family();
EncoderFamily roberta_family();
EncoderFamily xlm_roberta_family();
EncoderFamily camembert_family();
EncoderFamily distilbert_family();
EncoderFamily t5_encoder_family();

std::span<const EncoderFamily> encoder_families() {
  static const std::vector<EncoderFamily> kFamilies = [] {
    std::vector families{bert_family(),      roberta_family(),    xlm_roberta_family(),
                         camembert_family(), distilbert_family(), t5_encoder_family()};
    for (const LanguageFamily& family : language_families()) families.push_back(as_encoders(family));
    return families;
  }();
  return kFamilies;
}

ImageFamily vit_family();
ImageFamily deit_family();

std::span<const ImageFamily> image_families() {
  static const std::array kFamilies{vit_family(), deit_family()};
  return kFamilies;
}

}  // namespace qkv::models
