#include <gtest/gtest.h>

#include <map>

#include "qkv/base/error.h"
#include "qkv/train/tasks/lm/lm.h"
#include "qkv/train/tasks/translation/translation.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::message_of;

std::map<std::string, std::string> values(const std::vector<Field>& fields) {
  std::map<std::string, std::string> result;
  for (const Field& field : fields) EXPECT_TRUE(result.emplace(field.name, field.value).second) << field.name;
  return result;
}

// Every setting of a job has one name with a namespace, and survives writing and reading.
TEST(TrainFields, EachIsSetByItsOwnText) {
  TranslationJob job;
  job.config = models::preset("big");
  job.config.epsilon = 1e-7f;
  job.config.dropout = 0.123456789f;
  job.options.schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 7, .learning_rate = 0.1f};
  job.options.adam.epsilon = 3e-10f;
  job.options.optimizer_kind = OptimizerKind::rmsprop;
  job.options.rmsprop.epsilon = 1.00000012e-3f;
  job.options.max_minutes = 1.0 / 3;
  job.options.seed = 18446744073709551615u;
  job.options.best_by = "loss";
  job.task.label_smoothing = 0.300000012f;
  job.vocabulary.kind = text::SubwordKind::bpe;
  job.vocabulary.character_coverage = 0.99995;
  job.bad_utf8 = data::OnBadLine::skip;
  job.train = {.source = "/a/b.en", .target = "/a/b.de"};
  TranslationJob copy;
  EXPECT_NE(values(copy.fields()), values(job.fields()));
  for (const Field& field : job.fields()) {
    EXPECT_NE(field.name.find('.'), std::string::npos) << field.name;
    EXPECT_TRUE(copy.set_field(field.name, field.value)) << field.name;
  }
  EXPECT_EQ(values(copy.fields()), values(job.fields()));
  EXPECT_EQ(copy.config.epsilon, 1e-7f);
  EXPECT_EQ(copy.config.dropout, 0.123456789f);
  EXPECT_EQ(copy.options.adam.epsilon, 3e-10f);
  EXPECT_EQ(copy.options.rmsprop.epsilon, 1.00000012e-3f);
  EXPECT_EQ(copy.options.schedule.kind, ScheduleKind::cosine);
  EXPECT_EQ(copy.options.max_minutes, 1.0 / 3);
  EXPECT_EQ(copy.options.seed, job.options.seed);
  EXPECT_EQ(copy.task.label_smoothing, 0.300000012f);
  EXPECT_EQ(copy.vocabulary.character_coverage, 0.99995);
  EXPECT_EQ(copy.bad_utf8, data::OnBadLine::skip);
  EXPECT_EQ(copy.train.target, "/a/b.de");
}

TEST(TrainFields, RefuseWhatTheyCannotRead) {
  TranslationJob job;
  EXPECT_FALSE(job.set_field("train.batch_toks", "5"));
  EXPECT_FALSE(job.set_field("epsilon", "5")) << "of the model, of Adam, of RMSprop?";
  for (const char* bad : {"", "5x", "1e3", "x", " 5", "99999999999999999999"})
    EXPECT_EQ(message_of<UsageError>([&] { job.set_field("train.batch_tokens", bad); }),
              concat("train.batch_tokens: expected a whole number, found '", bad, "'"));
  EXPECT_THROW(job.set_field("train.label_smoothing", "nan"), UsageError);
  EXPECT_EQ(message_of<UsageError>([&] { job.set_field("schedule.kind", "square"); }),
            "schedule.kind: expected one of paper, inverse_sqrt, cosine, linear, constant, found 'square'");
  EXPECT_EQ(message_of<UsageError>([&] { job.set_field("model.norm", "middle"); }),
            "model.norm: expected one of post, pre, found 'middle'");
  EXPECT_EQ(message_of<UsageError>([&] { job.set_field("data.skip_bad_utf8", "yes"); }),
            "data.skip_bad_utf8: expected one of false, true, found 'yes'");
}

TEST(TrainFields, ValidateNamesTheField) {
  TrainOptions good;
  expect_throw<UsageError>("train.max_steps", [&] { good.validate(); });
  good.max_steps = 10;
  EXPECT_NO_THROW(good.validate());
  const std::pair<const char*, const char*> bad[] = {
      {"train.accumulate", "0"},       {"optimizer.clip_norm", "-1"},   {"optimizer.average_decay", "1"},
      {"train.average_last", "3"},     {"train.max_steps", "-1"},       {"train.patience", "-1"},
      {"train.keep_checkpoints", "0"}, {"train.log_every", "0"},        {"adam.beta2", "1"},
      {"adam.epsilon", "0"},           {"schedule.learning_rate", "0"}, {"schedule.warmup_steps", "-3"},
      {"sgd.momentum", "1"},           {"sgd.nesterov", "true"},        {"adafactor.clip_threshold", "0.5"}};
  for (const auto& [name, value] : bad) {
    TrainOptions options = good;
    ASSERT_TRUE(set_field(options, name, value)) << name;
    expect_throw<UsageError>(name, [&] { options.validate(); });
  }
  const std::pair<const char*, const char*> bad_of_task[] = {
      {"train.batch_tokens", "0"}, {"train.label_smoothing", "1"}, {"train.bleu_beam", "0"}};
  for (const auto& [name, value] : bad_of_task) {
    TranslationJob job;
    ASSERT_TRUE(job.set_field(name, value)) << name;
    expect_throw<UsageError>(name, [&] { job.task.validate(); });
  }
  TrainOptions cosine = good;
  cosine.schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 5};
  EXPECT_NO_THROW(cosine.validate()) << "its length is max_steps";
  cosine.max_steps = 5;
  EXPECT_THROW(cosine.validate(), UsageError);
}

TEST(TrainFields, OnlyDefaultsAreFitted) {
  const auto fitted = [](const std::set<std::string>& given, bool validated) {
    TranslationJob job;
    EXPECT_FALSE(job.options.schedule.fit_warmup || job.options.fit_validation);
    if (validated) job.valid = {"valid.en", "valid.de"};
    job.complete(given);
    return std::pair(job.options.schedule.fit_warmup, job.options.fit_validation);
  };
  EXPECT_EQ(fitted({"train.max_epochs"}, true), std::pair(true, true));
  EXPECT_EQ(fitted({}, false), std::pair(true, false)) << "nothing to validate on";
  EXPECT_EQ(fitted({"schedule.warmup_steps"}, true), std::pair(false, true));
  EXPECT_EQ(fitted({"train.validate_every", "schedule.fit_warmup"}, true), std::pair(false, false));
}

TEST(TrainFields, AShortRunIsSmallUnlessASizeIsGiven) {
  const auto layers = [](const std::string& name, const std::string& value) {
    LmJob job;
    EXPECT_TRUE(job.set_field("train.max_minutes", "5"));
    EXPECT_TRUE(job.set_field(name, value)) << name;
    job.complete({"train.max_minutes", name});
    return job.shape.layers;
  };
  const int64_t large = LmJob{}.shape.layers;
  ASSERT_GT(large, 2);
  for (const auto& [name, value] : {std::pair("train.max_minutes", "5"), std::pair("model.dropout", "0"),
                                    std::pair("model.drop_path", "0.1"), std::pair("model.blocks", "gpt2")})
    EXPECT_EQ(layers(name, value), 2) << name << " is no size";
  for (const char* name : {"model.d_model", "model.d_ff", "model.max_positions"})
    EXPECT_EQ(layers(name, "512"), large) << name;
  EXPECT_EQ(layers("train.max_minutes", "11"), large);
}

TEST(TrainFields, OnlyLimitsAndBookkeepingDoNotDecideTheWeights) {
  std::map<std::string, bool> decides;
  for (const Field& field : TranslationJob{}.fields()) decides[field.name] = field.decides_weights;
  for (const char* name : {"train.max_steps", "train.max_minutes", "train.patience", "train.checkpoint_every",
                           "train.validate_every", "train.fit_validation", "train.fit_steps",
                           "train.log_every", "train.bleu_every", "train.best_by", "data.source"})
    EXPECT_FALSE(decides.at(name)) << name;
  for (const char* name :
       {"train.batch_tokens", "train.seed", "schedule.learning_rate", "schedule.total_steps",
        "schedule.fit_warmup", "schedule.refits", "optimizer.average_decay", "model.d_model",
        "vocabulary.size", "data.skip_bad_utf8"})
    EXPECT_TRUE(decides.at(name)) << name;
}

}  // namespace
}  // namespace qkv::train
