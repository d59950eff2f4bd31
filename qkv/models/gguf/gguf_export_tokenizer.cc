// The metadata of a GGUF file from tokenizer.json: the inverse of gguf_tokenizer.cc.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/models/gguf/gguf_export.h"
#include "qkv/models/gguf/gguf_vocabulary.h"

namespace qkv::models {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";
constexpr std::string_view kSpace = "\xE2\x96\x81";

// A member that is missing or null, or has one of these values ("" of a text as well): it has no effect.
void require_none(const JsonValue& object, std::initializer_list<const char*> keys) {
  for (const char* const key : keys) {
    const auto value = object.find(key);
    if (value && !(value->is_string() && value->string().empty()))
      value->fail("null, as GGUF files have no counterpart");
  }
}

void require_flag(const JsonValue& object, const char* key, bool expected) {
  if (object.boolean_or(key, expected) != expected)
    object[key].fail(concat(expected ? "true" : "false", ", the only counterpart in GGUF files"));
}

bool is_type(const JsonValue& step, std::string_view type) { return step["type"].string() == type; }

// The steps of a part: those of a sequence, or the only one; none for null.
std::vector<JsonValue> steps_of(const JsonValue& document, const char* part, const char* list) {
  const auto found = document.find(part);
  if (!found) return {};
  if (is_type(*found, "Sequence")) return (*found)[list].items();
  return {*found};
}

// The value of "tokenizer.ggml.pre".
std::string_view division_of(const JsonValue& document) {
  bool composed = false;
  for (const JsonValue& step : steps_of(document, "normalizer", "normalizers")) {
    if (!is_type(step, "NFC") || composed)
      step.fail("NFC or nothing, which GGUF files have of these tokenizers");
    composed = true;
  }
  const std::vector<JsonValue> steps = steps_of(document, "pre_tokenizer", "pretokenizers");
  if (steps.empty() || steps.size() > 2 || !is_type(steps.back(), "ByteLevel"))
    document["pre_tokenizer"].fail("ByteLevel, alone or after Split or Digits");
  require_flag(steps.back(), "add_prefix_space", false);
  std::optional<std::string> pattern;
  if (steps.size() == 2 && is_type(steps[0], "Digits")) {
    require_flag(steps[0], "individual_digits", true);
    require_flag(steps[1], "use_regex", true);
    pattern = "";
  } else if (steps.size() == 2) {
    if (!is_type(steps[0], "Split") || steps[0]["behavior"].string() != "Isolated")
      steps[0].fail("Digits, or an isolating Split");
    require_flag(steps[0], "invert", false);
    require_flag(steps[1], "use_regex", false);
    pattern = steps[0]["pattern"]["Regex"].string();
  } else {
    require_flag(steps[0], "use_regex", true);
  }
  const bool whole_words = document["model"].boolean_or("ignore_merges", false);
  const auto found = std::ranges::find_if(kDivisions, [&](const Division& one) {
    const bool same = one.pattern == nullptr ? !pattern : pattern == one.pattern;
    return same && one.compose == composed && one.whole_words == whole_words;
  });
  if (found == kDivisions.end()) {
    document["pre_tokenizer"].fail(concat(
        "a way to divide texts that GGUF files have a name for (with this normalizer and ignore_merges ",
        whole_words ? "true)" : "false)"));
  }
  return found->name;
}

// SentencePiece's steps. Returns whether texts begin with a space.
bool space_prefix_of(const JsonValue& document) {
  const std::vector<JsonValue> steps = steps_of(document, "normalizer", "normalizers");
  const bool prefix = steps.size() == 2;
  const auto usual = [&] {
    if (steps.empty() || steps.size() > 2) return false;
    if (prefix && (!is_type(steps[0], "Prepend") || steps[0]["prepend"].string() != kSpace)) return false;
    const JsonValue& replace = steps.back();
    return is_type(replace, "Replace") && replace["content"].string() == kSpace &&
           replace["pattern"].string_or("String", "") == " ";
  };
  if (!usual()) {
    const auto normalizer = document.find("normalizer");
    const std::string expected =
        "spaces that become U+2581, with or without one before the text, as in LLaMA's";
    normalizer ? normalizer->fail(expected) : document.fail(concat(expected, " in normalizer"));
  }
  // Gemma's divides at spaces, of which the normalizer leaves none.
  for (const JsonValue& step : steps_of(document, "pre_tokenizer", "pretokenizers")) {
    const auto pattern = is_type(step, "Split") ? step.find("pattern") : std::nullopt;
    if (!pattern || pattern->string_or("String", "") != " ")
      step.fail("null or a Split at spaces, as GGUF files have no counterpart");
  }
  return prefix;
}

// The tokens around a text, of which GGUF files have one at each end.
void put_post_processor(const JsonValue& document, const std::vector<std::string>& tokens,
                        io::GgufMetadata& metadata) {
  std::optional<int64_t> first, last;
  for (const JsonValue& step : steps_of(document, "post_processor", "processors")) {
    if (is_type(step, "ByteLevel")) continue;  // of offsets alone
    if (is_type(step, "BertProcessing") && !first && !last) {
      const auto id = [&](const char* end) {
        const std::vector<JsonValue> pair = step[end].items();
        if (pair.size() != 2) step[end].fail("a token and its id");
        return pair[1].integer(0, std::ssize(tokens) - 1);
      };
      first = id("cls");
      last = id("sep");
      continue;
    }
    if (!is_type(step, "TemplateProcessing") || first || last)
      step.fail("ByteLevel or one TemplateProcessing");
    bool text = false;
    for (const JsonValue& part : step["single"].items()) {
      if (part.has("Sequence")) {
        text = true;
        continue;
      }
      const std::string name = part["SpecialToken"]["id"].string();
      const std::vector<JsonValue> ids = step["special_tokens"][name]["ids"].items();
      auto& end = text ? last : first;
      if (ids.size() != 1 || end) part.fail("one token before the text, and one after it");
      end = ids[0].integer(0, std::ssize(tokens) - 1);
    }
  }
  metadata.boolean(concat(kPrefix, "add_bos_token"), first.has_value());
  metadata.boolean(concat(kPrefix, "add_eos_token"), last.has_value());
  if (first) metadata.integer(concat(kPrefix, "bos_token_id"), *first);
  const bool words = is_type(document["model"], "WordPiece");
  if (last) metadata.integer(concat(kPrefix, words ? "seperator_token_id" : "eos_token_id"), *last);
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
};

Vocabulary vocabulary_of(const JsonValue& document, int64_t rows) {
  Vocabulary all;
  const auto put = [&](const JsonValue& at, const std::string& token, int64_t id, int64_t type) {
    if (id >= std::ssize(all.tokens)) {
      all.tokens.resize(static_cast<size_t>(id + 1));
      all.types.resize(static_cast<size_t>(id + 1), TokenType::unused);
    }
    std::string& own = all.tokens[static_cast<size_t>(id)];
    if (all.types[static_cast<size_t>(id)] != TokenType::unused && own != token)
      at.fail(concat("another id than ", id, ", which is that of ", own));
    own = token;
    all.types[static_cast<size_t>(id)] = static_cast<int32_t>(type);
  };
  document["model"]["vocab"].members([&](std::string_view token, const JsonValue& id) {
    put(id, std::string(token), id.integer(0, rows - 1), TokenType::normal);
  });
  const bool normalizes = document.has("normalizer");
  for (const JsonValue& token : document["added_tokens"].items()) {
    // GGUF has no field for these. llama.cpp guesses Phi-3's "rstrip" from "general.name"; other readers do
    // not.
    for (const char* const key : {"single_word", "lstrip", "rstrip"}) require_flag(token, key, false);
    if (normalizes) require_flag(token, "normalized", false);
    put(token, token["content"].string(), token["id"].integer(0, rows - 1),
        token.boolean_or("special", false) ? TokenType::control : TokenType::user_defined);
  }
  all.tokens.resize(static_cast<size_t>(rows));
  all.types.resize(static_cast<size_t>(rows), TokenType::unused);
  for (size_t id = 0; id < all.tokens.size(); ++id) {
    if (all.types[id] == TokenType::unused)
      all.tokens[id] = concat("[PAD", id, "]");  // as llama.cpp's converter
  }
  return all;
}

// WordPiece as BERT has it: pieces that begin a word have a space before them, and others no "##".
void put_words(const JsonValue& document, Vocabulary& all, io::GgufMetadata& metadata) {
  const JsonValue model = document["model"], normalizer = document["normalizer"];
  if (model.string_or("continuing_subword_prefix", "") != "##")
    model["continuing_subword_prefix"].fail("\"##\", the only counterpart in GGUF files");
  if (model.integer_or("max_input_chars_per_word", 100, 0, INT64_MAX) != 100)
    model["max_input_chars_per_word"].fail("100, the only one that readers of GGUF files know");
  if (!is_type(normalizer, "BertNormalizer"))
    normalizer.fail("BertNormalizer, the only counterpart in GGUF files");
  require_flag(normalizer, "clean_text", true);
  require_flag(normalizer, "handle_chinese_chars", true);
  const bool lowercase = normalizer.boolean_or("lowercase", true);
  if (normalizer.has("strip_accents")) require_flag(normalizer, "strip_accents", lowercase);
  if (!is_type(document["pre_tokenizer"], "BertPreTokenizer"))
    document["pre_tokenizer"].fail("BertPreTokenizer, the only counterpart in GGUF files");
  const std::vector<std::string_view> tokens(all.tokens.begin(), all.tokens.end());
  const std::vector<int64_t> types(all.types.begin(), all.types.end());
  if (lowercase != lowercases(tokens, types)) {
    normalizer["lowercase"].fail(concat(lowercase ? "false, as the vocabulary has capital letters"
                                                  : "true, as the vocabulary has no capital letters",
                                        ", by which readers of GGUF files decide"));
  }
  const std::string unknown = model["unk_token"].string();
  for (size_t id = 0; id < all.tokens.size(); ++id) {
    std::string& token = all.tokens[id];
    if (token == unknown) metadata.integer(concat(kPrefix, "unknown_token_id"), static_cast<int64_t>(id));
    if (all.types[id] == TokenType::control || (token.starts_with('[') && token.ends_with(']'))) continue;
    const bool continues = all.types[id] == TokenType::normal && token.starts_with("##");
    token = continues ? token.substr(2) : concat(kSpace, token);
  }
  metadata.text(concat(kPrefix, "model"), "bert");
  metadata.text(concat(kPrefix, "pre"), "default");
}

// Pairs of tokens, in order.
std::vector<std::pair<std::string, std::string>> merges_of(const JsonValue& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const JsonValue& merge : model["merges"].items()) {
    if (merge.is_array()) {
      const std::vector<JsonValue> pair = merge.items();
      if (pair.size() != 2) merge.fail("a pair of tokens");
      merges.emplace_back(pair[0].string(), pair[1].string());
    } else {
      const std::string both = merge.string();
      const size_t space = both.find(' ', 1);
      if (space == std::string::npos) merge.fail("two tokens with a space between them");
      merges.emplace_back(both.substr(0, space), both.substr(space + 1));
    }
  }
  return merges;
}

// Scores that give SentencePiece the order of the merges: a piece's is the number of its first merge,
// negative.
std::vector<float> scores_of(const std::vector<std::pair<std::string, std::string>>& merges,
                             const Vocabulary& vocabulary) {
  std::unordered_map<std::string, size_t> first;
  for (const auto& [left, right] : merges) first.emplace(left + right, first.size());
  std::vector<float> scores;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto found = first.find(vocabulary.tokens[id]);
    const bool usual = vocabulary.types[id] == TokenType::normal;
    scores.push_back(!usual ? 0 : -static_cast<float>(found == first.end() ? first.size() : found->second));
  }
  return scores;
}

}  // namespace

void put_gguf_tokenizer(const std::string& json, const std::string& where, int64_t vocabulary,
                        io::GgufMetadata& metadata) {
  const JsonValue document = parse_json(json, where), model = document["model"];
  const bool words = is_type(model, "WordPiece"), pieces = !words && model.boolean_or("byte_fallback", false);
  if (!words && !is_type(model, "BPE"))
    model["type"].fail("BPE or WordPiece: GGUF files have no counterpart here of other tokenizers");
  if (!words) require_none(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix"});
  Vocabulary all = vocabulary_of(document, vocabulary);
  if (words) {
    put_words(document, all, metadata);
  } else if (pieces) {
    metadata.text(concat(kPrefix, "model"), "llama");
    metadata.text(concat(kPrefix, "pre"), "default");
    metadata.boolean(concat(kPrefix, "add_space_prefix"), space_prefix_of(document));
    require_flag(model, "fuse_unk", true);
    require_flag(model, "ignore_merges", false);
    for (size_t id = 0; id < all.tokens.size(); ++id) {
      const std::string& token = all.tokens[id];
      if (token.size() == 6 && token.starts_with("<0x") && token.ends_with(">"))
        all.types[id] = TokenType::byte;
      if (token == model.string_or("unk_token", "")) {
        all.types[id] = TokenType::unknown;
        metadata.integer(concat(kPrefix, "unknown_token_id"), static_cast<int64_t>(id));
      }
    }
    metadata.numbers(concat(kPrefix, "scores"), scores_of(merges_of(model), all));
  } else {
    metadata.text(concat(kPrefix, "model"), "gpt2");
    metadata.text(concat(kPrefix, "pre"), division_of(document));
    require_none(model, {"unk_token"});
    std::vector<std::string> joined;
    for (const auto& [left, right] : merges_of(model)) joined.push_back(concat(left, ' ', right));
    metadata.texts(concat(kPrefix, "merges"), joined);
  }
  metadata.texts(concat(kPrefix, "tokens"), all.tokens);
  metadata.integers(concat(kPrefix, "token_type"), all.types);
  put_post_processor(document, all.tokens, metadata);
}

}  // namespace qkv::models
