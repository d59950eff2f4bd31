// The list of families: each file of families/ has a declaration and an entry in the array of its kind.

#include <array>
#include <vector>

#include "qkv/models/hub/family.h"

namespace qkv::models {

TranslationFamily t5_family();
TranslationFamily mt5_family();
TranslationFamily marian_family();
TranslationFamily qkv_family();
TranslationFamily bart_family();
TranslationFamily mbart_family();
TranslationFamily m2m_100_family();
TranslationFamily pegasus_family();
TranslationFamily blenderbot_family();
TranslationFamily whisper_family();

std::span<const TranslationFamily> translation_families() {
  // qkv's fits every model; those after it are for folders of theirs.
  static const std::array kFamilies{t5_family(),    marian_family(),  qkv_family(),     bart_family(),
                                    mbart_family(), m2m_100_family(), pegasus_family(), blenderbot_family(),
                                    mt5_family(),   whisper_family()};
  return kFamilies;
}

LanguageFamily gpt2_family();
LanguageFamily llama_family();
LanguageFamily mistral_family();
LanguageFamily apertus_family();
LanguageFamily arcee_family();
LanguageFamily biogpt_family();
LanguageFamily bloom_family();
LanguageFamily codegen_family();
LanguageFamily ctrl_family();
LanguageFamily cohere2_family();
LanguageFamily cohere_family();
LanguageFamily cwm_family();
LanguageFamily ernie4_5_family();
LanguageFamily exaone4_family();
LanguageFamily exaone_family();
LanguageFamily falcon_family();
LanguageFamily gemma2_family();
LanguageFamily gemma3_family();
LanguageFamily gemma4_family();
LanguageFamily gemma_family();
LanguageFamily glm4_family();
LanguageFamily glm_family();
LanguageFamily gpt_bigcode_family();
LanguageFamily gpt_neo_family();
LanguageFamily gpt_neox_family();
LanguageFamily gpt_neox_japanese_family();
LanguageFamily gptj_family();
LanguageFamily granite_family();
LanguageFamily granite_swa_family();
LanguageFamily helium_family();
LanguageFamily hunyuan_family();
LanguageFamily hyperclovax_family();
LanguageFamily internlm3_family();
LanguageFamily iquestcoder_family();
LanguageFamily jais2_family();
LanguageFamily minicpm3_family();
LanguageFamily ministral3_family();
LanguageFamily ministral_family();
LanguageFamily modernbert_decoder_family();
LanguageFamily mpt_family();
LanguageFamily nanochat_family();
LanguageFamily nemotron_family();
LanguageFamily olmo2_family();
LanguageFamily olmo3_family();
LanguageFamily olmo_family();
LanguageFamily openai_gpt_family();
LanguageFamily opt_family();
LanguageFamily persimmon_family();
LanguageFamily phi3_family();
LanguageFamily phi_family();
LanguageFamily qwen2_family();
LanguageFamily qwen3_family();
LanguageFamily seed_oss_family();
LanguageFamily smollm3_family();
LanguageFamily stablelm_family();
LanguageFamily starcoder2_family();
LanguageFamily vaultgemma_family();
LanguageFamily xglm_family();
LanguageFamily deepseek_v2_family();
LanguageFamily deepseek_v3_family();
LanguageFamily dots1_family();
LanguageFamily youtu_family();
LanguageFamily ernie4_5_moe_family();
LanguageFamily flex_olmo_family();
LanguageFamily glm4_moe_family();
LanguageFamily glm4_moe_lite_family();
LanguageFamily gpt_oss_family();
LanguageFamily granitemoe_family();
LanguageFamily granitemoe_swa_family();
LanguageFamily granitemoeshared_family();
LanguageFamily minimax_m2_family();
LanguageFamily mixtral_family();
LanguageFamily olmoe_family();
LanguageFamily phimoe_family();
LanguageFamily qwen2_moe_family();
LanguageFamily qwen3_moe_family();
LanguageFamily hunyuan_v1_moe_family();
LanguageFamily hy_v3_family();
LanguageFamily exaone_moe_family();
LanguageFamily cohere2_moe_family();
LanguageFamily mellum_family();
LanguageFamily flint_family();
LanguageFamily kolibri1_family();
LanguageFamily axk1_family();
LanguageFamily sarvam_moe_family();
LanguageFamily sarvam_mla_family();
LanguageFamily mistral4_family();
LanguageFamily llama4_text_family();
LanguageFamily mimo_v2_flash_family();
LanguageFamily solar_open_family();

// Of several families with as many fields of an unknown folder, the first is called the nearest.
std::span<const LanguageFamily> language_families() {
  static const std::array kFamilies{gpt2_family(),
                                    llama_family(),
                                    mistral_family(),
                                    apertus_family(),
                                    arcee_family(),
                                    biogpt_family(),
                                    bloom_family(),
                                    codegen_family(),
                                    ctrl_family(),
                                    cohere2_family(),
                                    cohere_family(),
                                    cwm_family(),
                                    ernie4_5_family(),
                                    exaone4_family(),
                                    exaone_family(),
                                    falcon_family(),
                                    gemma2_family(),
                                    gemma3_family(),
                                    gemma4_family(),
                                    gemma_family(),
                                    glm4_family(),
                                    glm_family(),
                                    gpt_bigcode_family(),
                                    gpt_neo_family(),
                                    gpt_neox_family(),
                                    gpt_neox_japanese_family(),
                                    gptj_family(),
                                    granite_family(),
                                    granite_swa_family(),
                                    helium_family(),
                                    hunyuan_family(),
                                    hyperclovax_family(),
                                    internlm3_family(),
                                    iquestcoder_family(),
                                    jais2_family(),
                                    minicpm3_family(),
                                    ministral3_family(),
                                    ministral_family(),
                                    modernbert_decoder_family(),
                                    mpt_family(),
                                    nanochat_family(),
                                    nemotron_family(),
                                    olmo2_family(),
                                    olmo3_family(),
                                    olmo_family(),
                                    openai_gpt_family(),
                                    opt_family(),
                                    persimmon_family(),
                                    phi3_family(),
                                    phi_family(),
                                    qwen2_family(),
                                    qwen3_family(),
                                    seed_oss_family(),
                                    smollm3_family(),
                                    stablelm_family(),
                                    starcoder2_family(),
                                    vaultgemma_family(),
                                    xglm_family(),
                                    deepseek_v2_family(),
                                    deepseek_v3_family(),
                                    dots1_family(),
                                    youtu_family(),
                                    ernie4_5_moe_family(),
                                    flex_olmo_family(),
                                    glm4_moe_family(),
                                    glm4_moe_lite_family(),
                                    gpt_oss_family(),
                                    granitemoe_family(),
                                    granitemoe_swa_family(),
                                    granitemoeshared_family(),
                                    minimax_m2_family(),
                                    mixtral_family(),
                                    olmoe_family(),
                                    phimoe_family(),
                                    qwen2_moe_family(),
                                    qwen3_moe_family(),
                                    hunyuan_v1_moe_family(),
                                    hy_v3_family(),
                                    exaone_moe_family(),
                                    cohere2_moe_family(),
                                    mellum_family(),
                                    flint_family(),
                                    kolibri1_family(),
                                    axk1_family(),
                                    sarvam_moe_family(),
                                    sarvam_mla_family(),
                                    mistral4_family(),
                                    llama4_text_family(),
                                    mimo_v2_flash_family(),
                                    solar_open_family()};
  return kFamilies;
}

EncoderFamily bert_family();
EncoderFamily roberta_family();
EncoderFamily xlm_roberta_family();
EncoderFamily camembert_family();
EncoderFamily data2vec_family();
EncoderFamily distilbert_family();
EncoderFamily electra_family();
EncoderFamily modernbert_family();
EncoderFamily mpnet_family();
EncoderFamily nomic_bert_family();
EncoderFamily albert_family();
EncoderFamily ernie_family();
EncoderFamily eurobert_family();
EncoderFamily megatron_bert_family();
EncoderFamily rembert_family();
EncoderFamily roberta_prelayernorm_family();
EncoderFamily xlm_roberta_xl_family();
EncoderFamily jina_embeddings_v3_family();
EncoderFamily roformer_family();
EncoderFamily deberta_v2_family();
EncoderFamily gte_family();
EncoderFamily t5_encoder_family();
EncoderFamily clip_text_family();
EncoderFamily siglip_text_family();

std::span<const EncoderFamily> encoder_families() {
  static const std::vector<EncoderFamily> kFamilies = [] {
    std::vector families{bert_family(),           roberta_family(),
                         xlm_roberta_family(),    camembert_family(),
                         distilbert_family(),     data2vec_family(),
                         electra_family(),        modernbert_family(),
                         mpnet_family(),          nomic_bert_family(),
                         albert_family(),         ernie_family(),
                         eurobert_family(),       megatron_bert_family(),
                         rembert_family(),        roberta_prelayernorm_family(),
                         xlm_roberta_xl_family(), jina_embeddings_v3_family(),
                         roformer_family(),       gte_family(),
                         deberta_v2_family(),     t5_encoder_family(),
                         clip_text_family(),      siglip_text_family()};
    for (const LanguageFamily& family : language_families()) families.push_back(as_encoders(family));
    return families;
  }();
  return kFamilies;
}

ImageFamily vit_family();
ImageFamily deit_family();
ImageFamily clip_vision_family();
ImageFamily siglip_vision_family();

std::span<const ImageFamily> image_families() {
  static const std::array kFamilies{vit_family(), deit_family(), clip_vision_family(),
                                    siglip_vision_family()};
  return kFamilies;
}

}  // namespace qkv::models
