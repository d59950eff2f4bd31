// BART (Lewis et al. 2020), with learned positions and a norm of the embeddings, and its kin: they differ in
// these two and in where the norms stand.

#include "qkv/models/families/encoder_decoders/bart_family.h"

namespace qkv::models {
namespace {

constexpr int64_t kFirstRow = 2;  // fairseq keeps the rows before it for padding

WeightMap weight_map(const TransformerConfig& config) {
  WeightMap map{.rules = {{.ours = "final_logits_bias", .theirs = "final_logits_bias", .optional = true},
                          {.ours = "model.shared",
                           .theirs = "model.shared",
                           .also = {"model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"}},
                          {"model.encoder.embed_layer_norm", "model.encoder.layernorm_embedding"},
                          {"model.decoder.embed_layer_norm", "model.decoder.layernorm_embedding"}},
                .prefix = "model.",
                .others_same = true};
  if (config.positions != nn::PositionKind::learned)  // stored by some versions
    map.computed = {"embed_positions.weight", "embed_positions.weights"};
  return map;
}

// A family of BART's kin. Its fields of fairseq's variants ("normalize_before") have no effect in
// transformers, where the model_type decides.
TranslationFamily kin(std::string_view model_type, std::vector<ModelClass> classes, TransformerConfig base,
                      const BartDefaults& usual) {
  base.tying = Tying::three_way;
  const auto table = [usual](const Fields& fields, Described<TransformerConfig>& model) {
    TransformerConfig& config = model.config;
    bart_fields(fields, config, usual);
    config.target_vocabulary = config.source_vocabulary;
    config.embedding_dropout = config.dropout;
    if (config.positions == nn::PositionKind::sinusoidal_inclusive) config.first_position = config.pad_id + 1;
    fields.expect("tie_word_embeddings", true);
    fields.derive("tie_word_embeddings", true);
    fields.irrelevant(
        "add_final_layer_norm do_blenderbot_90_layernorm extra_layer_norm layernorm_variant "
        "force_bos_token_to_be_generated normalize_before normalize_embedding "
        "static_position_embeddings save_step student_decoder_layers student_encoder_layers "
        "replacing_rate");
  };
  return {.model_type = model_type,
          .classes = std::move(classes),
          .base = {.config = base},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace

TranslationFamily bart_family() {
  return kin("bart", {{"BartForConditionalGeneration"}, {"BartModel"}},
             {.positions = nn::PositionKind::learned, .first_position = kFirstRow, .embedding_norm = true},
             {});
}

// Liu et al. 2020; Tang et al. 2020 (mBART-50).
TranslationFamily mbart_family() {
  return kin("mbart", {{"MBartForConditionalGeneration"}, {"MBartModel"}},
             {.norm = nn::NormPlacement::pre,
              .positions = nn::PositionKind::learned,
              .first_position = kFirstRow,
              .embedding_norm = true},
             {.decoder_start_id = 0});
}

// Fan et al. 2020; NLLB (Costa-jussà et al. 2022).
TranslationFamily m2m_100_family() {
  return kin("m2m_100", {{"M2M100ForConditionalGeneration"}, {"M2M100Model"}},
             {.norm = nn::NormPlacement::pre,
              .output_bias = false,
              .positions = nn::PositionKind::sinusoidal_inclusive},
             {.scale_embedding = true, .attention_dropout = 0.1});
}

// Zhang et al. 2020.
TranslationFamily pegasus_family() {
  return kin("pegasus", {{"PegasusForConditionalGeneration"}, {"PegasusModel"}},
             {.norm = nn::NormPlacement::pre, .positions = nn::PositionKind::sinusoidal_halves},
             {.eos_id = 1, .pad_id = 0, .decoder_start_id = 0});
}

// Roller et al. 2020.
TranslationFamily blenderbot_family() {
  return kin("blenderbot", {{"BlenderbotForConditionalGeneration"}, {"BlenderbotModel"}},
             {.norm = nn::NormPlacement::pre, .positions = nn::PositionKind::learned},
             {.max_positions = 128, .pad_id = 0, .decoder_start_id = 1});
}

}  // namespace qkv::models
