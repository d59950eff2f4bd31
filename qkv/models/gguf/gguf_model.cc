#include "qkv/models/gguf/gguf_model.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/models/hub/weight_map.h"

namespace qkv::models {

// What llama.cpp's converter makes of a family's folder.
struct GgufModel::Architecture {
  std::string_view name, model_type, model_class;
  // The modules' names in GGUF files beside those in the folder; '#' stands for a layer's number.
  std::span<const std::pair<std::string_view, std::string_view>> modules;
  bool paired = false;          // queries and keys have rotary pairs side by side (PairedHeads)
  bool norms_plus_one = false;  // norms are weights, which the folder stores as weight - 1
};

namespace {

using Modules = std::pair<std::string_view, std::string_view>;

constexpr std::array kLlamaModules{Modules{"token_embd", "model.embed_tokens"},
                                   Modules{"output_norm", "model.norm"},
                                   Modules{"output", "lm_head"},
                                   Modules{"blk.#.attn_norm", "model.layers.#.input_layernorm"},
                                   Modules{"blk.#.attn_q", "model.layers.#.self_attn.q_proj"},
                                   Modules{"blk.#.attn_k", "model.layers.#.self_attn.k_proj"},
                                   Modules{"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
                                   Modules{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm"},
                                   Modules{"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm"},
                                   Modules{"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
                                   Modules{"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
                                   Modules{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
                                   Modules{"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
                                   Modules{"blk.#.ffn_down", "model.layers.#.mlp.down_proj"}};

// Computed from the metadata, or compared with them (gguf_config.cc).
constexpr std::string_view kRotaryFactors = "rope_freqs";

// "blk.#.attn_q" and "11" of "blk.11.attn_q".
std::pair<std::string, std::string> pattern_of(std::string_view module) {
  constexpr std::string_view kBlock = "blk.";
  if (!module.starts_with(kBlock)) return {std::string(module), ""};
  const size_t end = std::min(module.find('.', kBlock.size()), module.size());
  return {concat(kBlock, '#', module.substr(end)),
          std::string(module.substr(kBlock.size(), end - kBlock.size()))};
}

// The paths of all parts of a divided file, in order.
std::vector<std::filesystem::path> parts_of(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  constexpr size_t kEnding = 15;  // "-00001-of-00003"
  int part = 0, parts = 0, read = 0;
  if (name.size() < kEnding ||
      std::sscanf(name.c_str() + name.size() - kEnding, "-%5d-of-%5d%n", &part, &parts, &read) != 2 ||
      read != static_cast<int>(kEnding))
    return {path};
  std::vector<std::filesystem::path> all;
  for (int i = 1; i <= parts; ++i) {
    std::array<char, 64> ending;
    std::snprintf(ending.data(), ending.size(), "-%05d-of-%05d", i, parts);
    all.push_back(path.parent_path() / concat(name.substr(0, name.size() - kEnding), ending.data(), ".gguf"));
  }
  return all;
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" && !std::filesystem::is_directory(path, ignored);
}

std::span<const GgufModel::Architecture> GgufModel::architectures() {
  static constexpr std::array kArchitectures{
      Architecture{"llama", "llama", "LlamaForCausalLM", kLlamaModules, /*paired=*/true},
      Architecture{"qwen2", "qwen2", "Qwen2ForCausalLM", kLlamaModules},
      Architecture{"qwen3", "qwen3", "Qwen3ForCausalLM", kLlamaModules}};
  return kArchitectures;
}

const GgufModel::Architecture& GgufModel::architecture_of(const io::GgufFile& file) {
  constexpr std::string_view kKey = "general.architecture";
  const std::string_view name = file.text(kKey).value_or("");
  const auto found = std::ranges::find(architectures(), name, &Architecture::name);
  if (found != architectures().end()) return *found;
  std::string known;
  for (const Architecture& one : architectures()) known += concat(known.empty() ? "" : ", ", one.name);
  file.reject(kKey, concat("one of ", known));
}

std::string GgufModel::own_name(std::string_view model_type, std::string_view name) {
  const auto architecture = std::ranges::find(architectures(), model_type, &Architecture::model_type);
  if (architecture == architectures().end()) {
    std::string known;
    for (const Architecture& one : architectures())
      known += concat(known.empty() ? "" : ", ", one.model_type);
    throw UsageError(
        concat("model_type: expected one that GGUF files have here (", known, "), found ", model_type));
  }
  // The layer's number is the only number between dots.
  std::string pattern(name), layer;
  for (size_t at = 0; at < pattern.size() && layer.empty(); at = pattern.find('.', at + 1)) {
    const size_t begin = at + 1, end = std::min(pattern.find('.', begin), pattern.size());
    layer = pattern.substr(begin, end - begin);
    if (layer.find_first_not_of("0123456789") == std::string::npos && !layer.empty()) {
      pattern.replace(begin, end - begin, "#");
    } else {
      layer.clear();
    }
  }
  const size_t dot = pattern.rfind('.');
  const auto module = std::ranges::find(architecture->modules, pattern.substr(0, dot), &Modules::second);
  if (module == architecture->modules.end()) return "";
  std::string own(module->first);
  if (const size_t number = own.find('#'); number != std::string::npos) own.replace(number, 1, layer);
  return own + pattern.substr(dot);
}

GgufModel::GgufModel(const std::filesystem::path& path) {
  const std::vector<std::filesystem::path> paths = parts_of(path);
  parts_.reserve(paths.size());
  for (const std::filesystem::path& part : paths) parts_.emplace_back(part);
  architecture_ = &architecture_of(file());
  if (const int64_t parts = file().integer("split.count").value_or(1);
      std::max<int64_t>(parts, 1) != std::ssize(parts_))
    file().reject("split.count", concat(parts_.size(), ", as the file is called ", path.filename().string()));
  for (const io::GgufFile& part : parts_) {
    for (const std::string& name : part.names()) {
      const size_t dot = name.rfind('.');
      const auto [pattern, layer] = pattern_of(std::string_view(name).substr(0, dot));
      const auto module = std::ranges::find(architecture_->modules, pattern, &Modules::first);
      std::string theirs = name;  // unknown ones keep their names, and messages name them
      if (module != architecture_->modules.end()) {
        theirs = module->second;
        if (const size_t number = theirs.find('#'); number != std::string::npos)
          theirs.replace(number, 1, layer);
        theirs += name.substr(dot);
      }
      const io::GgufFile::Entry& entry = part.entry(name);
      if (!tensors_.emplace(theirs, Stored{&part, &entry, std::string(entry.type), name}).second)
        throw DataError(
            concat(part.path().string(), ": ", name, ": expected one tensor in all parts, found several"));
    }
  }
}

std::vector<std::string> GgufModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, stored] : tensors_) {
    if (!name.starts_with(kRotaryFactors)) names.push_back(name);
  }
  return names;
}

const GgufModel::Stored& GgufModel::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw DataError(
        concat(path().string(), ": expected a tensor ", name, ", found ", tensors_.size(), " others"));
  return found->second;
}

Tensor GgufModel::as_stored(const std::string& name, const Shape& expected) const {
  const auto& [file, entry, type, own_name] = tensor(name);
  const std::string where = concat(file->path().string(), ": ", own_name);
  if (!entry->dtype)
    throw DataError(
        concat(where, ": expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K or IQ4_NL, ",
               "found ", type));
  if (entry->shape != expected)
    throw DataError(concat(where, ": expected shape ", expected, ", found ", entry->shape));
  // Read-only, whatever the caller may do with a copy of the handle.
  auto* const bytes =
      const_cast<std::byte*>(entry->bytes.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  Tensor stored = Tensor::wrap(Storage(file->mapping(), bytes), expected, *entry->dtype).as_read_only(where);
  const bool query = name.ends_with("q_proj.weight") || name.ends_with("q_proj.bias");
  const bool key_rows = name.ends_with("k_proj.weight") || name.ends_with("k_proj.bias");
  if (architecture_->paired && (query || key_rows)) {
    const int64_t rows = heads(query ? "attention.head_count" : "attention.head_count_kv");
    if (rows < 1 || expected[0] % (2 * rows) != 0)
      throw DataError(concat(where, ": expected ", rows, " heads of an even width, found shape ", expected));
    const WeightRule rule{
        .ours = name, .theirs = name, .paired = {.heads = rows, .rotated = expected[0] / rows}};
    stored = own_rows(stored, expected[0], rule);
  }
  return stored;
}

std::string_view GgufModel::model_type() const { return architecture_->model_type; }
std::string_view GgufModel::model_class() const { return architecture_->model_class; }

std::string GgufModel::key(std::string_view name) const { return concat(architecture_->name, '.', name); }

int64_t GgufModel::count(std::string_view name) const {
  const auto found = file().integer(key(name));
  if (!found || *found < 1 || *found > INT32_MAX) file().reject(key(name), "a number from 1 to 2147483647");
  return *found;
}

int64_t GgufModel::heads(std::string_view name) const {
  return file().has(key(name)) ? count(name) : count("attention.head_count");
}

}  // namespace qkv::models
