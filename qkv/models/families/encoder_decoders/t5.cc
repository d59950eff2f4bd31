// T5 (Raffel et al. 2020), and T5 v1.1 and FLAN, which have a gated feed-forward and an untied output
// projection, as mT5 (Xue et al. 2021) has them: pre-norm blocks with RMS norms and no biases, relative
// positions, unscaled scores. Also the encoder alone, for text embeddings (Ni et al. 2022).

#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

// "relu", "gated-gelu", "gated-silu"; T5's "gated-gelu" is the tanh approximation.
void feed_forward_field(const Fields& fields, TransformerConfig& config, const char* usual) {
  constexpr const char* kKey = "feed_forward_proj";
  const std::string gated = "gated-", gelu = "gated-gelu";
  std::string words = config.gated && config.activation == Activation::gelu_tanh
                          ? gelu
                          : concat(config.gated ? gated : "", activation_name(config.activation));
  fields(kKey, words, usual);
  config.gated = words.starts_with(gated);
  const auto activation = words == gelu ? Activation::gelu_tanh
                                        : activation_of(config.gated ? words.substr(gated.size()) : words);
  fields.require(kKey, activation.has_value(), "an activation, or \"gated-\" before one");
  config.activation = activation.value_or(Activation::identity);
}

void ids_fields(const Fields& fields, TransformerConfig& config) {
  fields("eos_token_id", config.eos_id, 1);
  fields("pad_token_id", config.pad_id, 0);
  fields("decoder_start_token_id", config.decoder_start_id, config.pad_id);
  fields.expect("is_encoder_decoder", true);
  fields.derive("is_encoder_decoder", true);
}

enum class Kind : uint8_t { pair, encoder, mt5 };

void visit_t5(const Fields& fields, TransformerConfig& config, Kind kind) {
  fields("vocab_size", config.source_vocabulary);
  fields("d_model", config.d_model);
  fields("num_layers", config.encoder_layers);
  fields("num_heads", config.heads);
  if (config.d_k == 0) config.d_k = config.d_model / std::max<int64_t>(config.heads, 1);
  fields("d_kv", config.d_k);
  fields("d_ff", config.d_ff);
  feed_forward_field(fields, config, kind == Kind::mt5 ? "gated-gelu" : "relu");
  fields("layer_norm_epsilon", config.epsilon, 1e-6);
  fields("relative_attention_num_buckets", config.position_buckets, 32);
  fields("relative_attention_max_distance", config.position_max_distance, 128);
  fields("dropout_rate", config.dropout, 0.1);
  config.target_vocabulary = config.source_vocabulary;
  config.d_v = config.d_k;
  config.embedding_dropout = config.attention_dropout = config.activation_dropout = config.dropout;
  // Training settings, and repetitions of other fields. "n_positions" is the text length in training, not a
  // limit.
  fields.irrelevant("dense_act_fn is_gated_act initializer_factor classifier_dropout n_positions");
  if (kind == Kind::encoder) {
    fields.irrelevant("num_decoder_layers tie_word_embeddings scale_decoder_outputs");
    return fields.derive("is_encoder_decoder", false);
  }
  fields("num_decoder_layers", config.decoder_layers, config.encoder_layers);
  if (kind == Kind::mt5) {
    // The projection is the file's own, or the table in a file without one.
    fields.derive("tie_word_embeddings", false);
    config.tying = Tying::inputs;
    return ids_fields(fields, config);
  }
  // Before version 5, this field alone said whether the model is of the first kind (tied); since then it is
  // always true.
  bool tied = config.scale_output;
  fields("tie_word_embeddings", tied, true);
  fields("scale_decoder_outputs", config.scale_output, tied);
  config.tying = config.scale_output ? Tying::three_way : Tying::inputs;
  ids_fields(fields, config);
}

void pair_table(const Fields& fields, Described<TransformerConfig>& model) {
  visit_t5(fields, model.config, Kind::pair);
}

void mt5_table(const Fields& fields, Described<TransformerConfig>& model) {
  visit_t5(fields, model.config, Kind::mt5);
}

TransformerConfig t5_base() {
  return {.norm = nn::NormPlacement::pre,
          .norm_kind = nn::NormKind::rms,
          .bias = false,
          .output_bias = false,
          .positions = nn::PositionKind::relative,
          .scale_embedding = false,
          .scale_attention = false,
          .final_norm = true};
}

void encoder_table(const Fields& fields, Described<TextEncoderConfig>& model) {
  auto& [config, layer, layers] = model;
  TransformerConfig pair = t5_base();
  if (!fields.reads()) {
    pair.source_vocabulary = config.vocabulary;
    pair.d_model = layer.d_model;
    pair.encoder_layers = layers;
    pair.heads = layer.heads;
    pair.d_k = layer.d_k;
    pair.d_ff = layer.d_ff;
    pair.activation = layer.activation;
    pair.gated = layer.gated;
    pair.epsilon = layer.epsilon;
    pair.position_buckets = layer.attention.positions.buckets;
    pair.position_max_distance = layer.attention.positions.max_distance;
    pair.dropout = layer.dropout;
  }
  visit_t5(fields, pair, Kind::encoder);
  config.vocabulary = pair.source_vocabulary;
  config.embedding.dropout = pair.embedding_dropout;
  layer = pair.encoder_stack().first();
  layers = pair.encoder_layers;
}

// Rules of a stack, "encoder" or "decoder", whose modules' names begin with `ours` here.
void add_stack(WeightMap& map, const std::string& ours, const std::string& stack, bool gated) {
  const auto rule = [&](const std::string& name, const std::string& theirs) {
    map.rules.push_back({ours + name, concat(stack, ".", theirs)});
  };
  const auto attention = [&](const std::string& name, const std::string& theirs) {
    rule(concat("layers.#.", name, ".q_proj"), theirs + ".q");
    rule(concat("layers.#.", name, ".k_proj"), theirs + ".k");
    rule(concat("layers.#.", name, ".v_proj"), theirs + ".v");
    rule(concat("layers.#.", name, ".out_proj"), theirs + ".o");
  };
  rule("relative_positions", "block.0.layer.0.SelfAttention.relative_attention_bias");
  attention("self_attn", "block.#.layer.0.SelfAttention");
  rule("layers.#.self_attn_layer_norm", "block.#.layer.0.layer_norm");
  if (stack == "decoder") {
    attention("encoder_attn", "block.#.layer.1.EncDecAttention");
    rule("layers.#.encoder_attn_layer_norm", "block.#.layer.1.layer_norm");
  }
  const std::string last = stack == "decoder" ? "block.#.layer.2." : "block.#.layer.1.";
  rule("layers.#.fc1", last + (gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"));
  rule("layers.#.gate", last + "DenseReluDense.wi_0");
  rule("layers.#.fc2", last + "DenseReluDense.wo");
  rule("layers.#.final_layer_norm", last + "layer_norm");
  rule("layer_norm", "final_layer_norm");
}

// Older files store one of the tied tables, not always the same.
WeightMap pair_weight_map(const TransformerConfig& config) {
  const std::string source = "encoder.embed_tokens", target = "decoder.embed_tokens";
  WeightMap map{.rules = {{.ours = "model.shared", .theirs = "shared", .also = {source, target}},
                          {.ours = "lm_head", .theirs = "lm_head", .otherwise = {"shared", target}}}};
  if (config.tying == Tying::three_way) map.rules.front().also.emplace_back("lm_head");
  add_stack(map, "model.encoder.", "encoder", config.gated);
  add_stack(map, "model.decoder.", "decoder", config.gated);
  return map;
}

WeightMap encoder_weight_map(const TextEncoderConfig& config) {
  WeightMap map{.rules = {{.ours = "embed_tokens",
                           .theirs = "shared",
                           .also = {"encoder.embed_tokens"},
                           .otherwise = {"decoder.embed_tokens"}}}};
  add_stack(map, "encoder.", "encoder", config.encoder.first().gated);
  return map;
}

}  // namespace

TranslationFamily t5_family() {
  return {.model_type = "t5",
          .classes = {{"T5ForConditionalGeneration"}, {"T5WithLMHeadModel"}},
          .base = {.config = t5_base()},
          .table = pair_table,
          .weight_map = pair_weight_map};
}

TranslationFamily mt5_family() {
  return {.model_type = "mt5",
          .classes = {{"MT5ForConditionalGeneration"}},
          .base = {.config = t5_base()},
          .table = mt5_table,
          .weight_map = pair_weight_map};
}

// From any folder that has an encoder.
EncoderFamily t5_encoder_family() {
  return {.model_type = "t5",
          .classes = {{"T5EncoderModel"}, {"T5ForConditionalGeneration"}, {"T5WithLMHeadModel"}, {"T5Model"}},
          .base = {.config = {.embedding = {.positions = {}}, .encoder = {.final_norm = true}}},
          .table = encoder_table,
          .weight_map = encoder_weight_map,
          .own_class = "T5EncoderModel"};
}

}  // namespace qkv::models
