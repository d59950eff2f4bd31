// --config: options from a TOML file.

#include <nlohmann/json.hpp>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class ConfigFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const { return scratch_.write("options.toml", text).string(); }
  // `qkv inspect --json` with this file and these options.
  Outcome inspect(const std::string& text, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"inspect", "--config", write(text)};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_qkv(arguments);
  }
  static json described(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out);
  }

  Scratch scratch_;
};

TEST_F(ConfigFile, IsAsIfItsOptionsWereGiven) {
  const Outcome given = run_qkv({"inspect", "--preset", "tiny", "--batch", "3", "--set", "d_ff=64", "--set",
                                 "encoder_layers=1", "--dtype", "bf16", "--json"});
  ASSERT_EQ(given.status, 0) << given.err;
  const Outcome read = inspect(R"(# all kinds of values
preset = "tiny"      # a "basic" string
batch = 3
set = ['d_ff=64',
       "encoder_layers=1",  # over two lines
]
dtype = 'bf16'
json = true
)");
  EXPECT_EQ(read.out, given.out) << read.err;
}

TEST_F(ConfigFile, LosesToTheCommandLine) {
  const std::string file = "layer = \"attention\"\nheads = 2\nd_model = 64\njson = true\n";
  EXPECT_EQ(described(inspect(file))["heads"], 2);
  EXPECT_EQ(described(inspect(file))["d_model"], 64) << "an underscore is a dash";
  const json other = described(inspect(file, {"--heads", "4"}));
  EXPECT_EQ(other["heads"], 4);
  EXPECT_EQ(other["d_model"], 64);
  EXPECT_EQ(described(run_qkv({"--config", write(file), "inspect", "--heads", "8"}))["heads"], 8)
      << "before the command, too";
}

TEST_F(ConfigFile, MayHaveTablesForSeveralCommands) {
  const std::string file = R"([train.translation]
threads = 0
[inspect]
layer = "attention"
json = true
heads = 2
)";
  EXPECT_EQ(described(inspect(file))["heads"], 2);
}

TEST_F(ConfigFile, SuppliesArgumentsAndWhatIsRequired) {
  const std::string two = scratch_.write("two", "a b c d\n").string();
  const Outcome given = run_qkv({"bleu", two, two});
  ASSERT_EQ(given.status, 0) << given.err;
  const Outcome read =
      run_qkv({"bleu", "--config", write(concat("HYP = '", two, "'\nREF = ['", two, "']\n"))});
  EXPECT_EQ(read.out, given.out) << read.err;
}

TEST_F(ConfigFile, RefusesWhatItDoesNotKnowByNameAndLine) {
  const auto expect = [&](const std::string& text, const std::string& message) {
    expect_failure(inspect(text), 2, {concat("qkv: ", (scratch_ / "options.toml").string(), ":", message)});
  };
  expect("layer = \"attention\"\nhead = 2\n",
         "2: expected an option of qkv inspect, found 'head'; did you mean 'heads'?");
  expect("[inspct]\nheads = 2\n", "2: expected a command of qkv, found [inspct]; did you mean 'inspect'?");
  expect("[translate]\nbem = 2\n",
         "2: expected an option of qkv translate, found 'bem'; did you mean 'beam'?");
  expect("config = 'other'\n", "1: expected an option of qkv inspect, found 'config'");
  expect("heads\n", "1: expected '=' after heads, found the end of the line");
  expect("heads = two\n", "1: expected a string in quotes, a number, true or false, found 'two'");
  expect("heads = 1\n\nheads = 2\n", "3: expected the key heads once, found it again");
  expect("preset = \"tiny\n", "1: expected \" at the end of the string, found none");
  expect("set = [\"a=1\" \"b=2\"]\n", "1: expected ',' or ']', found '\"b=2\"]'");
  expect("heads = 2 3\n", "1: expected the line's end, found '3'");
  expect("[inspect\n", "1: expected ']' after the table's name, found the end of the line");
  expect_failure(run_qkv({"inspect", "--config", scratch_.path().string()}), 2,
                 {"--config: expected a file, found the folder "});
}

TEST_F(ConfigFile, RefusesBadValuesAsTheCommandLineDoes) {
  expect_failure(inspect("layer = \"attention\"\nheads = 2.5\n"), 2,
                 {"qkv: --heads: expected a whole number, found '2.5'"});
  expect_failure(inspect("layer = \"atention\"\n"), 2, {"did you mean 'attention'?"});
  expect_failure(inspect("layer = \"attention\"\nheads = 7\n"), 2, {"7 heads"});
  const std::string missing = (scratch_ / "missing.toml").string();
  expect_failure(run_qkv({"inspect", "--config", missing}), 2, {missing});
  expect_failure(run_qkv({"inspect", "--config"}), 2, {"qkv: --config: expected FILE after it, found none"});
}

}  // namespace
}  // namespace qkv::testing
