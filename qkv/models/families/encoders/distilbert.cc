// DistilBERT (Sanh et al. 2019): BERT's blocks without token types and pooler, in words of its own.

#include <array>

#include "qkv/models/families/encoders/bert_family.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr std::array<EncoderArchitecture, 4> kArchitectures{
    {{.name = "DistilBertModel"},
     {.name = "DistilBertForMaskedLM", .masked_language = true},
     {.name = "DistilBertForSequenceClassification", .pooler = true, .labelled = ClassificationTarget::texts},
     {.name = "DistilBertForTokenClassification", .labelled = ClassificationTarget::tokens}}};

constexpr float kEpsilon = 1e-12f;  // no field says it

TextEncoderConfig read(const ConfigReader& reader) {
  const int64_t d_model = reader.whole("dim");
  const int64_t places = reader.whole("max_position_embeddings", 512);
  const auto dropout = static_cast<float>(reader.number("dropout", 0.1));
  const Activation activation = reader.activation("activation", "gelu");
  TextEncoderConfig config{
      .vocabulary = reader.whole("vocab_size"),
      .max_positions = places,
      .embedding = {.d_model = d_model,
                    .scale = false,
                    .positions = {.kind = nn::PositionKind::learned, .max_positions = places},
                    .norm = true,
                    .epsilon = kEpsilon,
                    .dropout = dropout},
      .encoder = {.layers = reader.whole("n_layers"),
                  .layer = {.d_model = d_model,
                            .heads = reader.whole("n_heads"),
                            .d_ff = reader.whole("hidden_dim"),
                            .activation = activation,
                            .epsilon = kEpsilon,
                            .dropout = dropout,
                            .attention_dropout =
                                static_cast<float>(reader.number("attention_dropout", 0.1))}},
      .pooler_activation = Activation::relu,
      .masked_language_activation = activation};
  read_heads(reader, kArchitectures, config);
  reader.require_flag("is_encoder_decoder", false);
  reader.require_flag("tie_word_embeddings", true);
  reader.require_flag("tie_weights_", true);
  // Sinusoids are how positions started: the files hold them as a table like any other. Dropouts of training.
  constexpr std::array<std::string_view, 3> kIrrelevant{"sinusoidal_pos_embds", "qa_dropout",
                                                        "seq_classif_dropout"};
  reader.refuse_the_rest_of_a_model(kIrrelevant);
  return config;
}

std::string write(const TextEncoderConfig& config) {
  require_bert_blocks(config, "distilbert");
  const nn::LayerOptions& layer = config.encoder.layer;
  ConfigWriter writer("distilbert", architecture_of(config, kArchitectures).name);
  writer.whole("vocab_size", config.vocabulary);
  writer.whole("max_position_embeddings", config.embedding.positions.max_positions);
  writer.whole("dim", layer.d_model);
  writer.whole("n_layers", config.encoder.layers);
  writer.whole("n_heads", layer.heads);
  writer.whole("hidden_dim", layer.d_ff);
  writer.activation("activation", layer.activation);
  writer.number("dropout", layer.dropout);
  writer.number("attention_dropout", layer.attention_dropout);
  write_labels(config.labels, config.problem, writer);
  return writer.json();
}

NameMap names(const TextEncoderConfig& /*config*/) {
  return {
      .rules = {{"embed_tokens", "distilbert.embeddings.word_embeddings"},
                {"embed_positions", "distilbert.embeddings.position_embeddings"},
                {"embed_layer_norm", "distilbert.embeddings.LayerNorm"},
                {"encoder.layers.#.self_attn.q_proj", "distilbert.transformer.layer.#.attention.q_lin"},
                {"encoder.layers.#.self_attn.k_proj", "distilbert.transformer.layer.#.attention.k_lin"},
                {"encoder.layers.#.self_attn.v_proj", "distilbert.transformer.layer.#.attention.v_lin"},
                {"encoder.layers.#.self_attn.out_proj", "distilbert.transformer.layer.#.attention.out_lin"},
                {"encoder.layers.#.self_attn_layer_norm", "distilbert.transformer.layer.#.sa_layer_norm"},
                {"encoder.layers.#.fc1", "distilbert.transformer.layer.#.ffn.lin1"},
                {"encoder.layers.#.fc2", "distilbert.transformer.layer.#.ffn.lin2"},
                {"encoder.layers.#.final_layer_norm", "distilbert.transformer.layer.#.output_layer_norm"},
                {"pooler", "pre_classifier"},
                {"masked_language.dense", "vocab_transform"},
                {"masked_language.layer_norm", "vocab_layer_norm"},
                {"masked_language", "vocab_projector"},
                {"classifier", "classifier"}},
      .prefix = "distilbert.",
      .computed = {"embeddings.position_ids"}};
}

}  // namespace

EncoderFamily distilbert_family() { return {"distilbert", read, write, names}; }

}  // namespace qkv::models
