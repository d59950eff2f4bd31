#include <gtest/gtest.h>

#include <set>

#include "qkv/base/error.h"
#include "qkv/train/options.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::message_of;

TEST(TrainOptions, EveryFieldIsSetByItsOwnText) {
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 7, .learning_rate = 0.1f};
  options.adam.epsilon = 1e-7f;
  options.max_minutes = 1.5;
  options.seed = 18446744073709551615u;
  options.best_by = EarlyStopMetric::loss;
  TrainOptions copy;
  EXPECT_NE(fields(copy), fields(options));
  std::set<std::string> names;
  for (const auto& [name, value] : fields(options)) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(set_field(copy, name, value)) << name;
  }
  EXPECT_EQ(fields(copy), fields(options));
  EXPECT_EQ(copy.adam.epsilon, 1e-7f);
  EXPECT_EQ(copy.schedule.kind, ScheduleKind::cosine);
  EXPECT_EQ(copy.seed, options.seed);
}

TEST(TrainOptions, RefusesWhatItCannotRead) {
  TrainOptions options;
  EXPECT_FALSE(set_field(options, "batch_toks", "5"));
  for (const char* bad : {"", "5x", "1e3", "x", " 5", "99999999999999999999"})
    EXPECT_NE(message_of<UsageError>([&] { set_field(options, "batch_tokens", bad); }).find("batch_tokens"),
              std::string::npos)
        << bad;
  EXPECT_THROW(set_field(options, "label_smoothing", "nan"), UsageError);
  EXPECT_NE(message_of<UsageError>([&] {
              set_field(options, "schedule", "linear");
            }).find("paper, inverse_sqrt, cosine, constant"),
            std::string::npos);
}

TEST(TrainOptions, ValidateNamesTheOption) {
  TrainOptions good;
  EXPECT_NE(message_of<UsageError>([&] { good.validate(); }).find("max_steps"), std::string::npos);
  good.max_steps = 10;
  EXPECT_NO_THROW(good.validate());
  const std::pair<const char*, const char*> bad[] = {
      {"batch_tokens", "0"},     {"accumulate", "0"},    {"label_smoothing", "1"}, {"clip_norm", "-1"},
      {"average_decay", "1"},    {"average_last", "3"},  {"max_steps", "-1"},      {"patience", "-1"},
      {"keep_checkpoints", "0"}, {"log_every", "0"},     {"bleu_beam", "0"},       {"beta2", "1"},
      {"epsilon", "0"},          {"learning_rate", "0"}, {"warmup_steps", "-3"}};
  for (const auto& [name, value] : bad) {
    TrainOptions options = good;
    ASSERT_TRUE(set_field(options, name, value)) << name;
    EXPECT_NE(message_of<UsageError>([&] { options.validate(); }).find(name), std::string::npos) << name;
  }
  TrainOptions cosine = good;
  cosine.schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 5};
  EXPECT_NO_THROW(cosine.validate()) << "its length is max_steps";
  cosine.max_steps = 5;
  EXPECT_THROW(cosine.validate(), UsageError);
}

TEST(TrainOptions, OnlyLimitsAndBookkeepingMayChange) {
  for (const char* name : {"max_steps", "max_minutes", "patience", "checkpoint_every", "log_every"})
    EXPECT_TRUE(may_change(name)) << name;
  for (const char* name :
       {"batch_tokens", "seed", "learning_rate", "schedule_steps", "average_decay", "d_model"})
    EXPECT_FALSE(may_change(name)) << name;
}

}  // namespace
}  // namespace qkv::train
