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
  constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581
  const bool prefix = file.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  TokenizerJson normalizers = TokenizerJson::array(), decoders = TokenizerJson::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  tokenizer["model"]["byte_fallback"] = true;
  tokenizer["model"]["fuse_unk"] = true;
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

}  // namespace

std::string GgufModel::tokenizer_json() const {
  const auto key_of = [](const char* name) { return concat("tokenizer.ggml.", name); };
  const std::vector<std::string_view> tokens = file().texts(key_of("tokens"));
  if (tokens.empty()) file().reject(key_of("tokens"), "a list of texts");
  const std::vector<int64_t> types = file().integers(key_of("token_type"));
  const auto per_token = [&](const char* name, size_t count) {
    if (count != tokens.size())
      file().reject(key_of(name), concat("one value for each of ", tokens.size(), " tokens"));
  };
  if (!types.empty()) per_token("token_type", types.size());
  TokenizerJson vocabulary = TokenizerJson::object(), added = TokenizerJson::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!valid_utf8(tokens[id])) file().reject(key_of("tokens"), concat("UTF-8 as token ", id));
    vocabulary[std::string(tokens[id])] = id;
    const int64_t type = types.empty() ? 1 : types[id];
    if (type == TokenType::control || type == TokenType::user_defined || type == TokenType::unknown) {
      added.push_back({{"id", id},
                       {"content", tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type != TokenType::user_defined}});
    }
  }
  if (vocabulary.size() != tokens.size()) file().reject(key_of("tokens"), "different tokens");
  const std::string_view kind = file().text(key_of("model")).value_or("");
  const bool pieces = kind == "llama";
  if (!pieces && kind != "gpt2") file().reject(key_of("model"), "gpt2 or llama");

  TokenizerJson merges = TokenizerJson::array();
  if (pieces) {
    const std::vector<double> scores = file().numbers(key_of("scores"));
    per_token("scores", scores.size());
    merges = merges_of_scores(tokens, scores);
  } else {
    for (const std::string_view merge : file().texts(key_of("merges"))) {
      // A token may begin with the space that separates two of them.
      const size_t space = merge.find(' ', 1);
      if (!valid_utf8(merge) || space == std::string_view::npos)
        file().reject(key_of("merges"), "pairs of tokens");
      merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
  }
  const auto token_of = [&](const char* name) -> std::optional<size_t> {
    const auto id = file().integer(key_of(name));
    if (!id || *id < 0) return std::nullopt;
    if (*id >= std::ssize(tokens)) file().reject(key_of(name), concat("an id below ", tokens.size()));
    return static_cast<size_t>(*id);
  };
  const auto unknown = token_of("unknown_token_id");
  TokenizerJson tokenizer{
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", std::move(added)}};
  tokenizer["model"] = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", pieces && unknown ? TokenizerJson(tokens[*unknown]) : TokenizerJson()},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", false},
                        {"byte_fallback", false}};
  pieces ? put_sentencepiece(file(), tokenizer) : put_byte_level(file(), tokenizer);
  tokenizer["model"]["vocab"] = std::move(vocabulary);
  tokenizer["model"]["merges"] = std::move(merges);

  // The tokens around a text.
  TokenizerJson around = TokenizerJson::array(), special = TokenizerJson::object();
  const auto put = [&](const char* adds, bool usual, const char* name) {
    const auto id = token_of(name);
    if (!file().boolean(key_of(adds)).value_or(usual) || !id) return;
    const std::string text(tokens[*id]);
    around.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  put("add_bos_token", pieces, "bos_token_id");
  around.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put("add_eos_token", false, "eos_token_id");
  TokenizerJson pair = around;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", std::move(around)},
                                 {"pair", std::move(pair)},
                                 {"special_tokens", std::move(special)}};
  return tokenizer.dump();
}

std::string GgufModel::chat_template() const {
  return std::string(file().text("tokenizer.chat_template").value_or(""));
}

}  // namespace qkv::models
