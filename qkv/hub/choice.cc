#include "qkv/hub/choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

namespace qkv::hub {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// "1_Pooling", "0_Transformer"
bool is_module(std::string_view folder) {
  const size_t line = folder.find('_');
  return line != folder.npos && is_digits(folder.substr(0, line));
}

// model.safetensors, model-00001-of-00002.safetensors, adapter_model.safetensors: no other precisions
// (model.fp16.safetensors) and no second copy (consolidated.safetensors).
bool is_weights(std::string_view name) {
  if (!name.ends_with(".safetensors")) return false;
  name.remove_suffix(std::string_view(".safetensors").size());
  if (name == "model" || name == "adapter_model") return true;
  constexpr std::string_view kModel = "model-", kOf = "-of-";
  const size_t of = name.find(kOf);
  return name.starts_with(kModel) && of != name.npos &&
         is_digits(name.substr(kModel.size(), of - kModel.size())) && is_digits(name.substr(of + kOf.size()));
}

// Written by other programs for themselves.
constexpr std::array kOthersFiles{"pytorch_model.bin.index.json",
                                  "tf_model.h5.index.json",
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
  const size_t slash = path.rfind('/');
  const std::string_view folder = slash == path.npos ? std::string_view() : path.substr(0, slash);
  const std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
  if (folder == "additional_chat_templates") return name.ends_with(".jinja");
  if (!folder.empty() && !is_module(folder)) return false;
  if (name.ends_with(".json")) return std::ranges::find(kOthersFiles, name) == kOthersFiles.end();
  return is_weights(name) || name == "vocab.txt" || name == "merges.txt" || name.ends_with(".model") ||
         name.ends_with(".spm") || name.ends_with(".jinja");
}

Choice choose(const std::vector<HubFile>& files, const std::vector<std::string>& include,
              const std::vector<std::string>& exclude) {
  const auto any = [](const std::vector<std::string>& patterns, const std::string& path) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(path, pattern); });
  };
  Choice choice;
  for (const HubFile& file : files) {
    const bool wanted = include.empty() ? is_useful(file.path) : any(include, file.path);
    (wanted && !any(exclude, file.path) ? choice.taken : choice.skipped).push_back(file);
  }
  return choice;
}

}  // namespace qkv::hub
