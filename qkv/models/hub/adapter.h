#pragma once
// LoRA adapters in PEFT's layout: adapter_config.json and adapter_model.safetensors, beside a base model that
// stays as it is. PyPI's `peft` opens them on the base model, and qkv opens those of `peft`.

#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/nn/low_rank.h"

namespace qkv::models {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";

// What an adapter belongs to.
struct AdapterBase {
  std::filesystem::path folder;  // of the base model
  // "SEQ_CLS", "TOKEN_CLS", "CAUSAL_LM", "SEQ_2_SEQ_LM" or "FEATURE_EXTRACTION" (peft.TaskType); empty: none.
  std::string task_type;
};

// Writes an adapter. `map` is that of the base model's family; `visit_head` visits parameters that were
// trained in full, such as a new classifier, under the model's names. A config.json beside the adapter, with
// the new head, takes the place of the base's when both are opened. Throws IoError.
void save_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                  const std::function<void(const nn::ParameterVisitor&)>& visit_head, const WeightMap& map,
                  const AdapterBase& base);

// An adapter to be added to a model.
class AdapterFiles {
 public:
  // Throws IoError; DataError, naming file and field or tensor, for an adapter of another method than LoRA,
  // for damaged files, and for another base model than the adapter records (a checksum of its weights, which
  // adapters of other programs lack).
  AdapterFiles(const std::filesystem::path& folder, WeightMap map, const std::filesystem::path& base);

  // Whether the adapter contains this parameter in full, so that the base need not have it.
  bool replaces(const std::string& parameter) const;
  // Sets the parameters that the adapter contains in full, and attaches its updates, which stay for the
  // model's life. Throws DataError for tensors that do not fit the model.
  void add_to(const std::function<void(const nn::ParameterVisitor&)>& visit) const;

 private:
  std::string spelling(const std::string& name) const;
  void add_to(const std::string& name, const nn::Parameter& parameter, std::set<std::string>& used) const;
  double alpha_of(const std::string& module) const;

  ConfigReader config_;
  io::SafetensorsFile file_;
  WeightMap map_;
};

// The CRC-32C of the weights' files in a model folder, as text. Throws the errors of TensorFiles.
std::string base_checksum(const std::filesystem::path& folder);

// Whether the folder holds an adapter.
bool is_adapter(const std::filesystem::path& folder);

}  // namespace qkv::models
