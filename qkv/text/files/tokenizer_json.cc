#include "qkv/text/files/tokenizer_json.h"

#include "qkv/base/error.h"

namespace qkv::text {
namespace {

Merges read_merges(const JsonValue& part) {
  Merges merges;
  for (const JsonValue& item : part.items()) {
    if (item.is_array()) {
      const std::vector<JsonValue> both = item.items();
      if (both.size() != 2) item.fail("two tokens");
      merges.emplace_back(both[0].string(), both[1].string());
      continue;
    }
    const std::string line = item.string();
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos)
      item.fail("two tokens with a space between them");
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

TokenModelPtr read_bpe(const JsonValue& model, bool byte_level, bool& spell_bytes) {
  if (const auto dropout = model.find("dropout"); dropout && dropout->number() != 0) {
    dropout->fail("no dropout, which would make tokenization random");
  }
  BpeOptions options;
  options.unk_token = model.string_or("unk_token", "");
  options.continuing_subword_prefix = model.string_or("continuing_subword_prefix", "");
  options.end_of_word_suffix = model.string_or("end_of_word_suffix", "");
  options.fuse_unk = model.boolean_or("fuse_unk", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  Vocabulary vocabulary = Vocabulary::from_json(model["vocab"]);
  options.bytes = byte_level && options.continuing_subword_prefix.empty() &&
                  options.end_of_word_suffix.empty() && spells_all_bytes(vocabulary);
  spell_bytes = !options.bytes;
  return bpe_model(std::move(vocabulary), read_merges(model["merges"]), options, model.path());
}

TokenModelPtr read_unigram(const JsonValue& model) {
  ScoredTokens tokens;
  for (const JsonValue& item : model["vocab"].items()) {
    const std::vector<JsonValue> both = item.items();
    if (both.size() != 2) item.fail("a token and its score");
    tokens.emplace_back(both[0].string(), both[1].number());
  }
  const UnigramOptions options{.unk_id = model["unk_id"].integer(),
                               .byte_fallback = model.boolean_or("byte_fallback", false)};
  return unigram_model(tokens, options, model.path());
}

// The type is missing in older files.
std::string type_of(const JsonValue& model) {
  if (const auto type = model.find("type")) return type->string();
  if (model.has("merges")) return "BPE";
  if (model["vocab"].is_array()) return "Unigram";
  return model.has("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

TokenModelPtr read_model(const JsonValue& model, bool byte_level, bool& spell_bytes) {
  const std::string type = type_of(model);
  if (type == "BPE") return read_bpe(model, byte_level, spell_bytes);
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordPiece") {
    WordPieceOptions options;
    options.unk_token = model.string_or("unk_token", options.unk_token);
    options.continuing_subword_prefix =
        model.string_or("continuing_subword_prefix", options.continuing_subword_prefix);
    if (const auto most = model.find("max_input_chars_per_word"))
      options.max_input_chars_per_word = most->integer();
    return wordpiece_model(Vocabulary::from_json(model["vocab"]), options, model.path());
  }
  if (type == "WordLevel") {
    return word_level_model(Vocabulary::from_json(model["vocab"]), model.string_or("unk_token", "<unk>"),
                            model.path());
  }
  model["type"].fail("a supported model (BPE, Unigram, WordLevel, WordPiece)");
}

std::vector<AddedToken> read_added_tokens(const JsonValue& part, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  Vocabulary ids;  // detects added tokens with equal ids
  for (const JsonValue& item : part.items()) {
    AddedToken token;
    token.content = item["content"].string();
    const int64_t id = item["id"].integer();
    const int32_t known = vocabulary.find(token.content);
    if (known >= 0 && known != id) item["id"].fail(concat("the vocabulary's id ", known));
    if (known < 0 && vocabulary.has(id)) item["id"].fail("an id that no other token has");
    ids.add(token.content, id, item.path());
    token.id = static_cast<int32_t>(id);
    token.single_word = item.boolean_or("single_word", false);
    token.lstrip = item.boolean_or("lstrip", false);
    token.rstrip = item.boolean_or("rstrip", false);
    token.special = item.boolean_or("special", false);
    token.normalized = item.boolean_or("normalized", !token.special);
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& name) {
  const JsonValue root = parse_json(json, name);
  if (!root.is_object()) root.fail("an object");
  if (const std::string version = root.string_or("version", "1.0"); version != "1.0") {
    root["version"].fail("the version \"1.0\"");
  }
  TokenizerParts parts;
  const auto pre_tokenizer = root.find("pre_tokenizer");
  bool spell_bytes = true;
  parts.byte_pairs = type_of(root["model"]) == "BPE";
  parts.model = read_model(root["model"], pre_tokenizer && ends_with_byte_level(*pre_tokenizer), spell_bytes);
  if (pre_tokenizer) parts.pre_tokenizer = read_pre_tokenizer(*pre_tokenizer, spell_bytes);
  if (const auto part = root.find("normalizer")) {
    parts.normalizer = read_normalizer(*part);
    parts.bert = read_bert_normalizer(*part);
  }
  if (const auto part = root.find("post_processor")) read_post_processor(*part, parts.post_processing);
  if (const auto part = root.find("decoder")) parts.decoder = read_decoder(*part);
  if (const auto part = root.find("added_tokens")) {
    parts.added_tokens = read_added_tokens(*part, parts.model->vocabulary());
  }
  return parts;
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  return Tokenizer(parse_tokenizer_json(json, name));
}

}  // namespace qkv::text
