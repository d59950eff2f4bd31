#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

class ProfileCommand : public ::testing::Test {
 protected:
  Outcome train(const std::string& folder, const std::vector<std::string>& more) const {
    std::vector<std::string> all = small_training(corpus_, (scratch_ / folder).string());
    all.insert(all.end(), {"--max-steps", "4", "--bleu-sentences", "3", "--threads", "2"});
    all.insert(all.end(), more.begin(), more.end());
    return run_qkv(all);
  }

  Scratch scratch_;
  data::CorpusFiles corpus_ = write_numbers(scratch_.path(), 99);
};

TEST_F(ProfileCommand, TrainingSaysWhereTheTimeWentAndIsTheSame) {
  const Outcome profiled = train("profiled", {"--profile", "--json"});
  ASSERT_EQ(profiled.status, 0) << profiled.err;
  const auto profile = nlohmann::json::parse(profiled.out)["profile"];
  std::set<std::string> names;
  double share = 0;
  uint64_t macs = 0;
  for (const auto& entry : profile["operations"]) {
    const std::string direction = entry["direction"], operation = entry["operation"];
    names.insert(direction == "backward" ? operation + ", backward" : operation);
    share += entry["share"].get<double>();
    macs += entry["macs"].get<uint64_t>();
  }
  for (const char* name : {"linear", "linear, backward", "attention", "attention, backward", "cross_entropy",
                           "residual_layer_norm", "embedding, backward", "optimizer", "packing", "data",
                           "validation", "checkpoint", "other"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_NEAR(share, 1, 0.02) << "no more and no less than the time there was";
  EXPECT_EQ(profile["total"]["macs"], macs);
  EXPECT_GT(profile["total"]["of_peak"], 0);
  bool found = false;
  for (const auto& entry : profile["modules"])
    found = found || entry.value("module", "") == "encoder.layers.0.self_attn";
  EXPECT_TRUE(found);

  const auto& memory = profile["peak_memory"];
  size_t sum = 0;
  for (const char* use : {"activations", "weights", "gradients", "optimizer", "packed weights", "scratch"})
    sum += memory[use].get<size_t>();
  EXPECT_EQ(memory["all"], sum);
  // Two moments and an average for each weight.
  EXPECT_NEAR(memory["optimizer"].get<double>(), 3 * memory["weights"].get<double>(),
              0.1 * memory["optimizer"].get<double>());
  EXPECT_GT(memory["process"], memory["all"]);

  const Outcome plain = train("plain", {});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(read_file(scratch_ / "plain" / "model.safetensors"),
            read_file(scratch_ / "profiled" / "model.safetensors"));
}

TEST_F(ProfileCommand, PrintsTablesAndSavesBatches) {
  const std::string batches = (scratch_ / "batches.jsonl").string();
  const Outcome trained = train("model", {"--profile", "--save-batches", batches});
  ASSERT_EQ(trained.status, 0) << trained.err;
  // A use without a byte at the peak has no row: whether weights were packed then depends on the processor.
  for (const char* part : {"time by operation", "linear, backward", "of bandwidth", "peak memory",
                           "activations", "weights", "gradients", "optimizer", "total", "the process"})
    EXPECT_NE(trained.out.find(part), std::string::npos) << part << trained.out;
  EXPECT_EQ(trained.out.find('\033'), std::string::npos) << "colour in a file";

  size_t all = 0, lines = 0;
  std::istringstream text(read_file(batches));
  for (std::string line; std::getline(text, line); ++lines) {
    const auto batch = nlohmann::json::parse(line);
    EXPECT_EQ(batch["source"].size(), batch["target"].size());
    size_t tokens = 0;
    for (const char* side : {"source", "target"}) {
      for (const auto& sentence : batch[side]) {
        tokens += sentence.size();
        EXPECT_EQ(sentence.back(), 0) << "each ends with </s>";
      }
    }
    EXPECT_LE(tokens, 600);
    all += tokens;
  }
  EXPECT_EQ(lines, 4);
  EXPECT_GT(all, 1000);

  const std::string model = (scratch_ / "model").string();
  const RunOptions input{.input = "forty-two\none\n"};
  const Outcome translated = run_qkv({"translate", model, "--profile", "--threads", "1"}, input);
  ASSERT_EQ(translated.status, 0) << translated.err;
  EXPECT_EQ(translated.out, run_qkv({"translate", model}, input).out);
  for (const char* part : {"time by operation", "attention", "search", "cache", "tokenizing", "total"})
    EXPECT_NE(translated.err.find(part), std::string::npos) << part << translated.err;
  EXPECT_EQ(translated.err.find("backward"), std::string::npos) << translated.err;
  const Outcome json = run_qkv({"translate", model, "--profile", "--json"}, input);
  EXPECT_GT(nlohmann::json::parse(json.err)["total"]["macs"], 0) << json.err;
}

TEST_F(ProfileCommand, BatchesThatCannotBeWritten) {
  expect_failure(train("model", {"--save-batches", (scratch_ / "no" / "such" / "folder").string()}), 1,
                 {"cannot write", "no/such/folder"});
}

}  // namespace
}  // namespace qkv::testing
