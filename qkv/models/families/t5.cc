// T5 (Raffel et al. 2020), and T5 v1.1 and FLAN with a gated feed-forward and an output projection of their
// own: pre-norm blocks with RMS norms and no biases, relative positions, scores that are not scaled.

#include <array>

#include "qkv/base/error.h"
#include "qkv/models/config_writer.h"
#include "qkv/models/family.h"

namespace qkv::models {
namespace {

constexpr std::string_view kGated = "gated-";

// "relu", "gated-gelu", "gated-silu": what T5 calls "gated-gelu" is the approximation with tanh.
void read_feed_forward(const ConfigReader& reader, TransformerConfig& config) {
  const std::string words = reader.text("feed_forward_proj", "relu");
  config.gated = words.starts_with(kGated);
  const std::string name = config.gated ? words.substr(kGated.size()) : words;
  const auto activation = activation_of(words == "gated-gelu" ? "gelu_new" : name);
  if (!activation) reader.refuse("feed_forward_proj", "an activation, or \"gated-\" before one");
  config.activation = *activation;
}

TransformerConfig read(const ConfigReader& reader) {
  const std::vector<std::string> classes = reader.texts("architectures");
  if (!classes.empty() && classes.front() != "T5ForConditionalGeneration" &&
      classes.front() != "T5WithLMHeadModel") {
    reader.refuse("architectures", "T5ForConditionalGeneration");
  }
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = reader.whole("vocab_size");
  config.d_model = reader.whole("d_model");
  config.encoder_layers = reader.whole("num_layers");
  config.decoder_layers = reader.whole("num_decoder_layers", config.encoder_layers);
  config.heads = reader.whole("num_heads");
  config.d_k = config.d_v = reader.whole("d_kv");
  config.d_ff = reader.whole("d_ff");
  read_feed_forward(reader, config);
  config.norm = nn::NormPlacement::pre;
  config.norm_kind = nn::NormKind::rms;
  config.epsilon = static_cast<float>(reader.number("layer_norm_epsilon", 1e-6));
  config.bias = config.output_bias = false;
  config.positions = nn::PositionKind::relative;
  config.position_buckets = reader.whole("relative_attention_num_buckets", 32);
  config.position_max_distance = reader.whole("relative_attention_max_distance", 128);
  config.scale_embedding = config.scale_attention = false;
  // Versions before 5 said by the first field alone whether a model is of the first kind; those after it say
  // true there for all.
  const bool tied = reader.flag("tie_word_embeddings", true);
  config.scale_output = reader.flag("scale_decoder_outputs", tied);
  config.tying = config.scale_output ? Tying::three_way : Tying::inputs;
  config.final_norm = true;
  config.dropout = static_cast<float>(reader.number("dropout_rate", 0.1));
  config.embedding_dropout = config.attention_dropout = config.activation_dropout = config.dropout;
  config.eos_id = reader.whole("eos_token_id", 1);
  config.pad_id = reader.whole("pad_token_id", 0);
  config.decoder_start_id = reader.whole("decoder_start_token_id", config.pad_id);
  reader.require_flag("is_encoder_decoder", true);
  reader.require_flag("is_decoder", false);
  // Of training, of decoding (generation_config.json says how to decode), and what repeats other fields.
  // "n_positions" is how long the texts of training were; there is no such limit.
  constexpr std::array<std::string_view, 13> kIrrelevant{
      "dense_act_fn",   "is_gated_act",   "initializer_factor",  "classifier_dropout", "n_positions",
      "output_past",    "id2label",       "max_length",          "min_length",         "num_beams",
      "early_stopping", "length_penalty", "no_repeat_ngram_size"};
  reader.refuse_the_rest(kIrrelevant);
  return config;
}

bool fits(const TransformerConfig& config) {
  const int64_t width = config.d_k > 0 ? config.d_k : config.d_model / config.heads;
  return config.norm == nn::NormPlacement::pre && config.norm_kind == nn::NormKind::rms && !config.bias &&
         !config.output_bias && config.positions == nn::PositionKind::relative && !config.scale_embedding &&
         !config.scale_attention && config.source_vocabulary == config.target_vocabulary &&
         config.tying == (config.scale_output ? Tying::three_way : Tying::inputs) &&
         width == (config.d_v > 0 ? config.d_v : config.d_model / config.heads) &&
         !(config.gated && config.activation == Activation::gelu_exact);  // whose words mean the other
}

std::string feed_forward_words(const TransformerConfig& config) {
  if (config.gated && config.activation == Activation::gelu_tanh) return "gated-gelu";
  return concat(config.gated ? kGated : "", activation_name(config.activation));
}

std::string write(const TransformerConfig& config) {
  if (!fits(config)) {
    throw UsageError(
        "t5: expected relative positions and pre-norm blocks with RMS norms, without biases and with scores "
        "that are not scaled, found another model");
  }
  ConfigWriter writer("t5", "T5ForConditionalGeneration");
  writer.whole("vocab_size", config.target_vocabulary);
  writer.whole("d_model", config.d_model);
  writer.whole("d_kv", config.d_k > 0 ? config.d_k : config.d_model / config.heads);
  writer.whole("d_ff", config.d_ff);
  writer.whole("num_layers", config.encoder_layers);
  writer.whole("num_decoder_layers", config.decoder_layers);
  writer.whole("num_heads", config.heads);
  writer.whole("relative_attention_num_buckets", config.position_buckets);
  writer.whole("relative_attention_max_distance", config.position_max_distance);
  writer.text("feed_forward_proj", feed_forward_words(config));
  writer.number("layer_norm_epsilon", config.epsilon);
  writer.number("dropout_rate", config.dropout);
  writer.flag("is_encoder_decoder", true);
  writer.flag("tie_word_embeddings", config.scale_output);  // where transformers before 5 look
  writer.flag("scale_decoder_outputs", config.scale_output);
  writer.whole("pad_token_id", config.pad_id);
  writer.whole("eos_token_id", config.eos_id);
  writer.whole("decoder_start_token_id", config.decoder_start_id);
  return writer.json();
}

NameMap names(const TransformerConfig& config) {
  const std::string source = "encoder.embed_tokens", target = "decoder.embed_tokens";
  // Of tables that are tied older writers kept one, and not always the same.
  NameMap map{.rules = {{.ours = "model.shared", .theirs = "shared", .also = {source, target}},
                        {.ours = "lm_head", .theirs = "lm_head", .also = {"shared", target}}}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const auto rule = [&](const std::string& ours, const std::string& theirs) {
      map.rules.push_back({concat("model.", stack, ".", ours), concat(stack, ".", theirs)});
    };
    const auto attention = [&](const std::string& ours, const std::string& theirs) {
      rule(concat("layers.#.", ours, ".q_proj"), theirs + ".q");
      rule(concat("layers.#.", ours, ".k_proj"), theirs + ".k");
      rule(concat("layers.#.", ours, ".v_proj"), theirs + ".v");
      rule(concat("layers.#.", ours, ".out_proj"), theirs + ".o");
    };
    rule("relative_positions", "block.0.layer.0.SelfAttention.relative_attention_bias");
    attention("self_attn", "block.#.layer.0.SelfAttention");
    rule("layers.#.self_attn_layer_norm", "block.#.layer.0.layer_norm");
    if (stack == "decoder") {
      attention("encoder_attn", "block.#.layer.1.EncDecAttention");
      rule("layers.#.encoder_attn_layer_norm", "block.#.layer.1.layer_norm");
    }
    const std::string last = stack == "decoder" ? "block.#.layer.2." : "block.#.layer.1.";
    rule("layers.#.fc1", last + (config.gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"));
    rule("layers.#.gate", last + "DenseReluDense.wi_0");
    rule("layers.#.fc2", last + "DenseReluDense.wo");
    rule("layers.#.final_layer_norm", last + "layer_norm");
    rule("layer_norm", "final_layer_norm");
  }
  return map;
}

}  // namespace

// The likeliest token is taken each time where a folder does not say otherwise.
TranslationFamily t5_family() { return {{"t5", read, write, names}, fits, {.beam = 1, .length_penalty = 1}}; }

}  // namespace qkv::models
