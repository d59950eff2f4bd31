#pragma once
// What BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019) have in common.

#include <span>
#include <string>
#include <string_view>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/models/text_encoder.h"

namespace qkv::models {

// The classes that transformers saves such a model as, and the heads that each has.
struct EncoderArchitecture {
  std::string_view name;
  bool pooler = false, masked_language = false, next_sentence = false;
  ClassificationTarget labelled = ClassificationTarget::nothing;
};

// Gives a configuration the heads of the class that "architectures" names; of the first in `known` where it
// names none. Labels come from "id2label". Throws DataError for another class.
void read_heads(const ConfigReader& reader, std::span<const EncoderArchitecture> known,
                TextEncoderConfig& config);

// The labels of "id2label" in the order of their numbers; where there is none, as many as "num_labels" says
// (2, where that is not there either), by the names that transformers gives them. Throws DataError for
// numbers that do not begin at 0 or have holes. ViT took this over, too.
std::vector<std::string> read_labels(const ConfigReader& reader);
// What the logits of so many labels mean, as transformers' pipelines go by "problem_type".
ProblemType read_problem_type(const ConfigReader& reader, size_t labels);

// The class with these heads. Throws UsageError where there is none.
const EncoderArchitecture& architecture_of(const TextEncoderConfig& config,
                                           std::span<const EncoderArchitecture> known);
// Nothing where there are no labels.
void write_labels(const std::vector<std::string>& labels, ProblemType problem, ConfigWriter& writer);

// The sizes of the blocks in BERT's words, which RoBERTa and ViT took over.
void write_blocks(const nn::StackOptions& blocks, ConfigWriter& writer);

// Whether the blocks are those of all three: post-norm layer norms with biases after learned positions, of
// which `first_row` in front are not used. Throws UsageError naming the family where not.
void require_bert_blocks(const TextEncoderConfig& config, const char* family);

// The names of embeddings and blocks in BERT's files, which RoBERTa took over: `model` is "bert" or
// "roberta".
WeightMap bert_weight_map(const std::string& model);

}  // namespace qkv::models
