// `qkv shortlist`, and translation with the learned shortlist.

#include <nlohmann/json.hpp>
#include <set>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

class ShortlistCommand : public CommandTest {};

TEST_F(ShortlistCommand, TranslationsHaveOnlyTokensOfTheShortlist) {
  write_random_model(scratch_ / "model", scratch_.path());
  scratch_.write("short.en", "five\nsix\nfive\n");
  scratch_.write("short.de", "f\xc3\xbcnf\nsechs\nf\xc3\xbcnf\n");
  const std::string learn = "shortlist --model @/model --src @/short.en --tgt @/short.de --out @/shortlist ";
  const Outcome learned = run(learn + "--frequent 1");
  ASSERT_EQ(learned.status, 0) << learned.err;
  expect_parts(learned.err, {"3 pairs"});

  const text::TranslationTokenizer tokenizer = text::TranslationTokenizer::load(scratch_ / "model");
  std::set<std::string> pieces{"</s>"};
  for (const char* word : {"f\xc3\xbcnf", "sechs"}) {
    for (const int32_t id : tokenizer.encode_target(word))
      pieces.emplace(tokenizer.piece(id, text::Side::target));
  }
  const std::string translate = "translate @/model --max-new-tokens 7 --json --scores";
  const std::string input = "five\nsix\nfive six\nnine hundred\n";
  const std::string bound = output(translate + " --shortlist @/shortlist", input);
  EXPECT_NE(bound, output(translate, input));
  for (const nlohmann::json& object : json_lines(bound)) {
    for (const std::string token : object["hypotheses"][0]["tokens"])
      EXPECT_EQ(pieces.count(token), 1u) << token;
  }
  expect_refused(translate + " --shortlist @/none", 1, {"none"});
  scratch_.write("shortlist", "not a shortlist");
  expect_refused(translate + " --shortlist @/shortlist", 1, {path("shortlist")});
  expect_refused(learn + "--per-token 0", 2, {"--per-token", "0"});
  expect_refused(learn + "--max-lines 0", 2, {"--max-lines", "0"});
}

}  // namespace
}  // namespace qkv::testing
