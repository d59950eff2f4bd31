#include <nlohmann/json.hpp>

#include "qkv/io/safetensors.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

// From two text files to an attention page, with the commands that a user types.
TEST(EndToEnd, TrainTranslateEvaluateInspectAttention) {
  const Scratch scratch;
  const data::CorpusFiles corpus = write_numbers(scratch.path(), 199);
  const std::string model = (scratch / "model").string();
  std::vector<std::string> training = small_training(corpus, model);
  training.insert(training.end(), {"--max-steps", "6", "--validate-every", "3", "--bleu-sentences", "5",
                                   "--threads", "1", "--json"});
  const Outcome train = run_qkv(training);
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_EQ(nlohmann::json::parse(train.out)["steps"], 6);

  const std::string input = "forty-two\n\none hundred one\n";
  const Outcome text = run_qkv({"translate", model, "--threads", "1"}, {.input = input});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(count_lines_of(text.out), 3);
  EXPECT_NE(text.out.find("\n\n"), std::string::npos) << "an empty line stays one: " << text.out;
  const Outcome two =
      run_qkv({"translate", model, "--threads", "2", "--batch-tokens", "1"}, {.input = input});
  EXPECT_EQ(two.out, text.out) << "threads and batches change nothing";

  const std::string saved = (scratch / "saved").string(), source = scratch.write("src", input).string();
  const std::string reference = scratch.write("ref", "zweiundvierzig\n\neinhunderteins\n").string();
  const Outcome evaluated = run_qkv({"evaluate", "translation", model, "--src", source, "--ref", reference,
                                     "--save-output", saved, "--threads", "1"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(read_file(saved), text.out);
  EXPECT_EQ(evaluated.out, run_qkv({"bleu", saved, reference}).out);
  EXPECT_NE(evaluated.err.find("3 lines in"), std::string::npos) << evaluated.err;

  const Outcome inspected = run_qkv({"inspect", model, "--json"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  int64_t numbers = 0;
  const io::SafetensorsFile weights(fs::path(model) / "model.safetensors");
  models::load_transformer(model)->visit(
      [&](const std::string& name, const nn::Parameter&) { numbers += weights.shape(name).numel(); });
  EXPECT_EQ(nlohmann::json::parse(inspected.out)["parameters"], numbers);

  for (const char* name : {"attention.html", "attention.svg", "attention.json"}) {
    const std::string path = (scratch / name).string();
    const Outcome drawn =
        run_qkv({"attention", model, "--source", "forty-two", "--target", "zweiundvierzig", "--out", path});
    ASSERT_EQ(drawn.status, 0) << drawn.err;
    EXPECT_NE(drawn.err.find(path), std::string::npos);
    EXPECT_GT(fs::file_size(path), 1000);
  }
  const auto report = nlohmann::json::parse(read_file(scratch / "attention.json"));
  EXPECT_EQ(report["layers"].size(), 6);  // two per part
  EXPECT_EQ(read_file(scratch / "attention.html").find("http://"), std::string::npos);
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
