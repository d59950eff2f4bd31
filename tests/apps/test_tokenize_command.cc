// qkv tokenize, run as by a user.

#include <nlohmann/json.hpp>

#include "tests/apps/run.h"

namespace {

using nlohmann::json;
using qkv::testing::expect_failure;
using qkv::testing::Outcome;
using qkv::testing::run_qkv;
using qkv::testing::Scratch;

const std::string kFolder = std::string(QKV_TEST_DATA) + "/text/golden/";

TEST(TokenizeCommand, PiecesIdsAndBack) {
  const std::string file = kFolder + "byte_level.json";
  const std::string text = "Hello, wörld\r\n\n two  words 👍🏽\n";
  const Outcome pieces = run_qkv({"tokenize", file, "--no-special-tokens"}, {.input = text});
  EXPECT_EQ(pieces.status, 0) << pieces.err;
  EXPECT_EQ(pieces.err, "");
  EXPECT_TRUE(pieces.out.starts_with("ĠH")) << pieces.out;
  const Outcome ids = run_qkv({"tokenize", file, "--ids"}, {.input = text});
  EXPECT_EQ(ids.out.substr(ids.out.find('\n') + 1, 4), "0 2\n") << ids.out;  // the empty line: <s> </s>
  const Outcome back = run_qkv({"tokenize", file, "--decode"}, {.input = ids.out});
  EXPECT_EQ(back.out, " Hello, wörld\n\n two  words 👍🏽\n") << back.err;
  const Outcome special = run_qkv({"tokenize", file, "--decode", "--special-tokens"}, {.input = "0 2\n"});
  EXPECT_EQ(special.out, "<s></s>\n");
}

TEST(TokenizeCommand, JsonOfPairs) {
  const Outcome outcome =
      run_qkv({"tokenize", kFolder + "wordpiece.json", "--json", "--pair"}, {.input = "The fox\té b\n"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json found = json::parse(outcome.out);
  EXPECT_EQ(found["ids"][0], 2);
  EXPECT_EQ(found["tokens"][0], "[CLS]");
  const size_t tokens = found["ids"].size();
  for (const char* key : {"tokens", "offsets", "type_ids", "special_mask", "text_index"}) {
    EXPECT_EQ(found[key].size(), tokens) << key;
  }
  EXPECT_EQ(found["offsets"][tokens - 3], json({0, 2}));  // é is two bytes
  EXPECT_EQ(found["type_ids"].back(), 1);
  EXPECT_EQ(found["text_index"][tokens - 2], 1);
}

TEST(TokenizeCommand, NullEndsTextsThatAreDecodedToo) {
  const std::string ids("5 6\0007 8\0", 8);
  const Outcome lines =
      run_qkv({"tokenize", kFolder + "byte_level.json", "--decode"}, {.input = "5 6\n7 8\n"});
  std::string expected = lines.out;
  std::ranges::replace(expected, '\n', '\0');
  const Outcome outcome =
      run_qkv({"tokenize", kFolder + "byte_level.json", "--decode", "-0"}, {.input = ids});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, expected);
  EXPECT_EQ(std::ranges::count(outcome.out, '\0'), 2);
}

TEST(TokenizeCommand, TextsWithLinesInThem) {
  const std::string input("a\nb\0c", 5);
  const Outcome outcome =
      run_qkv({"tokenize", kFolder + "byte_level.json", "--decode", "--json"}, {.input = "5 6"});
  EXPECT_EQ(json::parse(outcome.out).size(), 1u);
  const Outcome lines =
      run_qkv({"tokenize", kFolder + "byte_level.json", "--json", "--null"}, {.input = input});
  EXPECT_EQ(qkv::testing::count_lines_of(lines.out), 2u);
  EXPECT_NE(lines.out.find("Ċ"), std::string::npos);
}

TEST(TokenizeCommand, Errors) {
  const std::string file = kFolder + "wordpiece.json";
  expect_failure(run_qkv({"tokenize", "/no/such/folder"}), 1, {"/no/such/folder"});
  expect_failure(run_qkv({"tokenize", file, "--pair"}, {.input = "no tab\n"}), 1, {"line 1", "tab"});
  expect_failure(run_qkv({"tokenize", file, "--decode"}, {.input = "12 x\n"}), 1, {"line 1", "ids"});
  expect_failure(run_qkv({"tokenize", file, "--max-length", "1"}, {.input = "a\n"}), 2,
                 {"--max-length", "at least 2"});
  expect_failure(run_qkv({"tokenize", file, "--ids", "--json"}), 2, {"--json"});
  const Scratch folder;
  expect_failure(run_qkv({"tokenize", folder.path().string()}), 1,
                 {folder.path().string(), "tokenizer.json"});
  expect_failure(run_qkv({"tokenize", folder.write("tokenizer.json", "{\"model\": 3}").string()}), 1,
                 {"tokenizer.json: model", "3"});
}

}  // namespace
