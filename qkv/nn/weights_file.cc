#include "qkv/nn/weights_file.h"

#include <set>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::nn {
namespace {

// The first few names, and the number of others.
class Names {
 public:
  void add(const std::string& name) {
    if (++count_ <= kShown) text_ += concat(count_ > 1 ? ", " : "", name);
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return count_ > kShown ? concat(text_, " and ", count_ - kShown, " more") : text_;
  }

 private:
  static constexpr int kShown = 5;
  int count_ = 0;
  std::string text_;
};

void require_same_tensors(const io::SafetensorsFile& file, const std::vector<NamedParameter>& parameters) {
  Names missing, surplus, shapes;
  std::set<std::string> known;
  for (const auto& [name, parameter] : parameters) {
    known.insert(name);
    if (!file.contains(name)) {
      missing.add(name);
    } else if (file.shape(name) != parameter.shape) {
      shapes.add(concat(name, " (expected ", parameter.shape, ", found ", file.shape(name), ")"));
    } else if (const std::string& dtype = file.dtype(name);
               dtype != "F32" && dtype != "F16" && dtype != "BF16") {
      shapes.add(concat(name, " (expected F32, F16 or BF16, found ", dtype, ")"));
    }
  }
  for (const std::string& name : file.names()) {
    if (!known.contains(name)) surplus.add(name);
  }
  std::string problems;
  if (!missing.empty()) problems += concat("; missing: ", missing.text());
  if (!surplus.empty()) problems += concat("; not in the module: ", surplus.text());
  if (!shapes.empty()) problems += concat("; different: ", shapes.text());
  if (problems.empty()) return;
  throw DataError(concat(file.path().string(), ": expected the weights of this module", problems));
}

}  // namespace

void save_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters) {
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back({name, parameter.variable.value()});
  io::write_safetensors(file, tensors);
}

void load_weights(const std::filesystem::path& file, const std::vector<NamedParameter>& parameters) {
  const io::SafetensorsFile opened(file);
  require_same_tensors(opened, parameters);
  const MemoryScope memory(MemoryUse::weights);
  for (const auto& [name, parameter] : parameters) {
    Variable variable = parameter.variable;
    variable.set_value(opened.tensor(name));
  }
}

}  // namespace qkv::nn
