// The model types of transformers 5.24 for text whose layers are not softmax attention with feed-forwards.

#include <algorithm>
#include <array>
#include <span>

#include "qkv/base/field_text.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

struct OtherLayers {
  std::string_view kind;
  std::string_view model_types;  // separated by spaces
};

constexpr std::array<OtherLayers, 20> kOtherLayers{
    {{"state-space layers",
      "bamba falcon_h1 falcon_mamba granitemoehybrid jamba mamba mamba2 nemotron_h zamba zamba2"},
     {"linear attention or other recurrences",
      "bailing_hybrid kimi_linear lara_mini minimax olmo_hybrid qwen3_5 qwen3_5_moe qwen3_5_moe_text "
      "qwen3_5_text qwen3_next recurrent_gemma rwkv xlstm"},
     {"convolutions",
      "convbert inkling2_loop_text inkling2_text inkling_text lfm2 lfm2_moe lfm3 squeezebert zaya"},
     {"attention to selected or hashed positions",
      "axk2 big_bird bigbird_pegasus deepseek_v32 deepseek_v4 doge dots3_note dots3_note_text glm_moe_dsa "
      "hy_v4 led longformer longt5 reformer"},
     {"approximations of attention", "mra nystromformer yoso"},
     {"Fourier transforms in place of attention", "fnet"},
     {"the difference of two attentions", "diffllama"},
     {"attention to distances by their content", "deberta xlnet"},
     {"gated attention", "afmoe laguna"},
     {"layers that run several times", "dory hrm_text"},
     {"several streams of hidden states (AltUp) and low-rank residuals (LAuReL)", "gemma3n gemma3n_text"},
     {"layers of bytes and of patches of bytes", "blt"},
     {"scores biased by segments, and learned prompts", "cpmant"},
     {"languages of tokens, and texts continued by masks", "xlm"},
     {"attention whose heads are experts", "jetmoe"},
     {"pairs of layers beside experts, some of which return their input", "longcat_flash"},
     {"attention in both directions to the prompt", "paligemma"},
     {"layers of cross-attention to images", "mllama mllama_text_model"},
     {"quantised activations", "bitnet ibert"},
     {"bottlenecks, pooling or adapters between sublayers", "canine funnel mobilebert xmod"}}};

}  // namespace

std::string other_layers(std::string_view model_type) {
  for (const auto& [kind, model_types] : kOtherLayers) {
    if (std::ranges::count(words_of(model_types), model_type) > 0)
      return concat(" (", model_type, " has ", kind, ", which are not supported)");
  }
  return "";
}

}  // namespace qkv::models
