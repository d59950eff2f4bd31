#pragma once
// Reads and writes LoRA adapters (adapter.h).

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "qkv/io/tensor_file.h"
#include "qkv/models/hub/adapters/adapter.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/weight_map.h"

namespace qkv::models {

// The files of an adapter, but for config.json; `map` is that of the base model's family.
void write_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                   const VisitHead& visit_head, const WeightMap& map, const AdapterBase& base);

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
  double number_of(const std::string& module, const char* pattern, double usual) const;

  ConfigReader config_;
  std::unique_ptr<const io::TensorFile> file_;
  WeightMap map_;
};

}  // namespace qkv::models
