#include "qkv/train/tasks/lm/lm_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"

namespace qkv::train {
namespace {

using nlohmann::ordered_json;

constexpr const char *kJson = "tokenizer.json", *kSettings = "tokenizer_config.json";
constexpr const char* kDocuments = "qkv_documents";
// The files that define a tokenizer, and its class in transformers if the settings name none. The first that
// exists decides.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kModels{
    {{kJson, "PreTrainedTokenizerFast"},
     {"vocab.txt", "BertTokenizer"},
     {"vocab.json", "GPT2Tokenizer"},
     {"tokenizer.model", "LlamaTokenizer"},
     {"spiece.model", "T5Tokenizer"},
     {"sentencepiece.bpe.model", "XLMRobertaTokenizer"}}};
constexpr std::array<std::string_view, 6> kBeside{
    "merges.txt",          kSettings,           "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "chat_template.json"};

std::optional<int32_t> first_known(const text::Tokenizer& tokenizer, std::optional<int32_t> named,
                                   std::initializer_list<std::string_view> usual) {
  for (const std::string_view name : usual) {
    if (!named) named = tokenizer.id_of(name);
  }
  return named;
}

std::optional<int32_t> end_token(const text::Tokenizer& tokenizer) {
  const text::SpecialTokens& special = tokenizer.special_tokens();
  return first_known(tokenizer, special.eos ? special.eos : special.sep, {"<|endoftext|>", "</s>"});
}

LmTokenizer with_special_tokens(const text::Tokenizer& tokenizer, const std::string& name) {
  const std::optional<int32_t> end = end_token(tokenizer);
  if (!end) {
    throw DataError(concat(name, ": expected a tokenizer with an end token (\"eos_token\" in ", kSettings,
                           ", <|endoftext|> or </s>), found none"));
  }
  const text::SpecialTokens& special = tokenizer.special_tokens();
  return {.tokenizer = tokenizer,
          .start = first_known(tokenizer, special.bos ? special.bos : special.cls, {}).value_or(*end),
          .end = *end,
          .unknown = first_known(tokenizer, special.unk, {"<unk>", "[UNK]"}),
          .files = {}};
}

// Adds a special token with a new id.
void add_token(ordered_json& root, int64_t id, const std::string& content) {
  ordered_json& added = root["added_tokens"];
  if (!added.is_array()) added = ordered_json::array();
  added.push_back({{"id", id},
                   {"content", content},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", true}});
}

// Puts the token before each text.
void add_start(ordered_json& root, int32_t id, const std::string& content) {
  const auto text = [](const char* name, int type) {
    return ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const ordered_json start{{"SpecialToken", {{"id", content}, {"type_id", 0}}}};
  const ordered_json token{{"id", content}, {"ids", {id}}, {"tokens", {content}}};
  const ordered_json step{{"type", "TemplateProcessing"},
                          {"single", {start, text("A", 0)}},
                          {"pair", {start, text("A", 0), text("B", 1)}},
                          {"special_tokens", {{content, token}}}};
  ordered_json& steps = root["post_processor"];
  steps = steps.is_object() ? ordered_json{{"type", "Sequence"}, {"processors", {steps, step}}} : step;
}

const std::string* file_named(const LmTokenizer& tokenizer, std::string_view name) {
  for (const auto& [own, content] : tokenizer.files) {
    if (own == name) return &content;
  }
  return nullptr;
}

std::string class_of(const LmTokenizer& tokenizer) {
  for (const auto& [name, usual] : kModels) {
    if (file_named(tokenizer, name) != nullptr) return std::string(usual);
  }
  return "PreTrainedTokenizerFast";
}

}  // namespace

LmTokenizer open_lm_tokenizer(const std::filesystem::path& path) {
  LmTokenizer result = with_special_tokens(text::Tokenizer::load(path), path.string());
  const bool is_folder = std::filesystem::is_directory(path);
  const std::filesystem::path folder = is_folder ? path : path.parent_path();
  for (const auto& [name, usual] : kModels) {
    if ((is_folder || path.filename() == name) && take_file(folder, name, result.files)) break;
  }
  for (const std::string_view name : kBeside) take_file(folder, name, result.files);
  return result;
}

LmTokenizer trained_lm_tokenizer(const std::string& json, data::DocumentBounds bounds) {
  ordered_json root = ordered_json::parse(json);
  const text::Tokenizer given = text::Tokenizer::from_json(json, kJson);
  if (!end_token(given)) add_token(root, given.size(), "<|endoftext|>");
  const auto whole = [&] { return text::Tokenizer::from_json(root.dump(), kJson); };
  if (bounds != data::DocumentBounds::none) {
    const text::Tokenizer tokenizer = whole();
    const int32_t start = end_token(tokenizer).value();
    add_start(root, start, std::string(tokenizer.token(start).value()));
  }
  LmTokenizer result = with_special_tokens(whole(), kJson);
  result.files.emplace_back(kJson, root.dump(2) + "\n");
  return result;
}

void save_lm_tokenizer(const LmTokenizer& tokenizer, const std::filesystem::path& folder,
                       int64_t max_positions, data::DocumentBounds bounds) {
  const std::string* given = file_named(tokenizer, kSettings);
  ordered_json settings = given != nullptr ? ordered_json::parse(*given) : ordered_json::object();
  const auto complete = [&](const char* key, const ordered_json& value) {
    if (!settings.contains(key) || settings[key].is_null()) settings[key] = value;
  };
  const auto token = [&](int32_t id) { return std::string(tokenizer.tokenizer.token(id).value_or("")); };
  complete("tokenizer_class", class_of(tokenizer));
  complete("bos_token", token(tokenizer.start));
  complete("eos_token", token(tokenizer.end));
  if (tokenizer.unknown) complete("unk_token", token(*tokenizer.unknown));
  complete("clean_up_tokenization_spaces", false);
  settings["model_max_length"] = max_positions;
  settings[kDocuments] = field_text(data::words(bounds), bounds);
  for (const auto& [name, content] : tokenizer.files) {
    if (name != kSettings) write_file_atomically(folder / name, content);
  }
  write_file_atomically(folder / kSettings, settings.dump(2) + "\n");
}

std::optional<data::DocumentBounds> saved_document_bounds(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSettings;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const JsonValue settings = parse_json(read_file(path), path.string());
  const auto found = settings.find(kDocuments);
  if (!found) return std::nullopt;
  data::DocumentBounds bounds{};
  try {
    parse_field(kDocuments, found->string(), data::words(bounds), bounds);
  } catch (const UsageError& error) {
    throw DataError(concat(path.string(), ": ", error.what()));
  }
  return bounds;
}

}  // namespace qkv::train
