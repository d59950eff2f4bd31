#pragma once
// Common to BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and ViT (Dosovitskiy et al. 2021).

#include <string>

#include "qkv/models/hub/family.h"

namespace qkv::models {

// The fields of the blocks under BERT's names. `dropout` and `activation`: the defaults.
template <class Config>
void block_fields(const Fields& fields, Described<Config>& model, double dropout,
                  const char* activation = "gelu") {
  nn::LayerOptions& layer = model.layer;
  fields("hidden_size", layer.d_model);
  fields("num_hidden_layers", model.layers);
  fields("num_attention_heads", layer.heads);
  fields("intermediate_size", layer.d_ff);
  fields("hidden_act", layer.activation, activation);
  fields("layer_norm_eps", layer.epsilon, 1e-12);
  fields("hidden_dropout_prob", layer.dropout, dropout);
  fields("attention_probs_dropout_prob", layer.attention_dropout, dropout);
}

// Post-norm blocks after learned positions, token types and a norm.
Described<TextEncoderConfig> bert_base();
// Pre-norm blocks and a norm after the last one. `embedding_norm`: whether the embeddings have one.
Described<TextEncoderConfig> pre_norm_bert_base(bool embedding_norm);
// All fields but those of BERT or RoBERTa alone. Position 0 is a row of the table, the first by default.
void bert_fields(const Fields& fields, Described<TextEncoderConfig>& model);

// The tensor names of embeddings and blocks in BERT's files, which RoBERTa shares: `model` is "bert" or
// "roberta"; `head` is the other name of the table of a masked language model.
WeightMap bert_weight_map(const TextEncoderConfig& config, const std::string& model, const std::string& head);

// The map with other names of the norms, within "<model>.encoder.layer.#." and within "<model>.".
WeightMap with_norms(WeightMap map, const std::string& model, const char* of_attention,
                     const char* of_feed_forward, const char* final_norm);

}  // namespace qkv::models
