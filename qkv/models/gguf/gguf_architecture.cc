#include "qkv/models/gguf/gguf_architecture.h"

#include <array>
#include <cstddef>

namespace qkv::models {
namespace {

template <size_t A, size_t B>
constexpr std::array<GgufModule, A + B> joined(const std::array<GgufModule, A>& first,
                                               const std::array<GgufModule, B>& second) {
  std::array<GgufModule, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = first[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = second[i];
  return all;
}

constexpr std::array kGatedModules{GgufModule{"token_embd", "model.embed_tokens"},
                                   GgufModule{"output_norm", "model.norm"},
                                   GgufModule{"output", "lm_head"},
                                   GgufModule{"blk.#.attn_norm", "model.layers.#.input_layernorm"},
                                   GgufModule{"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
                                   GgufModule{"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
                                   GgufModule{"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
                                   GgufModule{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
                                   GgufModule{"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"},
                                   GgufModule{"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
                                   GgufModule{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
                                   GgufModule{"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
                                   GgufModule{"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};

constexpr auto kLlamaModules = joined(
    kGatedModules, std::array{GgufModule{"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"}});

// Gemma 2 and 3 have norms of the sublayers' results, too.
constexpr auto kGemmaModules =
    joined(kGatedModules,
           std::array{GgufModule{"blk.#.post_attention_norm", "model.layers.#.post_attention_layernorm"},
                      GgufModule{"blk.#.ffn_norm", "model.layers.#.pre_feedforward_layernorm"},
                      GgufModule{"blk.#.post_ffw_norm", "model.layers.#.post_feedforward_layernorm"}});

constexpr std::array kPhi3Modules{GgufModule{"token_embd", "model.embed_tokens"},
                                  GgufModule{"output_norm", "model.norm"},
                                  GgufModule{"output", "lm_head"},
                                  GgufModule{"blk.#.attn_norm", "model.layers.#.input_layernorm"},
                                  GgufModule{"blk.#.attn_qkv", "model.layers.#.self_attn.qkv_proj"},
                                  GgufModule{"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
                                  GgufModule{"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
                                  GgufModule{"blk.#.ffn_up", "model.layers.#.mlp.gate_up_proj"},
                                  GgufModule{"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};

constexpr std::array kGpt2Modules{GgufModule{"token_embd", "transformer.wte"},
                                  GgufModule{"position_embd", "transformer.wpe"},
                                  GgufModule{"output_norm", "transformer.ln_f"},
                                  GgufModule{"output", "lm_head"},
                                  GgufModule{"blk.#.attn_norm", "transformer.h.#.ln_1"},
                                  GgufModule{"blk.#.attn_qkv", "transformer.h.#.attn.c_attn"},
                                  GgufModule{"blk.#.attn_output", "transformer.h.#.attn.c_proj"},
                                  GgufModule{"blk.#.ffn_norm", "transformer.h.#.ln_2"},
                                  GgufModule{"blk.#.ffn_up", "transformer.h.#.mlp.c_fc"},
                                  GgufModule{"blk.#.ffn_down", "transformer.h.#.mlp.c_proj"}};

constexpr std::array kBertModules{
    GgufModule{"token_embd", "bert.embeddings.word_embeddings"},
    GgufModule{"position_embd", "bert.embeddings.position_embeddings"},
    GgufModule{"token_types", "bert.embeddings.token_type_embeddings"},
    GgufModule{"token_embd_norm", "bert.embeddings.LayerNorm"},
    GgufModule{"blk.#.attn_q", "bert.encoder.layer.#.attention.self.query"},
    GgufModule{"blk.#.attn_k", "bert.encoder.layer.#.attention.self.key"},
    GgufModule{"blk.#.attn_v", "bert.encoder.layer.#.attention.self.value"},
    GgufModule{"blk.#.attn_output", "bert.encoder.layer.#.attention.output.dense"},
    GgufModule{"blk.#.attn_output_norm", "bert.encoder.layer.#.attention.output.LayerNorm"},
    GgufModule{"blk.#.ffn_up", "bert.encoder.layer.#.intermediate.dense"},
    GgufModule{"blk.#.ffn_down", "bert.encoder.layer.#.output.dense"},
    GgufModule{"blk.#.layer_output_norm", "bert.encoder.layer.#.output.LayerNorm"}};

constexpr std::array kNomicBertModules{
    GgufModule{"token_embd", "nomic_bert.embeddings.word_embeddings"},
    GgufModule{"token_types", "nomic_bert.embeddings.token_type_embeddings"},
    GgufModule{"token_embd_norm", "nomic_bert.emb_ln"},
    GgufModule{"blk.#.attn_qkv", "nomic_bert.encoder.layers.#.attn.Wqkv"},
    GgufModule{"blk.#.attn_output", "nomic_bert.encoder.layers.#.attn.out_proj"},
    GgufModule{"blk.#.attn_output_norm", "nomic_bert.encoder.layers.#.norm1"},
    GgufModule{"blk.#.ffn_up", "nomic_bert.encoder.layers.#.mlp.fc11"},
    GgufModule{"blk.#.ffn_gate", "nomic_bert.encoder.layers.#.mlp.fc12"},
    GgufModule{"blk.#.ffn_down", "nomic_bert.encoder.layers.#.mlp.fc2"},
    GgufModule{"blk.#.layer_output_norm", "nomic_bert.encoder.layers.#.norm2"}};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() {
  static constexpr std::array kAll{
      GgufArchitecture{"llama", "llama", "LlamaForCausalLM", kLlamaModules, describe_llama, put_llama,
                       /*paired=*/true},
      GgufArchitecture{"qwen2", "qwen2", "Qwen2ForCausalLM", kLlamaModules, describe_qwen, put_llama},
      GgufArchitecture{"qwen3", "qwen3", "Qwen3ForCausalLM", kLlamaModules, describe_qwen, put_llama},
      GgufArchitecture{"gemma", "gemma", "GemmaForCausalLM", kLlamaModules, describe_gemma, put_gemma},
      GgufArchitecture{"gemma2", "gemma2", "Gemma2ForCausalLM", kGemmaModules, describe_gemma2, put_gemma2},
      GgufArchitecture{"gemma3", "gemma3_text", "Gemma3ForCausalLM", kGemmaModules, describe_gemma3,
                       put_gemma3},
      GgufArchitecture{"phi3", "phi3", "Phi3ForCausalLM", kPhi3Modules, describe_phi3, put_phi3},
      GgufArchitecture{"gpt2", "gpt2", "GPT2LMHeadModel", kGpt2Modules, describe_gpt2, put_gpt2},
      GgufArchitecture{"bert", "bert", "BertEncoder", kBertModules, describe_bert, put_bert},
      GgufArchitecture{"nomic-bert", "nomic_bert", "NomicBertModel", kNomicBertModules, describe_nomic_bert,
                       put_nomic_bert}};
  return kAll;
}

}  // namespace qkv::models
