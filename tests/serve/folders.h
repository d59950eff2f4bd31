#pragma once
// Small model folders, made by transformers (tests/golden/).

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/serve/service.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

inline std::filesystem::path golden_folder(const std::string& name) {
  const std::filesystem::path tests = QKV_TEST_DATA;
  const bool translates = name == "marian" || name == "nllb";
  return tests / (translates ? "pipelines/golden" : "models/golden") / name;
}

// A service of these folders, each under its own name.
inline serve::ServiceOptions serving(const std::vector<std::string>& names) {
  serve::ServiceOptions options;
  for (const std::string& name : names) options.folders.push_back({name, golden_folder(name)});
  return options;
}

// A language model that reads 4,000 tokens: its positions are rotary, so that only the configuration differs.
inline serve::ServiceOptions serving_long_texts(const Scratch& scratch) {
  std::filesystem::copy(golden_folder("llama"), scratch / "long");
  nlohmann::json config = nlohmann::json::parse(read_file(scratch / "long/config.json"));
  config["max_position_embeddings"] = 4000;
  scratch.write("long/config.json", config.dump());
  serve::ServiceOptions options;
  options.folders = {{"long", scratch / "long"}};
  return options;
}

// The template of the folders below: "two" begins a user's message, "three" an assistant's, "the" others.
inline constexpr const char* kChatTemplate =
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message.role == 'developer' %}{{ raise_exception('no developer speaks here') }}{% endif %}"
    "{{ ' two ' if message.role == 'user' else ' three ' if message.role == 'assistant' else ' the ' }}"
    "{{ message.content }}{{ eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %} three {% if mood %}{{ mood }} {% endif %}{% endif %}";

// serving_long_texts() with a chat template, as "chat"; beside it "llama", which has none.
inline serve::ServiceOptions serving_chat(const Scratch& scratch,
                                          const std::string& chat_template = kChatTemplate) {
  serve::ServiceOptions options = serving({"llama"});
  const serve::ServiceOptions with = serving_long_texts(scratch);
  scratch.write("long/chat_template.jinja", chat_template);
  options.folders.push_back({"chat", with.folders[0].folder});
  return options;
}

}  // namespace qkv::testing
