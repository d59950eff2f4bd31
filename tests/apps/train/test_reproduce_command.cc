// qkv reproduce table3, run as by a user, on generated number words.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

class ReproduceCommand : public ::testing::Test {
 protected:
  ReproduceCommand() {
    std::filesystem::create_directories(scratch_ / "data");
    const data::CorpusFiles corpus = write_numbers(scratch_.path(), 99);
    for (const char* part : {"train", "val"}) {
      std::filesystem::copy_file(corpus.source, scratch_ / concat("data/", part, ".en"));
      std::filesystem::copy_file(corpus.target, scratch_ / concat("data/", part, ".de"));
    }
  }
  std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"reproduce", "table3", "--out", path(out)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> small(const std::string& out, const std::vector<std::string>& more = {},
                                 const std::string& rows = "C-N2,E", const std::string& scale = "16") const {
    std::vector<std::string> all =
        command(out, {"--data", path("data"), "--scale", scale, "--steps", "3", "--warmup-steps", "2",
                      "--batch-tokens", "200", "--rows", rows, "--seeds", "2"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }

  Scratch scratch_;
};

TEST_F(ReproduceCommand, OutOfTimeContinuesWithoutOptionsToTheSameTable) {
  const Outcome whole = run_qkv(small("whole", {"--threads", "2", "--runs-at-once", "2"}));
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.out.find("learned positions"), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("6.11"), std::string::npos) << "the paper's perplexity of N = 2: " << whole.out;
  EXPECT_NE(whole.out.find("rows are on the same side of base as in the paper"), std::string::npos)
      << whole.out;
  EXPECT_NE(whole.err.find("run 6 of 6, E-learned, seed 2: perplexity "), std::string::npos) << whole.err;
  EXPECT_EQ(whole.err.find('\r'), std::string::npos) << "not a terminal";

  const Outcome stopped = run_qkv(small("part", {"--max-minutes", "0.00001"}));
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_NE(
      stopped.err.find("the time is over after 0 of 6 runs; continue with: qkv reproduce table3 --out "),
      std::string::npos)
      << stopped.err;
  const Outcome rest = run_qkv(command("part", {"--quiet", "--runs-at-once", "1"}));
  EXPECT_EQ(rest.status, 0);
  EXPECT_EQ(rest.err.find("run 1 of"), std::string::npos) << rest.err;
  EXPECT_EQ(rest.out, whole.out);
  for (const char* name : {"table3.md", "table3.tsv", "table3.svg"})
    EXPECT_EQ(read_file(scratch_ / "part" / name), read_file(scratch_ / "whole" / name)) << name;

  const Outcome as_json = run_qkv(command("part", {"--json", "--quiet"}));
  ASSERT_EQ(as_json.status, 0) << as_json.err;
  const auto table = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(table["finished"], true);
  EXPECT_EQ(table["runs"], 6);
  ASSERT_EQ(table["rows"].size(), 3u);
  const auto& shallow = table["rows"][1];
  EXPECT_EQ(shallow["row"], "C-N2");
  EXPECT_EQ(shallow["paper"]["parameters"], 36'000'000);
  const double mean = (shallow["runs"][0]["log_perplexity"].get<double>() +
                       shallow["runs"][1]["log_perplexity"].get<double>()) /
                      2;
  EXPECT_NEAR(shallow["log_perplexity"]["mean"].get<double>(), mean, 1e-12);
  EXPECT_GT(shallow["log_perplexity"]["half_width"].get<double>(), 0);
  EXPECT_TRUE(table["rows"][2]["log_perplexity"]["order_as_in_paper"].is_null()) << "4.92, as base";
}

TEST_F(ReproduceCommand, ErrorsNameTheOption) {
  expect_failure(run_qkv(command("out", {})), 2, {"--data: expected a folder with train.en"});
  expect_failure(run_qkv(small("out", {}, "A,Z9")), 2,
                 {"--rows: expected some of base, A, A-h1", "found 'Z9'"});
  expect_failure(run_qkv(small("out", {}, "A", "3")), 2, {"--scale: expected 1, 2, 4, 8 or 16"});
  expect_failure(run_qkv(small("out", {"--runs-at-once", "-1"})), 2,
                 {"--runs-at-once: expected 0 or more, found -1"});
  std::filesystem::remove(scratch_ / "data/val.de");
  expect_failure(run_qkv(small("out")), 1, {"--data", "found no val.de"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
}

}  // namespace
}  // namespace qkv::testing
