#include "qkv/train/tasks/pretrain_bert/bert_tokenizer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"

namespace qkv::train {
namespace {

using nlohmann::ordered_json;

constexpr const char *kBertJson = "tokenizer.json", *kBertWords = "vocab.txt",
                     *kBertSettings = "tokenizer_config.json";
constexpr std::array<std::string_view, 3> kBertOthers{kBertSettings, "special_tokens_map.json",
                                                      "added_tokens.json"};

}  // namespace

std::optional<int32_t> BertTokenizer::unknown() const {
  const std::optional<int32_t> named = tokenizer.special_tokens().unk;
  return named ? named : tokenizer.id_of("[UNK]");
}

uint64_t BertTokenizer::fingerprint() const {
  Hash64 hash;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view token = tokenizer.token(id).value_or("");
    hash.add(uint64_t{token.size()});
    hash.add(token);
  }
  return hash.value();
}

void BertTokenizer::save(const std::filesystem::path& folder, int64_t max_positions) const {
  ordered_json settings = ordered_json::object();
  const char* usual_class = "PreTrainedTokenizerFast";
  for (const auto& [name, content] : files) {
    if (name == kBertSettings) settings = ordered_json::parse(content);
    if (name == kBertWords) usual_class = "BertTokenizer";
  }
  const auto complete = [&](const char* key, const ordered_json& value) {
    if (!settings.contains(key) || settings[key].is_null()) settings[key] = value;
  };
  const auto complete_token = [&](const char* key, std::optional<int32_t> id) {
    if (id) complete(key, std::string(tokenizer.token(*id).value_or("")));
  };
  complete("tokenizer_class", usual_class);
  complete_token("cls_token", vocabulary.cls);
  complete_token("sep_token", vocabulary.sep);
  complete_token("mask_token", vocabulary.mask);
  complete_token("unk_token", unknown());
  const std::optional<int32_t> pad = tokenizer.special_tokens().pad;
  complete_token("pad_token", pad ? pad : tokenizer.id_of("[PAD]"));
  settings["model_max_length"] = max_positions;
  for (const auto& [name, content] : files) {
    if (name != kBertSettings) write_file_atomically(folder / name, content);
  }
  write_file_atomically(folder / kBertSettings, settings.dump(2) + "\n");
}

BertTokenizer open_bert_tokenizer(const std::filesystem::path& path) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  BertTokenizer result{.tokenizer = tokenizer,
                       .vocabulary = data::MaskingVocabulary::of(tokenizer, path.string()),
                       .files = {}};
  const bool is_folder = std::filesystem::is_directory(path);
  const std::filesystem::path folder = is_folder ? path : path.parent_path();
  const auto take = [&](std::string_view name) { return take_file(folder, name, result.files); };
  const bool known = (is_folder || path.filename() == kBertJson)
                         ? take(kBertJson) || (is_folder && take(kBertWords))
                         : path.filename() == kBertWords && take(kBertWords);
  if (!known) {
    throw DataError(concat(path.string(), ": expected a WordPiece tokenizer (", kBertJson, " or ", kBertWords,
                           "), found another"));
  }
  for (const std::string_view name : kBertOthers) take(name);
  return result;
}

BertTokenizer train_bert_tokenizer(const text::TokenizerTraining& options, const std::atomic<bool>* stop) {
  std::string json = text::train_tokenizer(options, stop);
  const text::Tokenizer tokenizer = text::Tokenizer::from_json(json, kBertJson);
  BertTokenizer result{
      .tokenizer = tokenizer, .vocabulary = data::MaskingVocabulary::of(tokenizer, kBertJson), .files = {}};
  result.files.emplace_back(kBertJson, std::move(json));
  result.files.emplace_back(kBertSettings, text::trained_tokenizer_config(options));
  return result;
}

}  // namespace qkv::train
