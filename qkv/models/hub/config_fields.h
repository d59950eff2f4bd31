#pragma once
// A family's table of fields: a function that visits each field of config.json once, with its member and its
// default. It reads a file or writes one:
//
//   void table(Fields& fields, Described<LanguageModelConfig>& model) {
//     fields("n_embd", model.layer.d_model);                // required
//     fields("resid_pdrop", model.layer.dropout, 0.1);      // with a default
//     fields.expect("scale_attn_weights", true);            // supported with this value alone
//     fields.irrelevant("summary_type n_ctx");              // without effect on results
//   }
//
// Values that were visited before may decide what is visited next. On writing, the model is a copy, so that a
// table may set members that follow from others.

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkv/base/field_text.h"
#include "qkv/kernels/kinds.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"

namespace qkv::models {

class Fields {
 public:
  // A field's name; in older files it may have another.
  struct Key {
    Key(const char* key) : name(key) {}  // NOLINT(google-explicit-constructor)
    Key(const char* key, const char* old) : name(key), older(old) {}
    const char *name, *older = nullptr;
  };

  // Reads: throws the errors of ConfigReader.
  explicit Fields(const ConfigReader& reader) : reader_(&reader) {}
  // Reads no value, but notes that the table has the field, and in `missing` which required ones the file
  // lacks.
  Fields(const ConfigReader& reader, std::vector<std::string>& missing)
      : reader_(&reader), missing_(&missing) {}
  // Writes.
  explicit Fields(ConfigWriter& writer) : writer_(&writer) {}

  bool reads() const { return reader_ != nullptr; }
  // For fields of other forms; one of the two is null.
  const ConfigReader* reader() const { return reader_; }
  ConfigWriter* writer() const { return writer_; }
  // Whether the file that is read has the field, with the value null.
  bool is_null(const char* key) const { return reads() && reader_->is_null(key); }

  // Whether the file that is read lacks the field, or has null.
  bool absent(const char* key) const { return reads() && !reader_->has(key); }

  // A field and its member. Without `otherwise` the field is required.
  void operator()(const Key& key, int64_t& value, std::optional<int64_t> otherwise = {}) const;
  void operator()(const Key& key, double& value, std::optional<double> otherwise = {}) const;
  void operator()(const Key& key, float& value, std::optional<double> otherwise = {}) const;
  void operator()(const Key& key, bool& value, std::optional<bool> otherwise = {}) const;
  void operator()(const Key& key, std::string& value, const std::string& otherwise) const;
  // transformers' names ("gelu_new").
  void operator()(const Key& key, kernels::Activation& value, const char* otherwise = nullptr) const;
  // An id, a list of ids, or null.
  void operator()(const Key& key, std::vector<int32_t>& ids) const;
  // A list, empty if missing.
  void operator()(const Key& key, std::vector<std::string>& values) const;
  // A list of numbers, empty if missing.
  void operator()(const Key& key, std::vector<double>& values) const;
  // A list of integers, empty if missing.
  void operator()(const Key& key, std::vector<int64_t>& values) const;
  // A list of 0 and 1, empty if missing.
  void operator()(const Key& key, std::vector<bool>& flags) const;
  // One of these words.
  template <class Enum>
  void operator()(const Key& key, Enum& value, Words<Enum> words, Enum otherwise) const;
  // At least 1, or null, which is 0. A missing field is `otherwise`, which may be 0.
  void count_or_null(const Key& key, int64_t& value, int64_t otherwise) const;
  // Above 0, or null, which is 0. A missing field is `otherwise`.
  void number_or_null(const Key& key, float& value, double otherwise) const;

  // Only read: fields, separated by spaces, that are supported with this value alone. A file may lack them.
  template <class Value>
  void expect(std::string_view keys, Value value) const;
  // Only written, for other programs. A file may have anything there.
  template <class Value>
  void derive(const char* key, const Value& value) const;
  // Only read: refuses the field's value unless `valid`.
  void require(const Key& key, bool valid, const std::string& expected) const;
  // Only read: fields, separated by spaces, that do not affect results.
  void irrelevant(std::string_view keys) const {
    if (reads()) reader_->ignore(keys);
  }

  // Fields within an object, which a file may lack. Its other fields are refused.
  void object(const char* key, const std::function<void(const Fields&)>& table) const;

 private:
  const char* spelled(const Key& key) const;
  bool notes(const Key& key, bool required) const;

  const ConfigReader* reader_ = nullptr;
  std::vector<std::string>* missing_ = nullptr;
  ConfigWriter* writer_ = nullptr;
};

template <class Enum>
void Fields::operator()(const Key& key, Enum& value, Words<Enum> words, Enum otherwise) const {
  std::string word = field_text(words, value);
  (*this)(key, word, field_text(words, otherwise));
  std::string known;
  for (const auto& [text, meaning] : words) {
    if (text == word) {
      value = meaning;
      return;
    }
    known += concat(known.empty() ? "" : ", ", text);
  }
  require(key, false, concat("one of ", known));
}

template <class Value>
void Fields::expect(std::string_view keys, Value value) const {
  if (!reads()) return;
  if (missing_ != nullptr) return irrelevant(keys);
  for (const std::string& key : words_of(keys)) {
    if constexpr (std::same_as<Value, bool>) {
      reader_->require_boolean(key, value);
    } else if constexpr (std::integral<Value>) {
      reader_->require_integer(key, value);
    } else if constexpr (std::floating_point<Value>) {
      require(key.c_str(), reader_->number(key, value) == value, field_text(value));
    } else {
      reader_->require_string(key, value);
    }
  }
}

template <class Value>
void Fields::derive(const char* key, const Value& value) const {
  if (reads()) return irrelevant(key);
  if constexpr (std::same_as<Value, std::nullptr_t>) {
    writer_->null(key);
  } else if constexpr (std::same_as<Value, bool>) {
    writer_->boolean(key, value);
  } else if constexpr (std::integral<Value>) {
    writer_->integer(key, value);
  } else {
    writer_->number(key, value);
  }
}

// The activation with this name in transformers; nothing for an unknown name.
std::optional<kernels::Activation> activation_of(std::string_view name);
// The name under which an activation is written.
std::string activation_name(kernels::Activation activation);

}  // namespace qkv::models
