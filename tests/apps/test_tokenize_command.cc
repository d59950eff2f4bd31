// qkv tokenize, run as by a user.

#include <nlohmann/json.hpp>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TokenizeCommand : public CommandTest {
 protected:
  const std::string bytes_ = "tokenize " QKV_TEST_DATA "/text/golden/byte_level.json ",
                    words_ = "tokenize " QKV_TEST_DATA "/text/golden/wordpiece.json ";
};

TEST_F(TokenizeCommand, PiecesIdsAndBack) {
  const std::string text = "Hello, wörld\r\n\n two  words 👍🏽\n";
  const std::string pieces = output(bytes_ + "--no-special-tokens", text);
  EXPECT_TRUE(pieces.starts_with("ĠH")) << pieces;
  const std::string ids = output(bytes_ + "--ids", text);
  EXPECT_EQ(ids.substr(ids.find('\n') + 1, 4), "0 2\n") << ids;  // the empty line: <s> </s>
  EXPECT_EQ(output(bytes_ + "--decode", ids), " Hello, wörld\n\n two  words 👍🏽\n");
  EXPECT_EQ(output(bytes_ + "--decode --special-tokens", "0 2\n"), "<s></s>\n");
}

TEST_F(TokenizeCommand, JsonOfPairs) {
  const json found = json::parse(output(words_ + "--json --pair", "The fox\té b\n"));
  EXPECT_EQ(found["ids"][0], 2);
  EXPECT_EQ(found["tokens"][0], "[CLS]");
  const size_t tokens = found["ids"].size();
  for (const char* key : {"tokens", "offsets", "type_ids", "special_mask", "text_index", "word_index"}) {
    EXPECT_EQ(found[key].size(), tokens) << key;
  }
  EXPECT_EQ(found["offsets"][tokens - 3], json({0, 2}));  // é is two bytes
  EXPECT_EQ(found["type_ids"].back(), 1);
  EXPECT_EQ(found["text_index"][tokens - 2], 1);
}

TEST_F(TokenizeCommand, NullEndsTextsThatAreDecodedToo) {
  std::string expected = output(bytes_ + "--decode", "5 6\n7 8\n");
  std::ranges::replace(expected, '\n', '\0');
  const std::string found = output(bytes_ + "--decode -0", std::string("5 6\0007 8\0", 8));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(std::ranges::count(found, '\0'), 2);
}

TEST_F(TokenizeCommand, TextsWithLinesInThem) {
  EXPECT_EQ(json::parse(output(bytes_ + "--decode --json", "5 6")).size(), 1u);
  const std::string lines = output(bytes_ + "--json --null", std::string("a\nb\0c", 5));
  EXPECT_EQ(count_lines_of(lines), 2u);
  EXPECT_NE(lines.find("Ċ"), std::string::npos);
}

TEST_F(TokenizeCommand, Errors) {
  expect_refused("tokenize /no/such/folder", 1, {"/no/such/folder"});
  expect_refused(words_ + "--pair", 1, {"line 1", "tab"}, "no tab\n");
  expect_refused(words_ + "--decode", 1, {"line 1", "ids"}, "12 x\n");
  expect_refused(words_ + "--max-length 1", 2, {"--max-length", "at least 2"}, "a\n");
  expect_refused(words_ + "--ids --json", 2, {"--json"});
  expect_refused("tokenize @", 1, {scratch_.path().string(), "tokenizer.json"});
  scratch_.write("tokenizer.json", "{\"model\": 3}");
  expect_refused("tokenize @/tokenizer.json", 1, {"tokenizer.json: model", "3"});
}

}  // namespace
}  // namespace qkv::testing
