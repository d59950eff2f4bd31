// The selection of the best weights, with a task of predefined metrics.

#include <gtest/gtest.h>

#include "qkv/base/files.h"
#include "qkv/train/trainer.h"
#include "tests/support/scratch.h"
#include "tests/train/character_task.h"

namespace qkv::train {
namespace {

using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct Said {
  double loss;
  std::optional<double> score;
};

class ScriptedTask : public CharacterTask {
 public:
  ScriptedTask(std::vector<Said> script, Metric metric)
      : CharacterTask("abcabdabeabcabdabe abcabdabeabcabdabe", "abcabdabeabcabdabe abcabdabeabc",
                      {.length = 8}),
        script_(std::move(script)),
        metric_(std::move(metric)) {}
  std::vector<Metric> metrics() const override { return {metric_}; }
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override {
    const Said& said = script_.at(static_cast<size_t>(request.number));
    Evaluation result{.loss = said.loss, .metrics = {}};
    if (said.score) result.metrics[metric_.name] = *said.score;
    return result;
  }

 private:
  std::vector<Said> script_;
  Metric metric_;
};

TrainResult train_script(const std::filesystem::path& folder, std::vector<Said> script, TrainOptions options,
                         Metric metric = {.name = "score", .higher_is_better = true}) {
  options.max_steps = std::ssize(script);
  options.validate_every = 1;
  Trainer trainer(std::make_unique<ScriptedTask>(std::move(script), std::move(metric)), options, folder,
                  IfRunExists::resume);
  TrainObserver quiet;
  return trainer.run(quiet);
}

TEST(Best, IsTheHighestMetricAndAmongEqualsTheLowestLoss) {
  const Scratch scratch;
  EXPECT_EQ(train_script(scratch / "a", {{3, 0.1}, {2, 0.4}, {1, 0.3}}, {}).best_step, 2);
  // A metric that stays 0 must not keep the first model.
  const TrainResult ties = train_script(scratch / "b", {{3, 0.0}, {2, 0.0}, {1, 0.0}, {1.5, 0.0}}, {});
  EXPECT_EQ(ties.best_step, 3);
  EXPECT_EQ(ties.best, (std::map<std::string, double>{{"loss", 1}, {"score", 0}}));
  EXPECT_EQ(train_script(scratch / "c", {{1, 4.0}, {2, 3.0}, {3, 3.5}}, {},
                         {.name = "perplexity", .higher_is_better = false})
                .best_step,
            2);
  TrainOptions by_loss;
  by_loss.best_by = "loss";
  EXPECT_EQ(train_script(scratch / "d", {{3, 0.9}, {2, 0.4}, {2.5, 0.3}}, by_loss).best_step, 2);
}

TEST(Best, PatienceCountsValidationsThatHaveTheMetric) {
  const Scratch scratch;
  TrainOptions patient;
  patient.patience = 2;
  // Falling losses count as progress if the metric does not change.
  EXPECT_EQ(train_script(scratch / "a", {{4, 0.0}, {3, 0.0}, {2, 0.0}, {1, 0.0}}, patient).steps, 4);
  const TrainResult result = train_script(
      scratch / "b", {{4, 0.5}, {3, std::nullopt}, {3, 0.4}, {3, std::nullopt}, {3, 0.3}, {3, 0.9}}, patient);
  EXPECT_EQ(result.reason, StopReason::no_improvement);
  EXPECT_EQ(result.steps, 5);
  EXPECT_EQ(result.best_step, 1);
}

// The deciding metric may change on resuming: each is compared with its own values.
TEST(Best, AnotherMetricIsComparedWithItself) {
  const Scratch scratch;
  TrainOptions options;
  train_script(scratch / "a", {{3, 0.9}, {2, 0.1}}, options);
  options.best_by = "loss";
  const TrainResult worse = train_script(scratch / "a", {{0, 0}, {0, 0}, {3.5, std::nullopt}}, options);
  EXPECT_EQ(worse.best_step, 1);
  const TrainResult better =
      train_script(scratch / "a", {{0, 0}, {0, 0}, {0, 0}, {2.5, std::nullopt}}, options);
  EXPECT_EQ(better.best_step, 4);
  options.best_by = "score";
  const TrainResult back = train_script(scratch / "a", {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {9, 0.2}}, options);
  EXPECT_EQ(back.best_step, 5) << "the best so far has no such metric";
}

// The validation at the end of a run is not part of what a longer run would know: neither is its model.
TEST(Best, TheEndsValidationDoesNotChangeALongerRun) {
  const Scratch scratch;
  const std::vector<Said> script{{3, 0.5}, {2, 0.4}, {1, 0.3}, {1, 0.2}};
  const auto run = [&](const char* folder, std::vector<Said> said, int64_t steps) {
    TrainOptions options;
    options.max_steps = steps;
    options.validate_every = 2;
    TrainObserver quiet;
    return Trainer(std::make_unique<ScriptedTask>(std::move(said), Metric{.name = "score"}), options,
                   scratch / folder, IfRunExists::resume)
        .run(quiet);
  };
  EXPECT_EQ(run("whole", script, 6).best_step, 2);
  // After step 3 an additional validation finds a better score.
  EXPECT_EQ(run("part", {{3, 0.5}, {0, 0.9}}, 3).best_step, 3);
  const std::string at_end = read_file(scratch / "part/model.safetensors");
  EXPECT_NE(at_end, read_file(scratch / "whole/model.safetensors"));
  EXPECT_EQ(run("part", script, 6).best_step, 2);
  EXPECT_EQ(read_file(scratch / "part/model.safetensors"), read_file(scratch / "whole/model.safetensors"));
  for (const char* name : {"log.jsonl", "curve.svg"})
    EXPECT_EQ(read_file(scratch / "part" / name), read_file(scratch / "whole" / name)) << name;
}

}  // namespace
}  // namespace qkv::train
