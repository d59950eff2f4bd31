// Reads the steps before and after the model: normalizers, pre-tokenizers, post-processors, decoders.

#include <algorithm>
#include <array>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/files/tokenizer_json.h"

namespace qkv::text {
namespace {

// Maximum nesting of sequences; real files have one level.
constexpr int kDeepest = 8;
// Maximum parts of a template, each of which may repeat the whole text; real files have up to 7.
constexpr size_t kMaxParts = 64;

[[noreturn]] void refuse(const JsonValue& part, const char* what, const char* known) {
  part["type"].fail(concat("a ", what, " supported by qkv (", known, ")"));
}

int64_t count_of(const JsonValue& part, const std::string& key) {
  return part[key].integer(0, std::numeric_limits<int32_t>::max());
}

std::unique_ptr<const Pattern> read_pattern(const JsonValue& part) {
  if (const auto text = part.find("String")) return literal_pattern(text->string());
  if (const auto regex = part.find("Regex")) return regex_pattern(regex->string(), part.path());
  part.fail("a pattern, {\"String\": ...} or {\"Regex\": ...}");
}

std::string decode_base64(const JsonValue& part) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = part.string(), bytes;
  if (text.size() % 4 != 0) part.fail("base64");
  size_t padding = 0;
  for (; padding < 2 && text.ends_with('='); ++padding) text.pop_back();
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) part.fail("base64");
    held = (held << 6) | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((held >> bits) & 0xFF);
  }
  return bytes;
}

NormalizerPtr normalizer(const JsonValue& part, int depth) {
  const std::string type = part["type"].string();
  if (const auto options = read_bert_normalizer(part)) return bert_normalizer(*options);
  if (type == "NFC") return unicode_normalizer(UnicodeForm::nfc);
  if (type == "NFD") return unicode_normalizer(UnicodeForm::nfd);
  if (type == "NFKC") return unicode_normalizer(UnicodeForm::nfkc);
  if (type == "NFKD") return unicode_normalizer(UnicodeForm::nfkd);
  if (type == "Lowercase") return lowercase_normalizer();
  if (type == "Strip") return strip_normalizer(part["strip_left"].boolean(), part["strip_right"].boolean());
  if (type == "StripAccents") return strip_accents_normalizer();
  if (type == "Replace") return replace_normalizer(read_pattern(part["pattern"]), part["content"].string());
  if (type == "Prepend") return prepend_normalizer(part["prepend"].string());
  if (type == "Precompiled") {
    const JsonValue map = part["precompiled_charsmap"];
    return precompiled_normalizer(decode_base64(map), map.path());
  }
  if (type == "Sequence") {
    if (depth == kDeepest) part.fail(concat("sequences at most ", kDeepest, " deep"));
    std::vector<NormalizerPtr> parts;
    for (const JsonValue& item : part["normalizers"].items()) parts.push_back(normalizer(item, depth + 1));
    return normalizer_sequence(std::move(parts));
  }
  refuse(part, "normalizer",
         "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Precompiled, Prepend, Replace, Sequence, Strip, "
         "StripAccents");
}

SplitBehavior read_behavior(const JsonValue& part) {
  static const std::array<std::pair<const char*, SplitBehavior>, 5> kNames{
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  const std::string name = part.string();
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  part.fail("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

MetaspaceOptions read_metaspace(const JsonValue& part) {
  MetaspaceOptions options;
  options.replacement = part["replacement"].string();
  if (count_characters(options.replacement) != 1) part["replacement"].fail("one character");
  const std::string scheme = part.string_or("prepend_scheme", "always");
  if (scheme == "always") {
    options.prepend = Prepend::always;
  } else if (scheme == "first") {
    options.prepend = Prepend::first;
  } else if (scheme == "never") {
    options.prepend = Prepend::never;
  } else {
    part["prepend_scheme"].fail("always, first or never");
  }
  if (!part.boolean_or("add_prefix_space", true)) {  // the field's older form
    if (part.has("prepend_scheme") && options.prepend != Prepend::never) {
      part["add_prefix_space"].fail("the value that prepend_scheme implies");
    }
    options.prepend = Prepend::never;
  }
  options.split = part.boolean_or("split", true);
  return options;
}

PreTokenizerPtr pre_tokenizer(const JsonValue& part, bool spell_bytes, int depth) {
  const std::string type = part["type"].string();
  if (type == "BertPreTokenizer") return bert_pre_tokenizer();
  if (type == "ByteLevel") {
    return byte_level_pre_tokenizer({.add_prefix_space = part.boolean_or("add_prefix_space", true),
                                     .use_regex = part.boolean_or("use_regex", true),
                                     .spell_bytes = spell_bytes});
  }
  if (type == "Whitespace") return whitespace_pre_tokenizer();
  if (type == "WhitespaceSplit") return whitespace_split();
  if (type == "Metaspace") return metaspace_pre_tokenizer(read_metaspace(part));
  if (type == "Punctuation") {
    const auto behavior = part.find("behavior");
    return punctuation_split(behavior ? read_behavior(*behavior) : SplitBehavior::isolated);
  }
  if (type == "Digits") return digits_split(part.boolean_or("individual_digits", false));
  if (type == "Split") {
    return pattern_split(read_pattern(part["pattern"]), read_behavior(part["behavior"]),
                         part.boolean_or("invert", false));
  }
  if (type == "Sequence") {
    if (depth == kDeepest) part.fail(concat("sequences at most ", kDeepest, " deep"));
    std::vector<PreTokenizerPtr> parts;
    const std::vector<JsonValue> items = part["pretokenizers"].items();
    for (size_t i = 0; i < items.size(); ++i) {
      parts.push_back(pre_tokenizer(items[i], i + 1 < items.size() || spell_bytes, depth + 1));
    }
    return pre_tokenizer_sequence(std::move(parts));
  }
  refuse(part, "pre-tokenizer",
         "BertPreTokenizer, ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace, "
         "WhitespaceSplit");
}

DecoderPtr single_decoder(const JsonValue& part) {
  const std::string type = part["type"].string();
  if (type == "WordPiece")
    return wordpiece_decoder(part.string_or("prefix", "##"), part.boolean_or("cleanup", true));
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "Metaspace") return metaspace_decoder(read_metaspace(part));
  if (type == "BPEDecoder") return bpe_decoder(part.string_or("suffix", "</w>"));
  if (type == "ByteFallback") return byte_fallback_decoder();
  if (type == "Fuse") return fuse_decoder();
  if (type == "Replace") return replace_decoder(read_pattern(part["pattern"]), part["content"].string());
  if (type == "Strip") {
    const std::string content = part["content"].string();
    if (count_characters(content) != 1) part["content"].fail("one character");
    return strip_decoder(content, count_of(part, "start"), count_of(part, "stop"));
  }
  refuse(part, "decoder",
         "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece");
}

// Flattens nested sequences.
void add_decoders(const JsonValue& part, int depth, std::vector<DecoderPtr>& parts) {
  if (part["type"].string() != "Sequence") {
    parts.push_back(single_decoder(part));
    return;
  }
  if (depth == kDeepest) part.fail(concat("sequences at most ", kDeepest, " deep"));
  for (const JsonValue& item : part["decoders"].items()) add_decoders(item, depth + 1, parts);
}

int32_t read_id(const JsonValue& part) {
  return static_cast<int32_t>(part.integer(0, Vocabulary::kMaxIds - 1));
}

// ["[SEP]", 102]
int32_t read_token_and_id(const JsonValue& part) {
  const std::vector<JsonValue> both = part.items();
  if (both.size() != 2) part.fail("a token and its id");
  return read_id(both[1]);
}

std::vector<PostProcessing::Part> read_template(const JsonValue& part, const JsonValue& special_tokens,
                                                bool pair) {
  std::vector<PostProcessing::Part> parts;
  if (part.size() > kMaxParts) part.fail(concat("at most ", kMaxParts, " parts"));
  for (const JsonValue& item : part.items()) {
    PostProcessing::Part result;
    if (const auto text = item.find("Sequence")) {
      const std::string name = (*text)["id"].string();
      if (name != "A" && (name != "B" || !pair)) (*text)["id"].fail(pair ? "A or B" : "A");
      result.text = name == "A" ? 0 : 1;
      result.type_id = read_id((*text)["type_id"]);
    } else {
      const JsonValue special = item["SpecialToken"];
      for (const JsonValue& id : special_tokens[special["id"].string()]["ids"].items())
        result.ids.push_back(read_id(id));
      result.type_id = read_id(special["type_id"]);
    }
    parts.push_back(std::move(result));
  }
  return parts;
}

// `templates`: number of parts of the sequence so far that add tokens.
void post_processor(const JsonValue& part, PostProcessing& result, int& templates, int depth) {
  const std::string type = part["type"].string();
  if (type == "Sequence") {
    if (depth == kDeepest) part.fail(concat("sequences at most ", kDeepest, " deep"));
    for (const JsonValue& item : part["processors"].items())
      post_processor(item, result, templates, depth + 1);
    return;
  }
  if (type == "ByteLevel" || type == "RobertaProcessing") {
    result.trim_offsets = part.boolean_or("trim_offsets", true);
    result.add_prefix_space = part.boolean_or("add_prefix_space", true);
    if (type == "ByteLevel") return;
  }
  if (++templates > 1) part.fail("at most one post-processor that adds tokens");
  if (type == "TemplateProcessing") {
    result.single = read_template(part["single"], part["special_tokens"], /*pair=*/false);
    result.pair = read_template(part["pair"], part["special_tokens"], /*pair=*/true);
    return;
  }
  if (type != "BertProcessing" && type != "RobertaProcessing") {
    refuse(part, "post-processor",
           "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
  const std::vector<int32_t> sep{read_token_and_id(part["sep"])}, cls{read_token_and_id(part["cls"])};
  result.single = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}};
  result.pair = result.single;
  if (type == "BertProcessing") {
    result.pair.insert(result.pair.end(), {{1, {}, 1}, {-1, sep, 1}});
  } else {
    result.pair.insert(result.pair.end(), {{-1, sep, 0}, {1, {}, 0}, {-1, sep, 0}});
  }
}

}  // namespace

std::optional<BertNormalizerOptions> read_bert_normalizer(const JsonValue& part) {
  if (part["type"].string() != "BertNormalizer") return std::nullopt;
  BertNormalizerOptions options;
  options.clean_text = part.boolean_or("clean_text", options.clean_text);
  options.handle_chinese_chars = part.boolean_or("handle_chinese_chars", options.handle_chinese_chars);
  options.lowercase = part.boolean_or("lowercase", options.lowercase);
  if (const auto strip = part.find("strip_accents")) options.strip_accents = strip->boolean();
  return options;
}

NormalizerPtr read_normalizer(const JsonValue& part) { return normalizer(part, 0); }
DecoderPtr read_decoder(const JsonValue& part) {
  std::vector<DecoderPtr> parts;
  add_decoders(part, 0, parts);
  return parts.size() == 1 ? std::move(parts.front()) : decoder_sequence(std::move(parts));
}

PreTokenizerPtr read_pre_tokenizer(const JsonValue& part, bool spell_bytes) {
  return pre_tokenizer(part, spell_bytes, 0);
}

bool ends_with_byte_level(const JsonValue& part) {
  const std::string type = part["type"].string();
  if (type != "Sequence") return type == "ByteLevel";
  const std::vector<JsonValue> items = part["pretokenizers"].items();
  return !items.empty() && items.back()["type"].string() == "ByteLevel";
}

void read_post_processor(const JsonValue& part, PostProcessing& result) {
  int templates = 0;
  post_processor(part, result, templates, 0);
}

}  // namespace qkv::text
