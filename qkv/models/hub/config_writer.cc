#include "qkv/models/hub/config_writer.h"

#include <nlohmann/json.hpp>

#include "qkv/base/json.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {

using Json = nlohmann::json;

struct ConfigWriter::Object {
  Json fields = Json::object();
};

ConfigWriter::ConfigWriter() : object_(std::make_shared<Object>()) {}

ConfigWriter::ConfigWriter(std::string_view model_type, std::string_view architecture) : ConfigWriter() {
  object_->fields["architectures"] = Json::array({architecture});
  object_->fields["model_type"] = model_type;
  object_->fields["dtype"] = "float32";
}

void ConfigWriter::integer(const std::string& key, int64_t value) { object_->fields[key] = value; }
void ConfigWriter::number(const std::string& key, double value) { object_->fields[key] = value; }
void ConfigWriter::number(const std::string& key, float value) { object_->fields[key] = decimal(value); }
void ConfigWriter::boolean(const std::string& key, bool value) { object_->fields[key] = value; }
void ConfigWriter::string(const std::string& key, std::string_view value) { object_->fields[key] = value; }
void ConfigWriter::null(const std::string& key) { object_->fields[key] = nullptr; }

void ConfigWriter::id(const std::string& key, std::span<const int32_t> ids) {
  Json& field = object_->fields[key];
  field = ids.empty()       ? Json()
          : ids.size() == 1 ? Json(ids.front())
                            : Json(std::vector(ids.begin(), ids.end()));
}

void ConfigWriter::strings(const std::string& key,
                           const std::vector<std::pair<std::string, std::string>>& fields) {
  Json& field = object_->fields[key] = Json::object();
  for (const auto& [name, value] : fields) field[name] = value;
}

void ConfigWriter::integers(const std::string& key,
                            const std::vector<std::pair<std::string, int64_t>>& fields) {
  Json& field = object_->fields[key] = Json::object();
  for (const auto& [name, value] : fields) field[name] = value;
}

void ConfigWriter::list(const std::string& key, const std::vector<std::string>& values) {
  object_->fields[key] = values;
}

void ConfigWriter::numbers(const std::string& key, std::span<const double> values) {
  object_->fields[key] = std::vector(values.begin(), values.end());
}

void ConfigWriter::repeated(const std::string& key, const std::vector<std::string>& values, int64_t count) {
  object_->fields[key] = Json::array({Json::array({values, count})});
}

void ConfigWriter::numbers(const std::string& key, const std::vector<int64_t>& values) {
  object_->fields[key] = values;
}

void ConfigWriter::flags(const std::string& key, const std::vector<bool>& flags) {
  Json& field = object_->fields[key] = Json::array();
  for (const bool flag : flags) field.push_back(flag ? 1 : 0);
}

void ConfigWriter::object(const std::string& key, const ConfigWriter& fields) {
  object_->fields[key] = fields.object_->fields;
}

void ConfigWriter::omit(std::string_view keys) {
  for (const std::string& key : words_of(keys)) object_->fields.erase(key);
}

void ConfigWriter::keep_others(std::string_view json) {
  const Json others = Json::parse(json);
  for (const auto& [key, value] : others.items()) {
    if (key != "dtype" && key != "torch_dtype" && key != "quantization_config" &&
        !object_->fields.contains(key))
      object_->fields[key] = value;
  }
}

std::string ConfigWriter::json() const { return object_->fields.dump(2) + "\n"; }

}  // namespace qkv::models
