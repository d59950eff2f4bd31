#include "qkv/hub/choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace qkv::hub {
namespace {

constexpr std::string_view kSafetensors = ".safetensors", kPytorch = ".bin";

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// "1_Pooling", "0_Transformer"
bool is_module(std::string_view folder) {
  const size_t line = folder.find('_');
  return line != folder.npos && is_digits(folder.substr(0, line));
}

// model.safetensors, model-00001-of-00002.safetensors, adapter_model.safetensors: no other precisions
// (model.fp16.safetensors) and no second copy (consolidated.safetensors). `kind`: .safetensors, or .bin,
// whose model is pytorch_model.
bool is_weights(std::string_view name, std::string_view kind) {
  if (!name.ends_with(kind)) return false;
  name.remove_suffix(kind.size());
  const std::string_view model = kind == kPytorch ? "pytorch_model" : "model";
  if (name == model || name == "adapter_model") return true;
  if (!name.starts_with(model) || !name.substr(model.size()).starts_with('-')) return false;
  name.remove_prefix(model.size() + 1);
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.find(kOf);
  return of != name.npos && is_digits(name.substr(0, of)) && is_digits(name.substr(of + kOf.size()));
}

constexpr const char* kPytorchIndex = "pytorch_model.bin.index.json";

std::string_view folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}
std::string_view name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool is_of_pytorch(std::string_view path) {
  return is_weights(name_of(path), kPytorch) || name_of(path) == kPytorchIndex;
}

// Written by other programs for themselves.
constexpr std::array kOthersFiles{"tf_model.h5.index.json",
                                  "flax_model.msgpack.index.json",
                                  "trainer_state.json",
                                  "training_args.json",
                                  "params.json",
                                  "tekken.json",
                                  "quantize_config.json",
                                  "all_results.json",
                                  "eval_results.json",
                                  "train_results.json"};

}  // namespace

bool matches(std::string_view path, const std::string& pattern) {
  const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
  return ::fnmatch(whole.c_str(), std::string(path).c_str(), FNM_NOESCAPE) == 0;
}

bool is_useful(std::string_view path) {
  const std::string_view folder = folder_of(path), name = name_of(path);
  if (folder == "additional_chat_templates") return name.ends_with(".jinja");
  if (!folder.empty() && !is_module(folder)) return false;
  if (name.ends_with(".json")) return std::ranges::find(kOthersFiles, name) == kOthersFiles.end();
  return is_weights(name, kSafetensors) || is_weights(name, kPytorch) || name == "vocab.txt" ||
         name == "merges.txt" || name.ends_with(".model") || name.ends_with(".spm") ||
         name.ends_with(".jinja");
}

Choice choose(const std::vector<HubFile>& files, const std::vector<std::string>& include,
              const std::vector<std::string>& exclude) {
  const auto any = [](const std::vector<std::string>& patterns, const std::string& path) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(path, pattern); });
  };
  // Folders with a model, or an adapter, in safetensors.
  const auto kind_of = [](std::string_view path) {
    return std::pair(folder_of(path), name_of(path).starts_with("adapter_"));
  };
  std::set<std::pair<std::string_view, bool>> kinds;
  for (const HubFile& file : files) {
    if (is_weights(name_of(file.path), kSafetensors)) kinds.insert(kind_of(file.path));
  }
  const auto is_second_copy = [&](std::string_view path) {
    return is_of_pytorch(path) && kinds.contains(kind_of(path));
  };
  Choice choice;
  for (const HubFile& file : files) {
    const bool wanted =
        include.empty() ? is_useful(file.path) && !is_second_copy(file.path) : any(include, file.path);
    (wanted && !any(exclude, file.path) ? choice.taken : choice.skipped).push_back(file);
  }
  return choice;
}

}  // namespace qkv::hub
