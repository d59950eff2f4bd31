#pragma once
// LoRA adapters in PEFT's layout: adapter_config.json and adapter_model.safetensors, beside a base model that
// stays as it is. PyPI's `peft` opens them on the base model, and qkv opens those of `peft`.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "qkv/nn/low_rank.h"

namespace qkv::models {

class ImageEncoder;
class LanguageModel;
class TextEncoder;
class Transformer;

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";
inline constexpr const char* kPytorchAdapter =
    "adapter_model.bin";  // in its place, of older versions of PEFT

// What an adapter belongs to.
struct AdapterBase {
  std::filesystem::path folder;  // of the base model
  // "SEQ_CLS", "TOKEN_CLS", "CAUSAL_LM", "SEQ_2_SEQ_LM" or "FEATURE_EXTRACTION" (peft.TaskType); empty: none.
  std::string task_type;
  bool only_check = false;  // save_adapter() throws what it would throw, and writes nothing
};

// Writes an adapter of a model in a family's format ("bert"). `visit_head` visits parameters that were
// trained in full, such as a new classifier, under the model's names. If there are any, the model's
// config.json is written too, which names the head and takes the place of the base's when both are opened.
// Throws IoError, and UsageError for an unknown family.
using VisitHead = std::function<void(const nn::ParameterVisitor&)>;
void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const LanguageModel& model, std::string_view model_type,
                  const AdapterBase& base);
void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const TextEncoder& model, std::string_view model_type,
                  const AdapterBase& base);
void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const ImageEncoder& model, std::string_view model_type,
                  const AdapterBase& base);
void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const VisitHead& visit_head, const Transformer& model, std::string_view model_type,
                  const AdapterBase& base);

// The CRC-32C of the weights' files in a model folder, as text. Throws the errors of TensorFiles.
std::string base_checksum(const std::filesystem::path& folder);

// Whether the folder holds an adapter.
bool is_adapter(const std::filesystem::path& folder);

// The folder of an adapter's base model, by its `base_model_name_or_path`, which is relative to the working
// folder, or in the cache of the hub. Throws IoError if there is none.
std::filesystem::path base_folder(const std::filesystem::path& adapter);

}  // namespace qkv::models
