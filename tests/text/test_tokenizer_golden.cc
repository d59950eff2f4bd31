// Tokenizers of every kind, compared with PyPI's `tokenizers` on the same texts
// (tests/golden/text_tokenizers.py).

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "qkv/text/tokenizer.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Source {
  const char* name;
  const char* path;  // of the tokenizer; beginning with "shared/": real vocabularies, which are not part of
                     // the project
};

void PrintTo(const Source& source, std::ostream* out) { *out << source.name; }

std::optional<Tokenizer> load(const Source& source) {
  const std::string path = source.path;
  if (!path.starts_with("shared/")) return Tokenizer::load(fs::path(QKV_TEST_DATA) / "text/golden" / path);
  const fs::path shared = fs::path(QKV_SHARED_DATA) / path.substr(7);
  if (!fs::exists(shared)) return std::nullopt;
  return Tokenizer::load(shared);
}

std::vector<json> cases(const Source& source) {
  std::ifstream file(fs::path(QKV_TEST_DATA) / "text/golden" / (std::string(source.name) + ".cases.jsonl"));
  std::vector<json> records;
  for (std::string line; std::getline(file, line);) records.push_back(json::parse(line));
  return records;
}

EncodeOptions options_of(const json& record) {
  EncodeOptions options;
  options.special_tokens = record.at("special_tokens");
  if (record.contains("truncation")) {
    const json& said = record["truncation"];
    const std::string strategy = said.value("strategy", "longest_first");
    options.truncation = {.max_length = said.at("max_length"),
                          .strategy = strategy == "only_first"    ? TruncationStrategy::only_first
                                      : strategy == "only_second" ? TruncationStrategy::only_second
                                                                  : TruncationStrategy::longest_first,
                          .from_left = said.value("direction", "right") == "left"};
  }
  return options;
}

json offsets_of(const Encoding& encoding) {
  json offsets = json::array();
  for (const ByteRange range : encoding.offsets) offsets.push_back({range.begin, range.end});
  return offsets;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                     const DecodeOptions& options) {
  StreamDecoder decoder(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) text += decoder.add(id);
  return text + decoder.finish();
}

class TokenizerGolden : public ::testing::TestWithParam<Source> {};

TEST_P(TokenizerGolden, MatchesTheReference) {
  const std::optional<Tokenizer> tokenizer = load(GetParam());
  if (!tokenizer) GTEST_SKIP() << "needs ../shared/data/tokenizers";
  int64_t compared = 0;
  for (const json& record : cases(GetParam())) {
    const std::string shown = record.dump().substr(0, 200);
    std::vector<int32_t> ids;
    if (record.contains("decode")) {
      ids = record["decode"].get<std::vector<int32_t>>();
    } else {
      const std::string first = record.at("text");
      const Encoding encoding =
          record.contains("pair")
              ? tokenizer->encode(first, record["pair"].get<std::string>(), options_of(record))
              : tokenizer->encode(first, options_of(record));
      EXPECT_EQ(json(encoding.ids), record.at("ids")) << shown;
      EXPECT_EQ(offsets_of(encoding), record.at("offsets")) << shown;
      EXPECT_EQ(json(encoding.type_ids), record.at("type_ids")) << shown;
      EXPECT_EQ(json(encoding.special_mask), record.at("special_mask")) << shown;
      ids = record.at("ids").get<std::vector<int32_t>>();
    }
    const DecodeOptions all{.skip_special_tokens = false};
    EXPECT_EQ(tokenizer->decode(ids), record.at("decoded").get<std::string>()) << shown;
    EXPECT_EQ(tokenizer->decode(ids, all), record.at("decoded_special").get<std::string>()) << shown;
    // Runs of invalid byte tokens decode differently when streamed.
    const std::string text = tokenizer->decode(ids, all);
    if (text.find("\uFFFD") == text.npos) {
      EXPECT_EQ(streamed(*tokenizer, ids, all), text) << shown;
    }
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

INSTANTIATE_TEST_SUITE_P(
    Files, TokenizerGolden,
    ::testing::Values(
        Source{"wordpiece", "wordpiece.json"}, Source{"wordpiece_cased", "wordpiece_cased.json"},
        Source{"byte_level", "byte_level.json"}, Source{"byte_level_few", "byte_level_few.json"},
        Source{"split_pattern", "split_pattern.json"}, Source{"byte_fallback", "byte_fallback.json"},
        Source{"word_suffix", "word_suffix.json"}, Source{"unigram", "unigram.json"},
        Source{"unigram_bytes", "unigram_bytes.json"}, Source{"word_level", "word_level.json"},
        Source{"sentencepiece_unigram", "sentencepiece_unigram.model"},
        Source{"sentencepiece_bpe", "sentencepiece_bpe.model"},
        Source{"bert_uncased", "shared/tokenizers/bert_uncased"}, Source{"gpt2", "shared/tokenizers/gpt2"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace qkv::text
