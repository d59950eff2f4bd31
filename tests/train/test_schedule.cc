#include <gtest/gtest.h>

#include <cmath>

#include "qkv/base/error.h"
#include "qkv/train/schedule.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::expect_contains;

TEST(Schedule, PaperRisesAndFalls) {
  const ScheduleOptions options{.kind = ScheduleKind::paper, .warmup_steps = 4000, .d_model = 512};
  // 512^-0.5 * 1 * 4000^-1.5, * 4000 * 4000^-1.5 = 4000^-0.5, * 16000^-0.5.
  EXPECT_NEAR(learning_rate(options, 1), 1.7469281e-7, 1e-13);
  EXPECT_NEAR(learning_rate(options, 4000), 6.9877124e-4, 1e-10);
  EXPECT_NEAR(learning_rate(options, 16000), 3.4938562e-4, 1e-10);
  ScheduleOptions doubled = options;
  doubled.factor = 2;
  EXPECT_DOUBLE_EQ(learning_rate(doubled, 16000), 2 * learning_rate(options, 16000));
  ScheduleOptions cold = options;
  cold.warmup_steps = 0;
  EXPECT_NEAR(learning_rate(cold, 1), 1 / std::sqrt(512.0), 1e-12);
}

TEST(Schedule, InverseSqrt) {
  const ScheduleOptions options{
      .kind = ScheduleKind::inverse_sqrt, .warmup_steps = 100, .learning_rate = 0.5f};
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.005);
  EXPECT_DOUBLE_EQ(learning_rate(options, 50), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 400), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10000), 0.05);
}

TEST(Schedule, Cosine) {
  const ScheduleOptions options{.kind = ScheduleKind::cosine,
                                .warmup_steps = 10,
                                .learning_rate = 1,
                                .minimum = 0.25f,
                                .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(options, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  EXPECT_NEAR(learning_rate(options, 35), 0.25 + 0.75 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(learning_rate(options, 60), 0.625, 1e-12);
  EXPECT_NEAR(learning_rate(options, 110), 0.25, 1e-12);
  EXPECT_NEAR(learning_rate(options, 1000), 0.25, 1e-12);
}

TEST(Schedule, Linear) {
  const ScheduleOptions options{.kind = ScheduleKind::linear,
                                .warmup_steps = 10,
                                .learning_rate = 1,
                                .minimum = 0.25f,
                                .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 30), 0.85);  // 0.25 + 0.75 * 80 / 100
  EXPECT_DOUBLE_EQ(learning_rate(options, 60), 0.625);
  EXPECT_DOUBLE_EQ(learning_rate(options, 109), 0.2575);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1000), 0.25);
  // Without warm-up and minimum: 2 * (1 - step / 8).
  const ScheduleOptions plain{
      .kind = ScheduleKind::linear, .warmup_steps = 0, .learning_rate = 2, .total_steps = 8};
  EXPECT_DOUBLE_EQ(learning_rate(plain, 1), 1.75);
  EXPECT_DOUBLE_EQ(learning_rate(plain, 6), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(plain, 8), 0);
}

TEST(Schedule, Constant) {
  const ScheduleOptions options{.kind = ScheduleKind::constant, .warmup_steps = 4, .learning_rate = 2};
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 4), 2);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1'000'000), 2);
}

// A given warm-up is kept. The maximum learning rate stays.
TEST(Schedule, AFittedWarmUpIsAtMostATenth) {
  for (const ScheduleKind kind : {ScheduleKind::paper, ScheduleKind::inverse_sqrt, ScheduleKind::cosine,
                                  ScheduleKind::linear, ScheduleKind::constant}) {
    const ScheduleOptions given{
        .kind = kind, .warmup_steps = 100, .learning_rate = 0.5f, .total_steps = 1000};
    ScheduleOptions chosen = given, fitted = given, longer = given;
    chosen.fit(87);
    EXPECT_EQ(chosen.warmup_steps, 100);
    fitted.fit_warmup = longer.fit_warmup = true;
    fitted.fit(87);
    EXPECT_EQ(fitted.warmup_steps, 8);
    EXPECT_FALSE(fitted.fit_warmup);
    EXPECT_NEAR(learning_rate(fitted, 8), learning_rate(given, 100), 1e-8);
    EXPECT_NEAR(learning_rate(fitted, 4), learning_rate(given, 50), 1e-8);
    longer.fit(1000);
    EXPECT_EQ(longer.warmup_steps, 100);
  }
}

TEST(Schedule, RefitsGoOnFromTheRateReached) {
  ScheduleOptions options{.kind = ScheduleKind::linear,
                          .warmup_steps = 10,
                          .learning_rate = 1,
                          .total_steps = 110,
                          .refits = {{{60, 160}, {110, 120}}}};
  options.validate();
  EXPECT_EQ(options.last_step(), 120);
  EXPECT_DOUBLE_EQ(learning_rate(options, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 60), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 80), 0.4);    // the half that is left takes 100 steps
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.25);  // the quarter that is left takes 10
  EXPECT_DOUBLE_EQ(learning_rate(options, 112), 0.2);
  EXPECT_NEAR(learning_rate(options, 120), 0, 1e-15);
  EXPECT_EQ(field_text(options.refits), "60:160,110:120");
  Refits read;
  parse_field("schedule.refits", "60:160,110:120", read);
  EXPECT_EQ(read, options.refits);
  for (const char* text : {"60", "60:", ":160", "60:160,", "a:b", "60:160;110:120"}) {
    testing::expect_throw<UsageError>("schedule.refits: expected STEP:STEPS,...",
                                      [&] { parse_field("schedule.refits", text, read); });
  }
  for (const Refits& wrong : {Refits{{{5, 160}}}, Refits{{{60, 60}}}, Refits{{{110, 160}}},
                              Refits{{{60, 160}, {50, 170}}}, Refits{{{60, 80}, {80, 90}}}}) {
    options.refits = wrong;
    testing::expect_throw<UsageError>("schedule.refits: expected a step from", [&] { options.validate(); });
  }
}

TEST(Schedule, NamesWhatIsWrong) {
  const auto message = [](const ScheduleOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  expect_contains(message({.warmup_steps = -1}), "warmup_steps: expected 0 or more, found -1");
  expect_contains(message({.learning_rate = -2}), "learning_rate: expected more than 0, found -2");
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::linear}) {
    EXPECT_EQ(
        message({.kind = kind, .warmup_steps = 50, .total_steps = 50}),
        "schedule.warmup_steps: expected fewer than the run's 50 steps, found 50; give fewer warm-up steps "
        "or more steps");
    EXPECT_EQ(message({.kind = kind, .warmup_steps = 0, .total_steps = 0}),
              "schedule.total_steps (or train.max_steps): expected 1 or more, found 0");
  }
  expect_contains(message({.kind = ScheduleKind::linear, .warmup_steps = 5, .minimum = 1, .total_steps = 50}),
                  "schedule.minimum: expected 0 to schedule.learning_rate = 0.001, found 1");
  EXPECT_NE(message({.kind = ScheduleKind::paper, .factor = 0}).find("schedule.factor"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
