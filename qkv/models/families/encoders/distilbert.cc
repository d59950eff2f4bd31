// DistilBERT (Sanh et al. 2019): BERT's blocks without token types and pooler, with its own field names.

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

constexpr float kEpsilon = 1e-12f;  // a constant in transformers, not a field

template <class Fields, class Config>
void visit_distilbert_fields(const Fields& fields, Config& config, Blocks& blocks) {
  nn::LayerOptions& layer = blocks.layer;
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.embedding.positions.max_positions, 512);
  fields("dim", layer.d_model);
  fields("n_layers", blocks.layers);
  fields("n_heads", layer.heads);
  fields("hidden_dim", layer.d_ff);
  fields("activation", layer.activation, "gelu");
  fields("dropout", layer.dropout, 0.1);
  fields("attention_dropout", layer.attention_dropout, 0.1);
}

TextEncoderConfig parse(const ConfigReader& reader) {
  TextEncoderConfig config{.embedding = {.scale = false,
                                         .positions = {.kind = nn::PositionKind::learned},
                                         .norm = true,
                                         .epsilon = kEpsilon},
                           .pooler_activation = Activation::relu};
  Blocks blocks{.layer = {.epsilon = kEpsilon}};
  visit_distilbert_fields(FieldReader(reader), config, blocks);
  config.encoder.layers = blocks.list();
  config.max_positions = config.embedding.positions.max_positions;
  config.embedding.d_model = blocks.layer.d_model;
  config.embedding.dropout = blocks.layer.dropout;
  config.masked_language_activation = blocks.layer.activation;
  read_heads(reader, kArchitectures, config);
  reader.require_boolean("is_encoder_decoder", false);
  reader.require_boolean("tie_word_embeddings", true);
  reader.require_boolean("tie_weights_", true);
  // Sinusoids were only the initial positions: files hold the learned table. Training dropouts.
  constexpr std::array<std::string_view, 3> kIrrelevant{"sinusoidal_pos_embds", "qa_dropout",
                                                        "seq_classif_dropout"};
  reader.reject_unknown_model_fields(kIrrelevant);
  return config;
}

ConfigWriter serialize(const TextEncoderConfig& config) {
  require_bert_blocks(config, "distilbert", /*first_row=*/0);
  ConfigWriter writer("distilbert", architecture_of(config, kArchitectures).name);
  Blocks blocks = Blocks::of(config.encoder);
  visit_distilbert_fields(FieldWriter(writer), config, blocks);
  write_labels(config.labels, config.problem, writer);
  return writer;
}

WeightMap weight_map(const TextEncoderConfig& config) {
  const std::vector<std::string> tied =
      config.masked_language ? std::vector<std::string>{"vocab_projector"} : std::vector<std::string>();
  return {
      .rules = {{.ours = "embed_tokens", .theirs = "distilbert.embeddings.word_embeddings", .also = tied},
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

EncoderFamily distilbert_family() { return {"distilbert", parse, serialize, weight_map}; }

}  // namespace qkv::models
