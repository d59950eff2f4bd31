#include "qkv/text/training/tokenizer_writer.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/json.h"

namespace qkv::text {
namespace {

// The parts of a file, as JSON.
struct Parts {
  std::string added_tokens = "[]";
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null", decoder = "null";
  std::string model;
};

std::string document(const Parts& parts) {
  std::string json = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null";
  for (const auto& [name, value] :
       {std::pair<const char*, const std::string*>{"added_tokens", &parts.added_tokens},
        {"normalizer", &parts.normalizer},
        {"pre_tokenizer", &parts.pre_tokenizer},
        {"post_processor", &parts.post_processor},
        {"decoder", &parts.decoder},
        {"model", &parts.model}}) {
    json.append(",\n  \"").append(name).append("\": ").append(*value);
  }
  return json + "\n}\n";
}

// "[", the items on lines of their own, "]".
template <class Item>
std::string lines_of(size_t count, const char* open, const char* close, Item item) {
  std::string json = open;
  for (size_t i = 0; i < count; ++i) {
    json += i > 0 ? ",\n      " : "\n      ";
    item(i, json);
  }
  return json.append("\n    ").append(close);
}

using NumberedTokens = std::vector<std::pair<size_t, std::string>>;

std::string special_tokens_json(const NumberedTokens& tokens) {
  return lines_of(tokens.size(), "[", "]", [&](size_t i, std::string& json) {
    json.append("{\"id\": ").append(std::to_string(tokens[i].first)).append(", \"content\": ");
    json.append(quoted_json(tokens[i].second));
    json +=
        R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";
  });
}

std::string vocabulary_json(const std::vector<std::string>& tokens) {
  return lines_of(tokens.size(), "{", "}", [&](size_t id, std::string& json) {
    json.append(quoted_json(tokens[id])).append(": ").append(std::to_string(id));
  });
}

std::string bpe_model_json(const std::vector<std::string>& tokens, const MergedPairs& merges,
                           const char* unknown) {
  std::string json = concat(R"({
    "type": "BPE",
    "dropout": null,
    "unk_token": )",
                            unknown ? quoted_json(unknown) : std::string("null"), R"(,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": )");
  json += vocabulary_json(tokens);
  json += ",\n    \"merges\": ";
  if (merges.empty()) return json + "[]\n  }";
  json += lines_of(merges.size(), "[", "]", [&](size_t rank, std::string& out) {
    out.append("[").append(quoted_json(tokens[merges[rank].first])).append(", ");
    out.append(quoted_json(tokens[merges[rank].second])).append("]");
  });
  return json + "\n  }";
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t held = 0;
    for (size_t i = 0; i < 3; ++i) {
      held = (held << 8) | (i < count ? static_cast<uint8_t>(bytes[at + i]) : 0u);
    }
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[(held >> (18 - 6 * i)) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string wordpiece_json(const std::vector<std::string>& tokens, bool lowercase) {
  Parts parts;
  NumberedTokens special;
  for (const std::string& token : kBertTokens) special.emplace_back(special.size(), token);
  parts.added_tokens = special_tokens_json(special);
  parts.normalizer = concat(
      R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, )",
      R"("lowercase": )", lowercase ? "true" : "false", "}");
  parts.pre_tokenizer = R"({"type": "BertPreTokenizer"})";
  parts.post_processor = R"({
    "type": "TemplateProcessing",
    "single": [
      {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    ],
    "pair": [
      {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
      {"Sequence": {"id": "B", "type_id": 1}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    ],
    "special_tokens": {
      "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
      "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}
    }
  })";
  parts.decoder = R"({"type": "WordPiece", "prefix": "##", "cleanup": true})";
  parts.model = R"({
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": )" +
                vocabulary_json(tokens) + "\n  }";
  return document(parts);
}

std::string byte_level_bpe_json(const std::vector<std::string>& tokens, const MergedPairs& merges) {
  Parts parts;
  parts.added_tokens = special_tokens_json({{0, kEndOfText}});
  parts.pre_tokenizer =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
  parts.post_processor =
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true})";
  parts.decoder =
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})";
  parts.model = bpe_model_json(tokens, merges, nullptr);
  return document(parts);
}

std::string characters_json(const std::vector<std::string>& tokens) {
  Parts parts;
  parts.added_tokens = special_tokens_json({{0, kUnknown}});
  parts.decoder = R"({"type": "Fuse"})";
  parts.model = bpe_model_json(tokens, {}, kUnknown);
  return document(parts);
}

std::string unigram_json(const ScoredTokens& pieces, std::string_view charsmap,
                         const std::vector<std::string>& special) {
  Parts parts;
  NumberedTokens added{{0, pieces.front().first}};
  for (const std::string& token : special) added.emplace_back(pieces.size() + added.size() - 1, token);
  parts.added_tokens = special_tokens_json(added);
  // SentencePiece removes white space at the ends and joins the rest.
  std::string steps = R"({"type": "Strip", "strip_left": true, "strip_right": true},
      {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})";
  if (!charsmap.empty()) {
    steps = concat(R"({"type": "Precompiled", "precompiled_charsmap": ")", base64(charsmap), "\"},\n      ",
                   steps);
  }
  parts.normalizer = concat(R"({
    "type": "Sequence",
    "normalizers": [
      )",
                            steps, "\n    ]\n  }");
  const std::string metaspace =
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})";
  parts.pre_tokenizer = metaspace;
  parts.decoder = metaspace;
  parts.model = concat(R"({
    "type": "Unigram",
    "unk_id": 0,
    "byte_fallback": false,
    "vocab": )",
                       lines_of(pieces.size(), "[", "]",
                                [&](size_t id, std::string& json) {
                                  json.append("[").append(quoted_json(pieces[id].first)).append(", ");
                                  json.append(nlohmann::json(pieces[id].second).dump()).append("]");
                                }),
                       "\n  }");
  return document(parts);
}

}  // namespace qkv::text
