#pragma once
// Language models within models of images: folders whose config.json has the language model's as
// "text_config", and whose tensors are named after the whole. They open for texts alone, as the language
// model's own family.

#include <optional>
#include <string>
#include <string_view>

#include "qkv/models/hub/weight_map.h"
#include "qkv/nn/layer_options.h"

namespace qkv::models {

// A class of such models in transformers 5.24.
struct Wrapper {
  std::string_view model_type, architecture;
  // The model_type of the language model: of each, if it ends with "_text"; otherwise of a "text_config"
  // without one.
  std::string_view inner;
  // "tie_word_embeddings" of the whole, if missing; nothing: that of the language model counts alone.
  std::optional<bool> tied = false;
  bool tied_by_either = false;  // or by that of the language model
  // Of the language model's tensors, where its own family has "model.".
  std::string_view prefix = "model.language_model.";
  // Whether the logits have the factor and the soft cap of the language model's class. Other classes multiply
  // by the output projection, and that is all.
  bool own_logits = false;
};

// The prefix of a family's model_type for weights that its own folders cannot have (int8, blocks).
inline constexpr std::string_view kOwnLayout = "qkv-";

// A model_type without it.
std::string_view without_own(std::string_view model_type);

// The wrapper with this model_type, in any format; null: none.
const Wrapper* find_wrapper(std::string_view model_type);

// The text of a config.json; of a wrapper's, the language model's in the form of its own family. Throws
// DataError for another class, and for a field of the whole that is unknown; `path` is for messages.
std::string unwrapped_config(const std::string& text, const std::string& path);

// The language model's map, with the names that the tensors have within the whole, whether saved by
// transformers 4 or 5; `stack` has its layers.
WeightMap wrapped_map(WeightMap map, const Wrapper& wrapper, const nn::StackOptions& stack);

// Makes the map that of these files: Qwen3-VL's tensors of all experts are transposed, unless transformers 5
// has saved them. As there, their shapes decide.
void fit_experts(WeightMap& map, const Wrapper& wrapper, const nn::StackOptions& stack,
                 const TensorFiles& files);

}  // namespace qkv::models
