#include "qkv/models/families/bert_family.h"

#include <algorithm>

#include "qkv/base/error.h"

namespace qkv::models {

void read_heads(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                TextEncoderConfig& config) {
  const std::vector<std::string> names = reader.texts("architectures");
  const auto* found = known.data();
  if (!names.empty()) {
    const auto spelled = std::ranges::find(known, names.front(), &EncoderArchitecture::name);
    if (spelled == known.end()) {
      std::string list;
      for (const EncoderArchitecture& one : known) list += concat(list.empty() ? "" : ", ", one.name);
      reader.refuse("architectures", concat("one of ", list));
    }
    found = &*spelled;
  }
  config.pooler = found->pooler;
  config.masked_language = found->masked_language;
  config.next_sentence = found->next_sentence;
  config.labelled = found->labelled;
  std::vector<std::pair<std::string, std::string>> labels = reader.entries("id2label");
  // transformers leaves out what it would assume anyway.
  if (labels.empty()) labels = {{"0", "LABEL_0"}, {"1", "LABEL_1"}};
  if (config.labelled == Labelled::nothing) return;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label =
        std::ranges::find(labels, std::to_string(i), [](const auto& one) { return one.first; });
    if (label == labels.end()) {
      reader.refuse("id2label", concat("the numbers from 0 to ", labels.size() - 1, " and their labels"));
    }
    config.labels.push_back(label->second);
  }
}

const EncoderArchitecture& architecture_of(const TextEncoderConfig& config,
                                           std::span<const EncoderArchitecture> known) {
  for (const EncoderArchitecture& one : known) {
    if (one.pooler == config.pooler && one.masked_language == config.masked_language &&
        one.next_sentence == config.next_sentence && one.labelled == config.labelled) {
      return one;
    }
  }
  throw UsageError(concat("architecture: expected the heads of one of ", known.front().name, " to ",
                          known.back().name, ", found others together"));
}

void write_labels(const TextEncoderConfig& config, ConfigWriter& writer) {
  if (config.labelled == Labelled::nothing) return;
  std::vector<std::pair<std::string, std::string>> labels;
  for (const std::string& label : config.labels) labels.emplace_back(std::to_string(labels.size()), label);
  writer.texts("id2label", labels);
}

void write_blocks(const nn::StackOptions& blocks, ConfigWriter& writer) {
  const nn::LayerOptions& layer = blocks.layer;
  writer.whole("hidden_size", layer.d_model);
  writer.whole("num_hidden_layers", blocks.layers);
  writer.whole("num_attention_heads", layer.heads);
  writer.whole("intermediate_size", layer.d_ff);
  writer.activation("hidden_act", layer.activation);
  writer.number("layer_norm_eps", layer.epsilon);
  writer.number("hidden_dropout_prob", layer.dropout);
  writer.number("attention_probs_dropout_prob", layer.attention_dropout);
}

void require_bert_blocks(const TextEncoderConfig& config, const char* family) {
  const nn::LayerOptions& layer = config.encoder.layer;
  const nn::EmbeddingConfig& embedding = config.embedding;
  const auto usual = [&](int64_t width) { return width == 0 || width * layer.heads == layer.d_model; };
  const bool fits = embedding.positions.kind == nn::PositionKind::learned && !embedding.scale &&
                    embedding.norm && embedding.epsilon == layer.epsilon && !config.encoder.final_norm &&
                    layer.norm == nn::NormPlacement::post && layer.norm_kind == nn::NormKind::layer &&
                    !layer.gated && layer.attention_bias && layer.feed_forward_bias && usual(layer.d_k) &&
                    usual(layer.d_v) && (layer.key_heads == 0 || layer.key_heads == layer.heads) &&
                    layer.positions.kind == nn::PositionKind::none;
  if (!fits) {
    throw UsageError(concat(family,
                            ": expected learned positions, a norm of the embeddings and post-norm "
                            "blocks with layer norms and biases, found another model"));
  }
}

NameMap bert_names(const std::string& model) {
  const std::string embeddings = model + ".embeddings.", layer = model + ".encoder.layer.#.";
  return {.rules = {{"embed_tokens", embeddings + "word_embeddings"},
                    {"embed_positions", embeddings + "position_embeddings"},
                    {"embed_types", embeddings + "token_type_embeddings"},
                    {"embed_layer_norm", embeddings + "LayerNorm"},
                    {"encoder.layers.#.self_attn.q_proj", layer + "attention.self.query"},
                    {"encoder.layers.#.self_attn.k_proj", layer + "attention.self.key"},
                    {"encoder.layers.#.self_attn.v_proj", layer + "attention.self.value"},
                    {"encoder.layers.#.self_attn.out_proj", layer + "attention.output.dense"},
                    {"encoder.layers.#.self_attn_layer_norm", layer + "attention.output.LayerNorm"},
                    {"encoder.layers.#.fc1", layer + "intermediate.dense"},
                    {"encoder.layers.#.fc2", layer + "output.dense"},
                    {"encoder.layers.#.final_layer_norm", layer + "output.LayerNorm"}},
          .prefix = model + "."};
}

}  // namespace qkv::models
