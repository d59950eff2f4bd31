#pragma once
// Reading and writing config.json from one list of a family's fields:
//
//   template <class Fields, class Config>
//   void visit_fields(const Fields& fields, Config& config) {
//     fields("d_model", config.d_model);       // required
//     fields("dropout", config.dropout, 0.1);  // with a default
//   }

#include <concepts>
#include <vector>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/nn/layer_options.h"

namespace qkv::models {

// The layers of a stack whose fields config.json has once for all of them.
struct Blocks {
  nn::LayerOptions layer = {};
  int64_t layers = 0;

  // Throws UsageError if the layers of the stack differ.
  static Blocks of(const nn::StackOptions& stack) { return {stack.uniform(), stack.size()}; }
  std::vector<nn::LayerOptions> list() const { return nn::alike(layers, layer); }
};

class FieldReader {
 public:
  explicit FieldReader(const ConfigReader& reader) : reader_(reader) {}

  template <class... Default>
  void operator()(const char* key, int64_t& value, Default... otherwise) const {
    value = reader_.integer(key, otherwise...);
  }
  template <class... Default>
  void operator()(const char* key, kernels::Activation& value, Default... otherwise) const {
    value = reader_.activation(key, otherwise...);
  }
  void operator()(const char* key, float& value, double otherwise) const {
    value = static_cast<float>(reader_.number(key, otherwise));
  }
  void operator()(const char* key, bool& value, bool otherwise) const {
    value = reader_.boolean(key, otherwise);
  }
  void operator()(const char* key, std::vector<int32_t>& ids) const { ids = reader_.ids(key); }

 private:
  const ConfigReader& reader_;
};

class FieldWriter {
 public:
  explicit FieldWriter(ConfigWriter& writer) : writer_(writer) {}

  template <class Value, class... Default>
  void operator()(const char* key, const Value& value, const Default&...) const {
    if constexpr (std::same_as<Value, int64_t>) {
      writer_.integer(key, value);
    } else if constexpr (std::same_as<Value, float>) {
      writer_.number(key, value);
    } else if constexpr (std::same_as<Value, bool>) {
      writer_.boolean(key, value);
    } else if constexpr (std::same_as<Value, kernels::Activation>) {
      writer_.activation(key, value);
    } else {
      writer_.id(key, value);
    }
  }

 private:
  ConfigWriter& writer_;
};

}  // namespace qkv::models
