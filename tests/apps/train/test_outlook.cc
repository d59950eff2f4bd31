#include <gtest/gtest.h>

#include "apps/outlook.h"

namespace qkv::testing {
namespace {

using train::Metric;

// The outlook of a run whose metric had these values, at its validations' steps.
std::string outlook_of(const Metric& metric, const std::vector<std::pair<int64_t, double>>& values,
                       int64_t best_step) {
  train::TrainResult result;
  result.best_step = best_step;
  result.best_by = metric;
  for (const auto& [step, value] : values) {
    train::ValidationReport report;
    report.step = step;
    report.evaluation.loss = value;
    report.evaluation.metrics[metric.name] = value;
    result.validations.push_back(report);
  }
  return apps::outlook(result);
}

TEST(Outlook, AddsTheGainOfTheSecondHalfOnceMore) {
  EXPECT_EQ(outlook_of({"perplexity", false}, {{50, 160}, {100, 80}}, 100),
            "perplexity 80, at half the steps 160: twice the time would reach 40 at best");
  EXPECT_EQ(outlook_of({"bleu", true}, {{50, 0.125}, {100, 0.1875}}, 100),
            "BLEU 18.75, at half the steps 12.5: twice the time would reach 25 at best");
  EXPECT_EQ(outlook_of({"loss", false}, {{25, 9}, {50, 3}, {75, 2.5}, {100, 2}}, 100),
            "loss 2, at half the steps 3: twice the time would reach 1 at best");
}

TEST(Outlook, IsWithinTheMetricsRange) {
  EXPECT_EQ(outlook_of({"loss", false}, {{50, 3}, {100, 1}}, 100),
            "loss 1, at half the steps 3: twice the time would reach 0 at best");
  EXPECT_EQ(outlook_of({"perplexity", false}, {{50, 16}, {100, 2}}, 100),
            "perplexity 2, at half the steps 16: twice the time would reach 1 at best");
  EXPECT_EQ(outlook_of({"accuracy", true}, {{50, 0.5}, {100, 0.875}}, 100),
            "accuracy 0.875, at half the steps 0.5: twice the time would reach 1 at best");
}

TEST(Outlook, ComparesTheBestValueIfTheLastIsWorse) {
  EXPECT_EQ(outlook_of({"accuracy", true}, {{50, 0.75}, {90, 0.8125}, {100, 0.5}}, 90),
            "accuracy 0.8125, at half the steps 0.75: twice the time would reach 0.875 at best");
}

TEST(Outlook, AdvisesOtherMeansIfTheBestIsEarly) {
  EXPECT_EQ(outlook_of({"loss", false}, {{50, 1}, {100, 2}}, 50),
            "loss is best at step 50 of 100: more time would not help; more data, more dropout or a smaller "
            "model may");
}

TEST(Outlook, IsSilentWithoutTheFirstHalf) {
  EXPECT_EQ(outlook_of({"loss", false}, {}, 0), "");
  EXPECT_EQ(outlook_of({"loss", false}, {{80, 2}, {100, 1}}, 100), "");  // resumed
  EXPECT_EQ(outlook_of({"loss", false}, {{100, 1}}, 100),
            "one validation only: --validate-every shows whether more time would help");
}

}  // namespace
}  // namespace qkv::testing
