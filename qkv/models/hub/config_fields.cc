#include "qkv/models/hub/config_fields.h"

#include <array>
#include <cmath>
#include <limits>

namespace qkv::models {

using kernels::Activation;

namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 11> kActivations{
    {{"relu", Activation::relu},
     {"gelu", Activation::gelu_exact},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"gelu_fast", Activation::gelu_tanh},
     {"silu", Activation::silu},
     {"swish", Activation::silu},
     {"tanh", Activation::tanh},
     {"relu2", Activation::relu_squared},
     {"quick_gelu", Activation::quick_gelu},
     {"linear", Activation::identity}}};

}  // namespace

std::optional<Activation> activation_of(std::string_view name) {
  for (const auto& [word, activation] : kActivations) {
    if (word == name) return activation;
  }
  return std::nullopt;
}

std::string activation_name(Activation activation) {
  return field_text(Words<Activation>(kActivations), activation);
}

const char* Fields::spelled(const Key& key) const {
  return key.older != nullptr && !reader_->has(key.name) && reader_->has(key.older) ? key.older : key.name;
}

// In a survey: notes the field, whose value is not read.
bool Fields::notes(const Key& key, bool required) const {
  if (missing_ == nullptr) return false;
  const bool found = reader_->has(key.name) || (key.older != nullptr && reader_->has(key.older));
  if (required && !found) missing_->emplace_back(key.name);
  return true;
}

void Fields::operator()(const Key& key, int64_t& value, std::optional<int64_t> otherwise) const {
  if (!reads()) return writer_->integer(key.name, value);
  if (notes(key, !otherwise)) return;
  value = otherwise ? reader_->integer(spelled(key), *otherwise) : reader_->integer(spelled(key));
}

void Fields::operator()(const Key& key, double& value, std::optional<double> otherwise) const {
  if (!reads()) return writer_->number(key.name, value);
  if (notes(key, !otherwise)) return;
  require(key, otherwise || reader_->has(spelled(key)), "a number");
  value = reader_->number(spelled(key), otherwise.value_or(0));
}

void Fields::operator()(const Key& key, float& value, std::optional<double> otherwise) const {
  if (!reads()) return writer_->number(key.name, value);
  if (notes(key, !otherwise)) return;
  double number = 0;
  (*this)(key, number, otherwise);
  value = static_cast<float>(number);
}

void Fields::operator()(const Key& key, bool& value, std::optional<bool> otherwise) const {
  if (!reads()) return writer_->boolean(key.name, value);
  if (notes(key, !otherwise)) return;
  require(key, otherwise || reader_->has(spelled(key)), "true or false");
  value = reader_->boolean(spelled(key), otherwise.value_or(false));
}

void Fields::operator()(const Key& key, std::string& value, const std::string& otherwise) const {
  if (!reads()) return writer_->string(key.name, value);
  if (notes(key, false)) return;
  value = reader_->string(spelled(key), otherwise);
}

void Fields::operator()(const Key& key, Activation& value, const char* otherwise) const {
  // Of several names, the family's own is written.
  if (!reads() && otherwise != nullptr && activation_of(otherwise) == value)
    return writer_->string(key.name, otherwise);
  if (notes(key, otherwise == nullptr)) return;
  if (reads() && otherwise == nullptr) reader_->string(spelled(key));
  (*this)(key, value, Words<Activation>(kActivations),
          otherwise == nullptr ? Activation::identity : activation_of(otherwise).value());
}

void Fields::operator()(const Key& key, std::vector<int32_t>& ids) const {
  if (!reads()) return writer_->id(key.name, ids);
  if (notes(key, false)) return;
  ids = reader_->ids(spelled(key));
}

void Fields::operator()(const Key& key, std::vector<std::string>& values) const {
  if (!reads()) return writer_->list(key.name, values);
  if (!notes(key, false)) values = reader_->strings(spelled(key));
}

void Fields::operator()(const Key& key, std::vector<double>& values) const {
  if (!reads()) return writer_->numbers(key.name, values);
  if (!notes(key, false)) values = reader_->numbers(spelled(key));
}

void Fields::operator()(const Key& key, std::vector<int64_t>& values) const {
  if (!reads()) return writer_->numbers(key.name, values);
  if (notes(key, false)) return;
  values.clear();
  for (const double value : reader_->numbers(spelled(key))) {
    require(key, std::abs(value) <= std::numeric_limits<int32_t>::max() && value == std::trunc(value),
            "a list of integers");
    values.push_back(static_cast<int64_t>(value));
  }
}

void Fields::operator()(const Key& key, std::vector<bool>& flags) const {
  if (!reads()) return writer_->flags(key.name, flags);
  if (notes(key, false)) return;
  flags.clear();
  for (const double flag : reader_->numbers(spelled(key))) {
    require(key, flag == 0 || flag == 1, "a list of 0 and 1");
    flags.push_back(flag == 1);
  }
}

void Fields::count_or_null(const Key& key, int64_t& value, int64_t otherwise) const {
  if (!reads() && value == 0) return writer_->null(key.name);
  if (is_null(key.name)) {
    value = 0;
  } else {
    (*this)(key, value, otherwise);
    require(key, value >= 1 || absent(key.name), "null, or at least 1");
  }
}

void Fields::number_or_null(const Key& key, float& value, double otherwise) const {
  if (!reads() && value == 0) return writer_->null(key.name);
  if (is_null(key.name)) {
    value = 0;
  } else {
    (*this)(key, value, otherwise);
    require(key, value > 0 || absent(key.name), "null, or a number above 0");
  }
}

void Fields::require(const Key& key, bool valid, const std::string& expected) const {
  if (reads() && !valid && missing_ == nullptr) reader_->reject(spelled(key), expected);
}

void Fields::object(const char* key, const std::function<void(const Fields&)>& table) const {
  if (!reads()) {
    ConfigWriter inner;
    table(Fields(inner));
    writer_->object(key, inner);
  } else if (reader_->has(key) && missing_ == nullptr) {
    const ConfigReader inner = reader_->object(key);
    table(Fields(inner));
    inner.reject_unknown_fields();
  }
}

}  // namespace qkv::models
