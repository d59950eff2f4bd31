#include "qkv/models/families/encoders/bert_family.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr int64_t kMaxLabels = 1'000'000;

constexpr std::array<std::pair<std::string_view, ProblemType>, 3> kProblemTypes{
    {{"single_label_classification", ProblemType::single_label},
     {"multi_label_classification", ProblemType::multi_label},
     {"regression", ProblemType::regression}}};

template <class Fields, class Config>
void visit_bert_fields(const Fields& fields, Config& config, Blocks& blocks) {
  fields("vocab_size", config.vocabulary);
  fields("max_position_embeddings", config.embedding.positions.max_positions, 512);
  fields("type_vocab_size", config.embedding.token_types, 2);
  visit_block_fields(fields, blocks, 0.1);
}

}  // namespace

void read_heads(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                TextEncoderConfig& config) {
  const std::vector<std::string> names = reader.strings("architectures");
  const auto* found = known.data();
  if (!names.empty()) {
    const auto spelled = std::ranges::find(known, names.front(), &EncoderArchitecture::name);
    if (spelled == known.end()) {
      std::string list;
      for (const EncoderArchitecture& one : known) list += concat(list.empty() ? "" : ", ", one.name);
      reader.reject("architectures", concat("one of ", list));
    }
    found = &*spelled;
  }
  config.pooler = found->pooler;
  config.masked_language = found->masked_language;
  config.next_sentence = found->next_sentence;
  config.labelled = found->labelled;
  if (config.labelled == ClassificationTarget::nothing) return;
  config.labels = read_labels(reader);
  config.problem = read_problem_type(reader, config.labels.size());
}

std::vector<std::string> read_labels(const ConfigReader& reader) {
  const std::vector<std::pair<std::string, std::string>> entries = reader.entries("id2label");
  const int64_t count = entries.empty() ? reader.integer("num_labels", 2) : std::ssize(entries);
  if (count < 1 || count > kMaxLabels) reader.reject("num_labels", concat("1 to ", kMaxLabels));
  std::vector<std::string> labels(static_cast<size_t>(count));
  if (entries.empty()) {
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = concat("LABEL_", i);
  }
  std::vector<bool> known(labels.size());
  for (const auto& [number, label] : entries) {
    size_t i = labels.size();
    const char* const end = number.data() + number.size();
    if (std::from_chars(number.data(), end, i).ptr != end || i >= labels.size() || known[i]) {
      reader.reject("id2label", concat("the numbers from 0 to ", labels.size() - 1, " and their labels"));
    }
    known[i] = true;
    labels[i] = label;
  }
  return labels;
}

ProblemType read_problem_type(const ConfigReader& reader, size_t labels) {
  const std::string type = reader.string("problem_type", "");
  for (const auto& [word, problem] : kProblemTypes) {
    // With one label, single-label classification is a yes-or-no decision.
    if (word == type && !(problem == ProblemType::single_label && labels == 1)) return problem;
  }
  return labels == 1 ? ProblemType::multi_label : ProblemType::single_label;
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
                          known.back().name, ", found another combination"));
}

void write_labels(const std::vector<std::string>& labels, ProblemType problem, ConfigWriter& writer) {
  if (labels.empty()) return;
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<std::pair<std::string, int64_t>> ids;
  for (const std::string& label : labels) {
    ids.emplace_back(label, std::ssize(entries));
    entries.emplace_back(std::to_string(entries.size()), label);
  }
  writer.strings("id2label", entries);
  writer.integers("label2id", ids);
  for (const auto& [word, type] : kProblemTypes) {
    if (type == problem && type != ProblemType::single_label) writer.string("problem_type", word);
  }
}

TextEncoderConfig parse_bert_fields(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                                    int64_t first_row) {
  TextEncoderConfig config{
      .embedding = {.scale = false,
                    .positions = {.kind = nn::PositionKind::learned, .first_row = first_row},
                    .norm = true}};
  Blocks blocks;
  visit_bert_fields(FieldReader(reader), config, blocks);
  config.encoder.layers = blocks.list();
  nn::EmbeddingConfig& embedding = config.embedding;
  config.max_positions = embedding.positions.max_positions - first_row;
  embedding.d_model = blocks.layer.d_model;
  embedding.epsilon = blocks.layer.epsilon;
  embedding.dropout = blocks.layer.dropout;
  read_heads(reader, known, config);
  reader.require_string("position_embedding_type", "absolute");
  reader.require_boolean("is_decoder", false);
  reader.require_boolean("is_encoder_decoder", false);
  reader.require_boolean("add_cross_attention", false);
  reader.require_boolean("tie_word_embeddings", true);
  return config;
}

ConfigWriter serialize_bert_fields(const TextEncoderConfig& config, const char* family,
                                   std::span<const EncoderArchitecture> known, int64_t first_row) {
  require_bert_blocks(config, family, first_row);
  ConfigWriter writer(family, architecture_of(config, known).name);
  Blocks blocks = Blocks::of(config.encoder);
  visit_bert_fields(FieldWriter(writer), config, blocks);
  write_labels(config.labels, config.problem, writer);
  return writer;
}

void require_bert_blocks(const TextEncoderConfig& config, const char* family, int64_t first_row) {
  const nn::LayerOptions& layer = config.encoder.uniform();
  const nn::EmbeddingConfig& embedding = config.embedding;
  const auto usual = [&](int64_t width) { return width == 0 || width * layer.heads == layer.d_model; };
  const bool fits =
      embedding.positions.kind == nn::PositionKind::learned && embedding.positions.first_row == first_row &&
      embedding.positions.pad_id == first_row - 1 && !embedding.scale && embedding.norm &&
      has_plain_scores(layer) && embedding.epsilon == layer.epsilon && !config.encoder.final_norm &&
      layer.norm == nn::NormPlacement::post && layer.norm_kind == nn::NormKind::layer && !layer.gated &&
      layer.attention.bias == nn::ProjectionBiases{} && layer.feed_forward_bias && usual(layer.d_k) &&
      usual(layer.d_v) && (layer.key_heads == 0 || layer.key_heads == layer.heads) &&
      layer.attention.positions.kind == nn::PositionKind::none;
  if (!fits) {
    throw UsageError(concat(family, ": expected learned positions from row ", first_row,
                            " on, a norm of the embeddings and post-norm "
                            "blocks with layer norms and biases, found another model"));
  }
}

WeightMap bert_weight_map(const std::string& model, const std::vector<std::string>& head) {
  const std::string embeddings = model + ".embeddings.", layer = model + ".encoder.layer.#.";
  return {.rules = {{.ours = "embed_tokens", .theirs = embeddings + "word_embeddings", .also = head},
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
          .prefix = model + ".",
          .computed = {"embeddings.position_ids", "embeddings.token_type_ids"}};
}

}  // namespace qkv::models
