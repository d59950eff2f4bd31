// `qkv shortlist`, and translation with the learned shortlist.

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

TEST(ShortlistCommand, TranslationsHoldWhatTheShortlistAllows) {
  const Scratch scratch;
  const std::string model = (scratch / "model").string(), file = (scratch / "shortlist").string();
  write_random_model(model, scratch.path());
  scratch.write("short.en", "five\nsix\nfive\n");
  scratch.write("short.de", "f\xc3\xbcnf\nsechs\nf\xc3\xbcnf\n");
  const std::vector<std::string> learn{"shortlist",
                                       "--model",
                                       model,
                                       "--src",
                                       (scratch / "short.en").string(),
                                       "--tgt",
                                       (scratch / "short.de").string()};
  const auto with = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Outcome learned = run_qkv(with(learn, {"--out", file, "--frequent", "1"}));
  ASSERT_EQ(learned.status, 0) << learned.err;
  EXPECT_NE(learned.err.find("3 pairs"), std::string::npos) << learned.err;

  const text::TranslationTokenizer tokenizer = text::TranslationTokenizer::load(model);
  std::set<std::string> pieces{"</s>"};
  for (const char* word : {"f\xc3\xbcnf", "sechs"}) {
    for (const int32_t id : tokenizer.encode_target(word))
      pieces.emplace(tokenizer.piece(id, text::Side::target));
  }
  const std::vector<std::string> translate{"translate", model, "--max-new-tokens", "7", "--json", "--scores"};
  const std::string input = "five\nsix\nfive six\nnine hundred\n";
  const Outcome free = run_qkv(translate, {.input = input});
  const Outcome bound = run_qkv(with(translate, {"--shortlist", file}), {.input = input});
  ASSERT_EQ(bound.status, 0) << bound.err;
  EXPECT_NE(bound.out, free.out);
  std::istringstream lines(bound.out);
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line);
    for (const std::string token : object["hypotheses"][0]["tokens"])
      EXPECT_EQ(pieces.count(token), 1u) << token;
  }
  expect_failure(run_qkv(with(translate, {"--shortlist", (scratch / "none").string()})), 1, {"none"});
  scratch.write("shortlist", "not a shortlist");
  expect_failure(run_qkv(with(translate, {"--shortlist", file})), 1, {file});
  expect_failure(run_qkv(with(learn, {"--out", file, "--per-token", "0"})), 2, {"--per-token", "0"});
  expect_failure(run_qkv(with(learn, {"--out", file, "--max-lines", "0"})), 2, {"--max-lines", "0"});
}

}  // namespace
}  // namespace qkv::testing
