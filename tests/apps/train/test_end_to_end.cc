#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/number_words.h"
#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

// From two text files to an attention page, with the commands that a user types.
class EndToEnd : public CommandTest {};

TEST_F(EndToEnd, TrainTranslateEvaluateInspectAttention) {
  const Arguments training = small_training(write_numbers(scratch_.path(), 199), path("model"));
  const Outcome train = run_qkv(
      plus(training, words("--max-steps 6 --validate-every 3 --bleu-sentences 5 --threads 1 --json")));
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_EQ(nlohmann::json::parse(train.out)["steps"], 6);

  const std::string input = "forty-two\n\none hundred one\n";
  const std::string text = output("translate @/model --threads 1", input);
  EXPECT_EQ(count_lines_of(text), 3);
  EXPECT_NE(text.find("\n\n"), std::string::npos) << "an empty line stays one: " << text;
  EXPECT_EQ(output("translate @/model --threads 2 --batch-tokens 1", input), text);

  scratch_.write("src", input);
  scratch_.write("ref", "zweiundvierzig\n\neinhunderteins\n");
  const Outcome evaluated =
      run("evaluate translation @/model --src @/src --ref @/ref --save-output @/saved --threads 1");
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(content("saved"), text);
  EXPECT_EQ(evaluated.out, output("bleu @/saved @/ref"));
  expect_parts(evaluated.err, {"3 lines in"});

  int64_t numbers = 0;
  const io::SafetensorsFile weights(scratch_ / "model/model.safetensors");
  models::load_transformer(scratch_ / "model")->visit([&](const std::string& name, const nn::Parameter&) {
    numbers += weights.shape(name).numel();
  });
  EXPECT_EQ(result("inspect @/model")["parameters"], numbers);

  for (const char* name : {"attention.html", "attention.svg", "attention.json"}) {
    const Outcome drawn =
        run(concat("attention @/model --source forty-two --target zweiundvierzig --out @/", name));
    ASSERT_EQ(drawn.status, 0) << drawn.err;
    expect_parts(drawn.err, {path(name)});
    EXPECT_GT(fs::file_size(path(name)), 1000);
  }
  EXPECT_EQ(json_file("attention.json")["layers"].size(), 6);  // two per part
  EXPECT_EQ(content("attention.html").find("http://"), std::string::npos);
}

TEST(Demo, TrainsOnceAndIsUsedAgain) {
  const Scratch scratch;
  const std::string folder = (scratch / "demo").string();
  const std::vector<std::string> arguments = {"demo",  "--out",     folder,      "--steps", "2",
                                              "--say", "forty-two", "--threads", "2"};
  const Outcome first = run_qkv(arguments);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.out.find("500 held-out numbers"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("forty-two"), std::string::npos);
  EXPECT_NE(first.out.find("seen in training"), std::string::npos) << "numbers below 100 always are";
  EXPECT_EQ((first.out + first.err).find('\033'), std::string::npos) << "colour in a file";
  EXPECT_GT(fs::file_size(fs::path(folder) / "attention.html"), 1000);
  EXPECT_FALSE(fs::exists(fs::path(folder) / "checkpoints"));

  std::vector<std::string> again = arguments;
  again.push_back("--json");
  const Outcome second = run_qkv(again);
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_NE(second.err.find("used again"), std::string::npos) << second.err;
  const auto result = nlohmann::json::parse(second.out);
  EXPECT_EQ(result["trained"], false);
  EXPECT_EQ(result["held_out"], 500);
  EXPECT_EQ(result["samples"].size(), 5);
  EXPECT_EQ(result["said"]["source"], "forty-two");
  EXPECT_NE(first.out.find(std::string(result["samples"][0]["reference"])), std::string::npos);

  // Another seed holds out other numbers. It does not replace the finished demo.
  again.insert(again.end(), {"--seed", "2"});
  const std::string model = read_file(fs::path(folder) / "model.safetensors");
  expect_failure(run_qkv(again), 2, {folder, "other settings", "--retrain"});
  EXPECT_EQ(read_file(fs::path(folder) / "model.safetensors"), model);
}

// Parts of a number of three digits in German order, each with its byte range in the English words.
struct NumberPart {
  std::string german;
  size_t begin, end;
};

std::vector<NumberPart> parts_of(int number) {
  const std::string english = apps::english_number(number);
  const size_t hundred = english.find(" hundred "), rest = hundred + 9;
  std::vector<NumberPart> parts = {
      {number / 100 == 1 ? "ein" : apps::german_number(number / 100), 0, hundred},
      {"hundert", hundred + 1, rest - 1}};
  const int units = number % 10, below = number % 100;
  const size_t hyphen = english.find('-');
  if (hyphen == std::string::npos) {
    parts.push_back({apps::german_number(below), rest, english.size()});
  } else {
    parts.push_back({units == 1 ? "ein" : apps::german_number(units), hyphen + 1, english.size()});
    parts.push_back({"und", hyphen, hyphen + 1});
    parts.push_back({apps::german_number(below - units), rest, hyphen});
  }
  return parts;
}

// The byte range of each token but </s> in the text.
std::vector<std::pair<size_t, size_t>> ranges_of(const nlohmann::json& tokens) {
  const std::string mark = "\u2581";
  std::vector<std::pair<size_t, size_t>> ranges;
  size_t at = 0;
  for (std::string token : tokens) {
    if (token == "</s>") break;
    if (token.starts_with(mark)) {
      if (at > 0) ++at;
      token.erase(0, mark.size());
    }
    ranges.emplace_back(at, at + token.size());
    at += token.size();
  }
  return ranges;
}

TEST(NightlyDemo, AlignsNumberWords) {
  const Scratch scratch;
  const std::string folder = (scratch / "demo").string();
  ASSERT_EQ(run_qkv({"demo", "--out", folder}).status, 0);
  std::string input;
  std::vector<int> numbers;
  for (int number = 102; number < 1000; number += 7) {
    if (number % 100 == 0) continue;
    numbers.push_back(number);
    input += apps::english_number(number) + "\n";
  }
  const Outcome outcome = run_qkv({"translate", folder, "--alignments", "--json"}, {.input = input});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::string line;
  int right = 0, tokens = 0;
  for (const int number : numbers) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto result = nlohmann::json::parse(line);
    if (result["translation"] != apps::german_number(number)) continue;
    const nlohmann::json& best = result["hypotheses"][0];
    const auto source = ranges_of(result["source_tokens"]), target = ranges_of(best["tokens"]);
    for (size_t i = 0; i < target.size(); ++i) {
      const auto position = best["alignment"][i].get<size_t>();
      bool found = false;
      size_t begin = 0;
      for (const NumberPart& part : parts_of(number)) {
        const size_t end = begin + part.german.size();
        found |= begin < target[i].second && target[i].first < end && position < source.size() &&
                 source[position].first < part.end && part.begin < source[position].second;
        begin = end;
      }
      right += found ? 1 : 0;
      ++tokens;
    }
  }
  EXPECT_GT(tokens, 300);
  EXPECT_GT(right, 0.9 * tokens) << right << " of " << tokens;
}

TEST(NightlyDemo, RetrainsWithOtherSettings) {
  const Scratch scratch;
  const std::vector<std::string> arguments = {"demo",    "--out", (scratch / "demo").string(),
                                              "--steps", "2",     "--json"};
  const Outcome first = run_qkv(arguments);
  ASSERT_EQ(first.status, 0) << first.err;
  const Outcome other = run_qkv(plus(arguments, {"--seed", "2", "--retrain"}));
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.err.find("other settings"), std::string::npos) << other.err;
  const auto result = nlohmann::json::parse(other.out);
  EXPECT_EQ(result["trained"], true);
  EXPECT_NE(result["samples"], nlohmann::json::parse(first.out)["samples"]);
}

}  // namespace
}  // namespace qkv::testing
