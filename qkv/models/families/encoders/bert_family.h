#pragma once
// Common to BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019).

#include <span>
#include <string>
#include <string_view>

#include "qkv/models/hub/config_fields.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/models/text_encoder.h"

namespace qkv::models {

// A class of transformers and its heads.
struct EncoderArchitecture {
  std::string_view name;
  bool pooler = false, masked_language = false, next_sentence = false;
  ClassificationTarget labelled = ClassificationTarget::nothing;
};

// Configures the heads of the class named in "architectures"; by default, of the first in `known`. Labels
// come from "id2label". Throws DataError for another class.
void read_heads(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                TextEncoderConfig& config);

// The labels of "id2label" in order of their numbers. Without it, "num_labels" (default 2) labels with
// transformers' default names. Throws DataError unless the numbers are 0 to n-1. Also used by ViT.
std::vector<std::string> read_labels(const ConfigReader& reader);
// The problem type for a number of labels: "problem_type", or the default of transformers' pipelines.
ProblemType read_problem_type(const ConfigReader& reader, size_t labels);

// The class with these heads. Throws UsageError if there is none.
const EncoderArchitecture& architecture_of(const TextEncoderConfig& config,
                                           std::span<const EncoderArchitecture> known);
// Writes nothing if there are no labels.
void write_labels(const std::vector<std::string>& labels, ProblemType problem, ConfigWriter& writer);

// The fields of the blocks under BERT's names, which RoBERTa and ViT share. `dropout`: the default rate.
template <class Fields>
void visit_block_fields(const Fields& fields, Blocks& blocks, double dropout) {
  nn::LayerOptions& layer = blocks.layer;
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", blocks.layers);
  fields("num_attention_heads", layer.heads);
  fields("intermediate_size", layer.d_ff);
  fields("hidden_act", layer.activation, "gelu");
  fields("layer_norm_eps", layer.epsilon, 1e-12);
  fields("hidden_dropout_prob", layer.dropout, dropout);
  fields("attention_probs_dropout_prob", layer.attention_dropout, dropout);
}

// Reads a model under BERT's field names, which RoBERTa shares, with the heads of one of the `known` classes.
// `first_row` of the position table is position 0. Throws DataError for a decoder and the like; the family
// itself rejects unknown fields.
TextEncoderConfig parse_bert_fields(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                                    int64_t first_row);
// The inverse. Throws UsageError for other blocks, heads or positions.
ConfigWriter serialize_bert_fields(const TextEncoderConfig& config, const char* family,
                                   std::span<const EncoderArchitecture> known, int64_t first_row);

// Throws UsageError naming the family unless the blocks are post-norm with layer norms and biases, after
// learned positions, of which position 0 is row `first_row`. If that is not 0, the row before it is that of
// pad tokens, whose id has the same number.
void require_bert_blocks(const TextEncoderConfig& config, const char* family, int64_t first_row);

// The tensor names of embeddings and blocks in BERT's files, which RoBERTa shares: `model` is "bert" or
// "roberta".
WeightMap bert_weight_map(const std::string& model, const std::vector<std::string>& head);

}  // namespace qkv::models
