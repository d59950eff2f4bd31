// Whisper (Radford et al. 2022): a pre-norm encoder-decoder whose encoder reads audio, with learned positions
// and keys without bias.

#include "qkv/models/families/encoder_decoders/bart_family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TransformerConfig>& model) {
  TransformerConfig& config = model.config;
  fields("num_mel_bins", config.mel_bins, 80);
  fields.require("num_mel_bins", config.mel_bins > 0, "at least 1");
  fields("max_source_positions", config.source_positions, 1500);
  fields("max_target_positions", config.max_positions, 448);
  // Here the vocabulary is that of the targets, and positions have fields of their own.
  TransformerConfig common = config;
  common.source_vocabulary = config.target_vocabulary;
  bart_fields(fields, common,
              {.has_positions = false, .eos_id = 50256, .pad_id = 50256, .decoder_start_id = 50257});
  config = common;
  config.source_vocabulary = 0;
  config.target_vocabulary = common.source_vocabulary;
  config.embedding_dropout = config.dropout;
  fields.expect("tie_word_embeddings", true);
  // Of training, of a classifier, and of generation_config.json.
  fields.irrelevant(
      "apply_spec_augment begin_suppress_tokens classifier_proj_size forced_decoder_ids mask_feature_length "
      "mask_feature_min_masks mask_feature_prob mask_time_length mask_time_min_masks mask_time_prob "
      "max_length median_filter_width num_key_value_heads suppress_tokens use_weighted_layer_sum");
}

WeightMap weight_map(const TransformerConfig& config) {
  constexpr int64_t kTaps = 3;
  const auto convolution = [&](const char* name, int64_t inputs) {
    return WeightRule{.ours = name,
                      .theirs = name,
                      .layout = Layout::taps_last,
                      .shape = Shape{config.d_model, inputs, kTaps}};
  };
  return {.rules = {convolution("model.encoder.conv1", config.mel_bins),
                    convolution("model.encoder.conv2", config.d_model),
                    {.ours = "model.decoder.embed_tokens",
                     .theirs = "model.decoder.embed_tokens",
                     .also = {"proj_out"}}},
          .prefix = "model.",
          .others_same = true};
}

}  // namespace

TranslationFamily whisper_family() {
  return {.model_type = "whisper",
          .classes = {{"WhisperForConditionalGeneration"}, {"WhisperModel"}},
          .base = {.config = {.activation = kernels::Activation::gelu_exact,
                              .norm = nn::NormPlacement::pre,
                              .key_bias = false,
                              .output_bias = false,
                              .positions = nn::PositionKind::learned,
                              .tying = Tying::two_way,
                              .mel_bins = 80}},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
