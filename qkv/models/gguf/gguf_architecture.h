#pragma once
// The architectures of GGUF files: names of tensors and metadata, and what becomes of them. The
// reference is llama.cpp: convert_hf_to_gguf.py, which writes the files, and src/llama-model.cpp.

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/gguf_writer.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"

namespace qkv::models {

// The metadata of an architecture, "llama.block_count" as "block_count". Notes which were read, because a
// file with others may compute something else. All functions throw DataError naming file and key.
class GgufMetadata {
 public:
  explicit GgufMetadata(const io::GgufFile& file);

  const io::GgufFile& file() const { return file_; }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  // From 1 to 2^31 - 1. Without `otherwise`, required; an `otherwise` also stands for a 0.
  int64_t count(std::string_view name);
  int64_t count(std::string_view name, int64_t otherwise);
  float number(std::string_view name);
  std::optional<float> optional_number(std::string_view name);
  std::string text(std::string_view name, std::string_view otherwise);
  std::vector<int64_t> integers(std::string_view name);
  // Throws unless it is missing or this.
  void expect(std::string_view name, int64_t value);
  void expect_false(std::string_view name);
  // Marks names as read.
  void ignore(std::initializer_list<std::string_view> names);
  void reject_unread() const;
  [[noreturn]] void reject(std::string_view name, const std::string& expected) const {
    file_.reject(key(name), expected);
  }

 private:
  std::string key(std::string_view name) const;
  std::string noted(std::string_view name);

  const io::GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

// Writes the metadata of an architecture, and the vectors that go with them.
struct GgufKeys {
  std::string prefix;  // "llama."
  io::GgufMetadata& metadata;
  std::vector<std::pair<std::string, std::vector<float>>> vectors = {};  // names and numbers

  void integer(const char* key, int64_t value) const { metadata.integer(prefix + key, value); }
  void number(const char* key, double value) const { metadata.number(prefix + key, value); }
};

// A module's name in GGUF files and in the folder; '#' stands for a layer's number.
using GgufModule = std::pair<std::string_view, std::string_view>;

struct GgufArchitecture {
  std::string_view name, model_type, model_class;  // the latter two of config.json
  std::span<const GgufModule> modules;
  // Writes the fields of config.json other than the ids of tokens.
  void (*describe)(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
  // The inverse: writes what files have of config.json, as its family writes it. Fields without a key are not
  // refused here: describe() shows that they are missing.
  void (*put)(const ConfigReader& config, GgufKeys& keys);
  bool paired = false;  // queries and keys have rotary pairs side by side (PairedHeads)
};

std::span<const GgufArchitecture> gguf_architectures();

void describe_llama(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_qwen(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_gemma(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_gemma2(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_gemma3(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_phi3(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_gpt2(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_bert(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);
void describe_nomic_bert(const GgufModel& model, GgufMetadata& metadata, ConfigWriter& config);

void put_llama(const ConfigReader& config, GgufKeys& keys);  // and qwen2, qwen3
void put_gemma(const ConfigReader& config, GgufKeys& keys);
void put_gemma2(const ConfigReader& config, GgufKeys& keys);
void put_gemma3(const ConfigReader& config, GgufKeys& keys);
void put_phi3(const ConfigReader& config, GgufKeys& keys);
void put_gpt2(const ConfigReader& config, GgufKeys& keys);
void put_bert(const ConfigReader& config, GgufKeys& keys);
void put_nomic_bert(const ConfigReader& config, GgufKeys& keys);

}  // namespace qkv::models
