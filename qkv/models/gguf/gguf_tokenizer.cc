// tokenizer.json from the metadata of a GGUF file. Ids are those of the tokenizer that was converted.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/gguf/gguf_vocabulary.h"

namespace qkv::models {
namespace {

using TokenizerJson = nlohmann::ordered_json;

constexpr std::string_view kSpaceLetter = "\xE2\x96\x81";  // U+2581

TokenizerJson byte_level(bool divides) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", divides}};
}

// The steps of a byte-level tokenizer.
void put_byte_level(const io::GgufFile& file, TokenizerJson& tokenizer) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  const auto found = std::ranges::find(kDivisions, file.text(kKey).value_or("default"), &Division::name);
  if (found == kDivisions.end()) {
    std::string known;
    for (const Division& one : kDivisions) known += concat(known.empty() ? "" : ", ", one.name);
    file.reject(kKey, concat("one of ", known));
  }
  TokenizerJson steps = TokenizerJson::array();
  const bool usual = found->pattern == nullptr, digits = !usual && *found->pattern == '\0';
  if (digits) {
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  } else if (!usual) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", found->pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level(usual || digits));
  tokenizer["normalizer"] = found->compose ? TokenizerJson{{"type", "NFC"}} : TokenizerJson();
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  tokenizer["decoder"] = byte_level(true);
  tokenizer["model"]["ignore_merges"] = found->whole_words;
}

// The steps of SentencePiece: spaces are letters, and characters without a token become bytes.
void put_sentencepiece(const io::GgufFile& file, TokenizerJson& tokenizer) {
  const bool prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  TokenizerJson normalizers = TokenizerJson::array(), decoders = TokenizerJson::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceLetter}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceLetter}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpaceLetter}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  tokenizer["model"]["byte_fallback"] = true;
  tokenizer["model"]["fuse_unk"] = true;
}

// A piece of WordPiece as BERT spells it: in GGUF files, pieces that begin a word have a space before them,
// and others no "##".
std::string wordpiece_of(std::string_view token, int64_t type) {
  const bool whole = type == TokenType::control || type == TokenType::unknown ||
                     (token.starts_with('[') && token.ends_with(']'));
  if (whole) return std::string(token);
  return token.starts_with(kSpaceLetter) ? std::string(token.substr(kSpaceLetter.size()))
                                         : concat("##", token);
}

// The steps of BERT.
void put_bert(bool lowercase, TokenizerJson& tokenizer) {
  tokenizer["normalizer"] = {{"type", "BertNormalizer"},
                             {"clean_text", true},
                             {"handle_chinese_chars", true},
                             {"strip_accents", nullptr},
                             {"lowercase", lowercase}};
  tokenizer["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  tokenizer["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
}

// The merges of a SentencePiece model of byte pairs, in the order of transformers' converter: every division
// of a piece into two others, the piece with the best score first.
TokenizerJson merges_of_scores(const std::vector<std::string_view>& tokens,
                               const std::vector<double>& scores) {
  std::unordered_map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < tokens.size(); ++i) numbers.emplace(tokens[i], i);
  std::vector<std::tuple<double, size_t, size_t, size_t>>
      merges;  // by -score; then piece, left and right part
  for (size_t piece = 0; piece < tokens.size(); ++piece) {
    const std::string_view text = tokens[piece];
    for (size_t at = 1; at < text.size(); ++at) {
      if (continues_character(text[at])) continue;
      const auto left = numbers.find(text.substr(0, at)), right = numbers.find(text.substr(at));
      if (left != numbers.end() && right != numbers.end())
        merges.emplace_back(-scores[piece], piece, left->second, right->second);
    }
  }
  std::ranges::sort(merges);
  TokenizerJson list = TokenizerJson::array();
  for (const auto& [score, piece, left, right] : merges) list.push_back({tokens[left], tokens[right]});
  return list;
}

TokenizerJson merges_of(const io::GgufFile& file, const std::string& key) {
  TokenizerJson merges = TokenizerJson::array();
  for (const std::string_view merge : file.texts(key)) {
    const size_t space = merge.find(' ', 1);  // a token may begin with the space that separates two of them
    if (!valid_utf8(merge) || space == std::string_view::npos) file.reject(key, "pairs of tokens");
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return merges;
}

}  // namespace

bool lowercases(std::span<const std::string_view> tokens, std::span<const int64_t> types) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool capital = std::ranges::any_of(tokens[id], [](char c) { return c >= 'A' && c <= 'Z'; });
    if (types[id] == TokenType::normal && capital && !tokens[id].starts_with('[')) return false;
  }
  return true;
}

text::Tokenizer GgufModel::tokenizer() const {
  return text::Tokenizer::from_json(tokenizer_json(), tokenizer_config_json(), path().string());
}

std::string GgufModel::tokenizer_json() const {
  const auto key_of = [](const char* name) { return concat("tokenizer.ggml.", name); };
  const std::string_view kind = file().text(key_of("model")).value_or("");
  const bool pieces = kind == "llama", words = kind == "bert";
  if (!pieces && !words && kind != "gpt2") file().reject(key_of("model"), "gpt2, llama or bert");
  const std::vector<std::string_view> tokens = file().texts(key_of("tokens"));
  if (tokens.empty()) file().reject(key_of("tokens"), "a list of texts");
  const auto per_token = [&](const char* name, size_t count) {
    if (count != tokens.size())
      file().reject(key_of(name), concat("one value for each of ", tokens.size(), " tokens"));
  };
  std::vector<int64_t> types = file().integers(key_of("token_type"));
  if (types.empty()) types.assign(tokens.size(), TokenType::normal);
  per_token("token_type", types.size());

  nlohmann::json vocabulary = nlohmann::json::object();  // found by name; an ordered one searches it
  TokenizerJson added = TokenizerJson::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!valid_utf8(tokens[id])) file().reject(key_of("tokens"), concat("UTF-8 as token ", id));
    const std::string text = words ? wordpiece_of(tokens[id], types[id]) : std::string(tokens[id]);
    vocabulary[text] = id;
    if (types[id] != TokenType::control && types[id] != TokenType::user_defined &&
        types[id] != TokenType::unknown)
      continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[id] != TokenType::user_defined}});
  }
  if (vocabulary.size() != tokens.size()) file().reject(key_of("tokens"), "different tokens");

  TokenizerJson tokenizer{
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", std::move(added)}};
  // llama.cpp takes the ids of BERT's first vocabulary for those that a file lacks, and converted files lack
  // that of the start.
  const auto special_id = [&](const char* name, int32_t otherwise) {
    const auto found = token_id(name, tokens.size());
    const bool usual = words && !found && !file().has(key_of(name)) && otherwise < std::ssize(tokens);
    return usual ? std::optional(otherwise) : found;
  };
  constexpr int32_t kUnknown = 100, kStart = 101, kSeparator = 102;
  const auto unknown = special_id("unknown_token_id", kUnknown);
  tokenizer["model"] = {{"type", words ? "WordPiece" : "BPE"},
                        {"unk_token", !unknown || kind == "gpt2" ? TokenizerJson() : tokens[*unknown]}};
  if (words) {
    if (!unknown) file().reject(key_of("unknown_token_id"), "an id");
    put_bert(lowercases(tokens, types), tokenizer);
  } else if (pieces) {
    const std::vector<double> scores = file().numbers(key_of("scores"));
    per_token("scores", scores.size());
    tokenizer["model"]["merges"] = merges_of_scores(tokens, scores);
    put_sentencepiece(file(), tokenizer);
  } else {
    tokenizer["model"]["merges"] = merges_of(file(), key_of("merges"));
    put_byte_level(file(), tokenizer);
  }
  tokenizer["model"]["vocab"] = vocabulary;

  // The tokens around a text.
  const bool starts = pieces || words || tokenizer["model"].value("ignore_merges", false);
  TokenizerJson special = TokenizerJson::object();
  const auto around = [&](const char* adds, bool usual, const char* name,
                          int32_t otherwise) -> std::optional<std::string> {
    const auto id = special_id(name, otherwise);
    if (!file().boolean(key_of(adds)).value_or(usual) || !id) return std::nullopt;
    std::string text(tokens[*id]);
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
    return text;
  };
  const auto start = around("add_bos_token", starts, "bos_token_id", kStart);
  const auto end = words ? around("add_sep_token", true, "seperator_token_id", kSeparator)
                         : around("add_eos_token", false, "eos_token_id", 0);
  const auto parts = [&](bool two) {
    TokenizerJson list = TokenizerJson::array();
    const auto token = [&](const std::optional<std::string>& text, int type) {
      if (text) list.push_back({{"SpecialToken", {{"id", *text}, {"type_id", type}}}});
    };
    token(start, 0);
    list.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (words || !two) token(end, 0);
    if (!two) return list;
    list.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    token(end, 1);
    return list;
  };
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", parts(false)},
                                 {"pair", parts(true)},
                                 {"special_tokens", special}};
  return tokenizer.dump();
}

}  // namespace qkv::models
