// The small files of a folder from the metadata of a GGUF file.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/base/utf8.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/gguf/gguf_vocabulary.h"

namespace qkv::models {
namespace {

using SettingsJson = nlohmann::ordered_json;

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kChatTemplate = "tokenizer.chat_template";

// Texts of tokens that end a message. Converted files name one end token, and llama.cpp finds the others by
// these texts, too (llama-vocab.cpp).
constexpr std::array<std::string_view, 12> kEndTexts{
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",   "<|eom_id|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "</s>",          "<|end_of_text|>", "<eos>"};

// llama.cpp's enum llama_pooling_type, 1 to 3.
constexpr std::array<std::string_view, 3> kPoolings{"mean", "cls", "lasttoken"};

// Sampling settings: their names in generation_config.json.
constexpr std::array<std::pair<const char*, const char*>, 7> kSampling{
    {{"temp", "temperature"},
     {"top_k", "top_k"},
     {"top_p", "top_p"},
     {"min_p", "min_p"},
     {"penalty_repeat", "repetition_penalty"},
     {"mirostat", "mirostat"},
     {"xtc_probability", "xtc_probability"}}};

}  // namespace

std::optional<std::string> GgufModel::text_file(std::string_view name) const {
  if (name == "config.json") return config_json();
  if (name == "tokenizer.json") return tokenizer_json();
  if (name == "tokenizer_config.json") return tokenizer_config_json();
  if (name == "generation_config.json") return generation_config_json();
  if (pooling().empty()) return std::nullopt;
  // llama.cpp scales embeddings to length 1, whatever the folder did.
  if (name == "modules.json") {
    return R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
 {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
 {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}])";
  }
  if (name == "1_Pooling/config.json") return SettingsJson{{"pooling_mode", pooling()}}.dump();
  return std::nullopt;
}

std::string_view GgufModel::pooling() const {
  const int64_t type = file().integer(key("pooling_type")).value_or(0);
  if (type < 0 || type > std::ssize(kPoolings))
    file().reject(key("pooling_type"), "0 to 3 (none, mean, cls, last)");
  return type == 0 ? std::string_view() : kPoolings[static_cast<size_t>(type - 1)];
}

int64_t GgufModel::pooling_type(std::string_view pooling) {
  const auto found = std::ranges::find(kPoolings, pooling);
  if (found == kPoolings.end())
    throw UsageError(
        concat("pooling: expected mean, cls or lasttoken, which GGUF files have, found ", pooling));
  return 1 + (found - kPoolings.begin());
}

std::optional<int32_t> GgufModel::token_id(std::string_view name, size_t tokens) const {
  const std::string own = concat("tokenizer.ggml.", name);
  const auto id = file().integer(own);
  if (!id || *id < 0 || *id == UINT32_MAX) return std::nullopt;  // -1, perhaps of 32 bits, is none
  if (*id >= static_cast<int64_t>(std::min<size_t>(tokens, INT32_MAX)))
    file().reject(own, concat("an id below ", tokens));
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> GgufModel::start_ids() const {
  const auto id = token_id("bos_token_id", INT32_MAX);
  return id ? std::vector{*id} : std::vector<int32_t>();
}

std::vector<int32_t> GgufModel::end_ids() const {
  std::vector<int32_t> ids;
  const auto add = [&](int32_t id) {
    if (std::ranges::count(ids, id) == 0) ids.push_back(id);
  };
  for (const char* const name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (const auto id = token_id(name, INT32_MAX)) add(*id);
  }
  const std::vector<std::string_view> tokens = file().texts(kTokens);
  const std::vector<int64_t> types = file().integers("tokenizer.ggml.token_type");
  for (size_t id = 0; id < std::min(tokens.size(), types.size()); ++id) {
    if (types[id] == TokenType::control && std::ranges::count(kEndTexts, tokens[id]) > 0)
      add(static_cast<int32_t>(id));
  }
  return ids;
}

std::string GgufModel::tokenizer_config_json() const {
  const std::vector<std::string_view> tokens = file().texts(kTokens);
  SettingsJson settings = SettingsJson::object();
  const auto put = [&](const char* name, std::initializer_list<const char*> keys) {
    for (const char* const one : keys) {
      if (tokens.empty()) return;
      const auto id = token_id(one, tokens.size());
      if (!id || settings.contains(name)) continue;
      const std::string_view text = tokens[static_cast<size_t>(*id)];
      if (!valid_utf8(text)) file().reject(kTokens, concat("UTF-8 as token ", *id));
      settings[name] = text;
    }
  };
  put("bos_token", {"bos_token_id"});
  put("eos_token", {"eos_token_id"});
  put("unk_token", {"unknown_token_id"});
  put("pad_token", {"padding_token_id"});
  put("mask_token", {"mask_token_id"});
  put("sep_token", {"seperator_token_id"});  // as ggml spells it
  put("cls_token", {"cls_token_id"});
  const bool words = file().text("tokenizer.ggml.model") == "bert";
  if (words) put("cls_token", {"bos_token_id"});

  SettingsJson templates = SettingsJson::array();
  const auto add = [&](std::string_view name, const std::string& own) {
    const std::string_view source = file().text(own).value_or("");
    if (!valid_utf8(source)) file().reject(own, "UTF-8");
    if (!source.empty()) templates.push_back({{"name", name}, {"template", source}});
  };
  add("default", kChatTemplate);
  for (const std::string_view name : file().texts("tokenizer.chat_templates")) {
    if (!valid_utf8(name)) file().reject("tokenizer.chat_templates", "UTF-8");
    add(name, concat(kChatTemplate, '.', name));
  }
  if (!templates.empty()) settings["chat_template"] = std::move(templates);
  return settings.dump();
}

std::string GgufModel::generation_config_json() const {
  SettingsJson settings{{"bos_token_id", start_ids()}, {"eos_token_id", end_ids()}};
  if (end_ids().empty()) settings.erase("eos_token_id");
  bool samples = false;
  for (const auto& [own, name] : kSampling) {
    const std::string whole = concat("general.sampling.", own);
    const auto value = file().number(whole);
    if (!value) continue;
    const bool greedy = own == std::string_view("temp") && *value == 0;
    if (greedy) {
      settings["do_sample"] = false;
    } else if (own == std::string_view("top_k")) {
      settings[name] = std::max<int64_t>(0, file().integer(whole).value_or(0));
    } else {
      settings[name] = decimal(static_cast<float>(*value));
    }
    samples = true;
  }
  if (samples && !settings.contains("do_sample")) settings["do_sample"] = true;
  return settings.dump();
}

std::vector<std::string> GgufModel::summary() const {
  constexpr std::array<std::string_view, 9> kOthers{
      "general.name",         "general.size_label",       "general.license",
      "general.quantized_by", "general.base_model.count", "tokenizer.ggml.model",
      "tokenizer.ggml.pre",   "tokenizer.ggml.tokens",    kChatTemplate};
  std::vector<std::string> all;
  for (const std::string& one : file().keys()) {
    if (one == "general.architecture" || one.starts_with(key("")) || one.starts_with("general.sampling.") ||
        std::ranges::count(kOthers, one) > 0)
      all.push_back(one);
  }
  return all;
}

}  // namespace qkv::models
