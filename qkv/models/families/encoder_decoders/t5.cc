// T5 (Raffel et al. 2020), and T5 v1.1 and FLAN, which have a gated feed-forward and an untied output
// projection: pre-norm blocks with RMS norms and no biases, relative positions, unscaled scores. Also the
// encoder alone, for text embeddings (Ni et al. 2022).

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr std::string_view kGated = "gated-";
constexpr std::string_view kPair = "T5ForConditionalGeneration", kOldPair = "T5WithLMHeadModel";
constexpr std::string_view kEncoder = "T5EncoderModel", kBase = "T5Model";

// "relu", "gated-gelu", "gated-silu"; T5's "gated-gelu" is the tanh approximation.
void read_feed_forward(const ConfigReader& reader, TransformerConfig& config) {
  const std::string words = reader.string("feed_forward_proj", "relu");
  config.gated = words.starts_with(kGated);
  const std::string name = config.gated ? words.substr(kGated.size()) : words;
  const auto activation = activation_of(words == "gated-gelu" ? "gelu_new" : name);
  if (!activation) reader.reject("feed_forward_proj", "an activation, or \"gated-\" before one");
  config.activation = *activation;
}

// All fields except the class, which are the same for encoder-decoders and encoders alone.
TransformerConfig read_sizes(const ConfigReader& reader) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = reader.integer("vocab_size");
  config.d_model = reader.integer("d_model");
  config.encoder_layers = reader.integer("num_layers");
  config.decoder_layers = reader.integer("num_decoder_layers", config.encoder_layers);
  config.heads = reader.integer("num_heads");
  config.d_k = config.d_v = reader.integer("d_kv");
  config.d_ff = reader.integer("d_ff");
  read_feed_forward(reader, config);
  config.norm = nn::NormPlacement::pre;
  config.norm_kind = nn::NormKind::rms;
  config.epsilon = static_cast<float>(reader.number("layer_norm_epsilon", 1e-6));
  config.bias = config.output_bias = false;
  config.positions = nn::PositionKind::relative;
  config.position_buckets = reader.integer("relative_attention_num_buckets", 32);
  config.position_max_distance = reader.integer("relative_attention_max_distance", 128);
  config.scale_embedding = config.scale_attention = false;
  // Before version 5, this field alone said whether the model is of the first kind (tied); since then it is
  // always true.
  const bool tied = reader.boolean("tie_word_embeddings", true);
  config.scale_output = reader.boolean("scale_decoder_outputs", tied);
  config.tying = config.scale_output ? Tying::three_way : Tying::inputs;
  config.final_norm = true;
  config.dropout = static_cast<float>(reader.number("dropout_rate", 0.1));
  config.embedding_dropout = config.attention_dropout = config.activation_dropout = config.dropout;
  config.eos_id = reader.integer("eos_token_id", 1);
  config.pad_id = reader.integer("pad_token_id", 0);
  config.decoder_start_id = reader.integer("decoder_start_token_id", config.pad_id);
  reader.require_boolean("is_decoder", false);
  // Training settings, and repetitions of other fields. "n_positions" is the text length in training, not a
  // limit.
  constexpr std::array<std::string_view, 6> kIrrelevant{"dense_act_fn",       "is_gated_act",
                                                        "initializer_factor", "classifier_dropout",
                                                        "n_positions",        "is_encoder_decoder"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

TransformerConfig parse_pair(const ConfigReader& reader) {
  reader.require_class({kPair, kOldPair});
  reader.require_boolean("is_encoder_decoder", true);
  return read_sizes(reader);
}

// From any folder that has an encoder.
TextEncoderConfig parse_encoder(const ConfigReader& reader) {
  reader.require_class({kEncoder, kPair, kOldPair, kBase});
  const TransformerConfig pair = read_sizes(reader);
  return {.vocabulary = pair.source_vocabulary,
          .embedding = {.d_model = pair.d_model,
                        .scale = false,
                        .positions = {},
                        .epsilon = pair.epsilon,
                        .dropout = pair.embedding_dropout},
          .encoder = pair.encoder_stack()};
}

int64_t width_of(const nn::LayerOptions& layer, int64_t width) {
  return width > 0 ? width : layer.d_model / layer.heads;
}

bool are_blocks(const nn::StackOptions& stack) {
  const nn::LayerOptions& layer = stack.uniform();
  return stack.final_norm && layer.norm == nn::NormPlacement::pre && layer.norm_kind == nn::NormKind::rms &&
         layer.attention.bias == nn::ProjectionBiases::all(false) && !layer.feed_forward_bias &&
         layer.attention.scale == 1.0f && layer.attention.softcap == 0 && layer.attention.window == 0 &&
         is_plain_block(layer) && layer.attention.positions.kind == nn::PositionKind::relative &&
         (layer.key_heads == 0 || layer.key_heads == layer.heads) &&
         width_of(layer, layer.d_k) == width_of(layer, layer.d_v) &&
         !(layer.gated && layer.activation == Activation::gelu_exact);  // whose words mean the other
}

bool fits(const TransformerConfig& config) {
  return are_blocks(config.encoder_stack()) && config.decoder_heads == 0 && config.decoder_d_ff == 0 &&
         !config.embedding_norm && !config.output_bias && !config.scale_embedding && config.source_eos &&
         config.source_vocabulary == config.target_vocabulary &&
         config.tying == (config.scale_output ? Tying::three_way : Tying::inputs);
}

bool fits(const TextEncoderConfig& config) {
  const nn::EmbeddingConfig& embedding = config.embedding;
  const bool plain = !embedding.scale && !embedding.norm && embedding.token_types == 0 &&
                     embedding.positions.kind == nn::PositionKind::none;
  const bool heads =
      config.pooler || config.masked_language || config.labelled != ClassificationTarget::nothing;
  return are_blocks(config.encoder) && plain && !heads && !config.max_positions;
}

std::string feed_forward_words(const nn::LayerOptions& layer) {
  if (layer.gated && layer.activation == Activation::gelu_tanh) return "gated-gelu";
  return concat(layer.gated ? kGated : "", activation_name(layer.activation));
}

// Fields that encoder-decoders and encoders alone have in common.
template <class Config>
ConfigWriter written(const Config& config, std::string_view architecture, int64_t vocabulary,
                     const nn::StackOptions& encoder) {
  if (!fits(config)) {
    throw UsageError(
        "t5: expected relative positions and pre-norm blocks with RMS norms, without biases and with scores "
        "that are not scaled, found another model");
  }
  const nn::LayerOptions& layer = encoder.uniform();
  ConfigWriter writer("t5", architecture);
  writer.integer("vocab_size", vocabulary);
  writer.integer("d_model", layer.d_model);
  writer.integer("d_kv", width_of(layer, layer.d_k));
  writer.integer("d_ff", layer.d_ff);
  writer.integer("num_layers", encoder.size());
  writer.integer("num_heads", layer.heads);
  writer.integer("relative_attention_num_buckets", layer.attention.positions.buckets);
  writer.integer("relative_attention_max_distance", layer.attention.positions.max_distance);
  writer.string("feed_forward_proj", feed_forward_words(layer));
  writer.number("layer_norm_epsilon", layer.epsilon);
  writer.number("dropout_rate", layer.dropout);
  writer.boolean("is_encoder_decoder", architecture == kPair);
  return writer;
}

ConfigWriter serialize_pair(const TransformerConfig& config) {
  ConfigWriter writer = written(config, kPair, config.target_vocabulary, config.encoder_stack());
  writer.integer("num_decoder_layers", config.decoder_layers);
  writer.boolean("tie_word_embeddings", config.scale_output);  // for transformers before 5
  writer.boolean("scale_decoder_outputs", config.scale_output);
  writer.integer("pad_token_id", config.pad_id);
  writer.integer("eos_token_id", config.eos_id);
  writer.integer("decoder_start_token_id", config.decoder_start_id);
  return writer;
}

ConfigWriter serialize_encoder(const TextEncoderConfig& config) {
  return written(config, kEncoder, config.vocabulary, config.encoder);
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

// Greedy search is the default of T5's folders.
TranslationFamily t5_family() { return {{"t5", parse_pair, serialize_pair, pair_weight_map}, fits}; }

EncoderFamily t5_encoder_family() {
  return {"t5", parse_encoder, serialize_encoder, encoder_weight_map, kEncoder};
}

}  // namespace qkv::models
