// Models that answer questions by spans of texts.

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/metrics/answers.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/tasks/answers/answer_scores.h"
#include "tests/ops/gradient_check.h"
#include "tests/train/killed.h"
#include "tests/train/label_run.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::golden_model;
using testing::message_of;
using testing::Scratch;

struct AnswerRun {
  AnswerRun() {
    job.train = scratch.write("train.jsonl", testing::coloured_questions(96));
    job.valid = scratch.write("valid.jsonl", testing::coloured_questions(24));
    job.folder = scratch / "run";
    job.options.max_steps = 40;
    testing::set_small(job);
  }
  TrainResult run() const {
    TrainObserver observer;
    return run_job(job, observer);
  }

  Scratch scratch;
  AnswerJob job;
};

TEST(AnswerTask, LearnsAndExportsAModelWithTheSameResults) {
  AnswerRun own;
  own.job.options.max_steps = 250;
  const TrainResult result = own.run();
  EXPECT_EQ(result.best_by.name, "f1");
  EXPECT_EQ(result.best.at("f1"), 1);
  EXPECT_EQ(result.best.at("exact_match"), 1);
  const pipelines::QuestionAnswerer answerer(own.job.folder);
  EXPECT_TRUE(answerer.model().config().labels.empty());
  const data::Questions questions = data::read_questions(own.job.valid);
  for (const data::Question& one : questions.items) {
    const std::vector<pipelines::QuestionedText> items{{one.question, questions.contexts[one.context]}};
    const pipelines::Answer answer = answerer(items, {.unanswerable = true}).front().answers.front();
    EXPECT_EQ(answer.text, one.answers.empty() ? "" : one.answers.front().text) << one.where;
    if (!one.answers.empty()) {
      EXPECT_EQ(answer.begin, one.answers.front().begin) << one.where;
    }
  }
  EXPECT_TRUE(pipelines::check_proof(own.job.folder).good());
}

TEST(AnswerTask, KilledAndResumedEndsInTheSameBits) {
  AnswerRun own;
  for (const auto& [field, value] : {std::pair("train.validate_every", "8"),
                                     {"train.checkpoint_every", "5"},
                                     {"train.accumulate", "2"},
                                     {"optimizer.average_decay", "0.9"},
                                     {"train.max_length", "9"},
                                     {"data.shared", "2"},
                                     {"train.label_smoothing", "0.1"}})
    ASSERT_TRUE(own.job.set_field(field, value)) << field;
  own.run();
  own.job.folder = own.scratch / "part";
  own.job.existing = IfRunExists::resume;
  for (const int64_t step : {3, 17, 31}) testing::run_killed(own.job, step);
  EXPECT_EQ(own.run().steps, 40);
  testing::expect_same_run(own.scratch / "run", own.scratch / "part");
  testing::expect_same_files(own.scratch / "run", own.scratch / "part",
                             {"log.jsonl", "config.json", "tokenizer.json"});
}

TEST(AnswerTask, TheLossIsTheMeanOverFirstAndLastTokens) {
  const AnswerRun own;
  make_writable_folder(own.job.folder);
  TrainObserver observer;
  const std::unique_ptr<Task> task = own.job.make_task(false, observer, nullptr);
  task->initialise(1);
  const auto batch = task->batches(1, {})->next();
  EXPECT_EQ(batch->size.labels, 2 * batch->size.items);
  nn::ForwardContext context;
  const BatchLoss loss = task->loss(*batch, batch->size, context);
  const CurveShare curve = read(loss.curves).at(0);
  EXPECT_NEAR(curve.sum / curve.count, double{loss.loss.value().item()}, 1e-5);
  const double tokens = static_cast<double>(batch->size.units) / static_cast<double>(batch->size.items);
  EXPECT_NEAR(curve.sum / curve.count, std::log(tokens), 0.5) << "a random model";
}

TEST(AnswerTask, ARunBelongsToItsSettingsAndData) {
  AnswerRun own;
  own.job.options.max_steps = 2;
  own.run();
  const auto refused = [&](auto change, const std::string& message) {
    AnswerJob other = own.job;
    change(other);
    other.existing = IfRunExists::resume;
    TrainObserver observer;
    expect_throw<UsageError>(message, [&] { run_job(other, observer); });
  };
  refused([](AnswerJob& job) { job.answers.shared = 3; },
          "data.shared: expected 128 as in the checkpoint, found 3");
  refused([](AnswerJob& job) { job.task.max_length = 12; }, "train.max_length");
  refused([](AnswerJob& job) { job.answers.max_answer_tokens = 3; }, "valid.max_answer_tokens");
  refused([&](AnswerJob& job) { job.train = own.scratch.write("more", testing::coloured_questions(97)); },
          "data.fingerprint");
  // Another right answer changes the scores, but no row.
  std::string changed = testing::coloured_questions(24);
  const std::string first = R"("text": ["man"], "answer_start": [6])";
  ASSERT_NE(changed.find(first), std::string::npos);
  changed.replace(changed.find(first), first.size(), R"("text": ["man", "red man"], "answer_start": [6, 2])");
  refused([&](AnswerJob& job) { job.valid = own.scratch.write("changed", changed); }, "valid.fingerprint");
}

// [windows, 2] labels in double precision, and the gradient by differences.
TEST(SpanCrossEntropy, IsThatOfEachWindow) {
  const Tensor logits = Tensor::from(
      std::vector<float>{0.3f, -1, 2, 0.5f, -0.7f, 1, 0, 0.2f, 1.5f, -0.4f, 0.6f, 0.9f, -1.2f, 0.1f}, {7, 2});
  const Offsets offsets = Offsets::of_lengths(std::vector<int32_t>{4, 1, 2});
  const std::vector<int32_t> labels{1, 2, 0, 0, kNoLabel, 1};
  double expected = 0;
  for (int64_t w = 0; w < 3; ++w) {
    for (int64_t c = 0; c < 2; ++c) {
      const int32_t label = labels[static_cast<size_t>(2 * w + c)];
      if (label == kNoLabel) continue;
      double sum = 0;
      const auto at = [&](int64_t row) { return double{logits.data()[(offsets.begin(w) + row) * 2 + c]}; };
      for (int64_t row = 0; row < offsets.length(w); ++row) sum += std::exp(at(row));
      expected += std::log(sum) - at(label);
    }
  }
  EXPECT_NEAR(span_cross_entropy(logits, offsets, labels).value().item(), expected, 1e-5);
  testing::check_gradients({.function =
                                [&](const std::vector<Variable>& inputs) {
                                  return span_cross_entropy(inputs[0], offsets, labels);
                                },
                            .inputs = {logits}});
  EXPECT_THROW(span_cross_entropy(logits, offsets, std::vector<int32_t>{1, 2}), ShapeError);
}

data::Questions questions_of(const Scratch& scratch, const std::string& context, const std::string& answer) {
  const size_t begin = context.find(answer);
  return data::read_questions(scratch.write(
      "file", concat(R"({"question": "red", "context": ")", context, R"(", "answers": {"text": [)",
                     answer.empty() ? "" : concat('"', answer, '"'), R"(], "answer_start": [)",
                     answer.empty() ? "" : std::to_string(begin), "]}}\n")));
}

TEST(AnswerRows, HaveTheAnswerInItsWindowsAndNoneInOthers) {
  const Scratch scratch;
  const text::Tokenizer tokenizer = text::Tokenizer::load(golden_model("bert_base"));
  // 10 tokens of the text; "sleeping" has two. [CLS] red [SEP] ... [SEP]
  const data::Questions questions =
      questions_of(scratch, "the man and the dog sleeping in the house", "dog sleeping");
  const AnswerRows one = encode_answers(questions, tokenizer, {.max_length = 20, .shared = 4});
  ASSERT_EQ(one.rows.items.size(), 1U);
  EXPECT_EQ(one.rows.items[0].labels, (std::vector<int32_t>{3 + 4, 3 + 6}));
  // 4 tokens in a window, of which 2 are shared: the answer's 4 to 6 are in the windows from 4 alone.
  const AnswerRows more = encode_answers(questions, tokenizer, {.max_length = 8, .shared = 2});
  ASSERT_EQ(more.rows.items.size(), 4U);
  for (size_t w = 0; w < 4; ++w)
    EXPECT_EQ(more.rows.items[w].labels, w == 2 ? (std::vector<int32_t>{3, 5}) : (std::vector<int32_t>{0, 0}))
        << w;
  EXPECT_EQ(more.questions, (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(more.unreached, 0);
  // Windows of 2 tokens cannot have it.
  EXPECT_EQ(encode_answers(questions, tokenizer, {.max_length = 6, .shared = 0}).unreached, 1);
  // The tokenizer removes accents, at the ends too.
  EXPECT_EQ(encode_answers(questions_of(scratch,
                                        "the sle\xcc\x81"
                                        "ep\xcc\x81",
                                        "sle\xcc\x81"
                                        "ep\xcc\x81"),
                           tokenizer, {.max_length = 20, .shared = 4})
                .rows.items[0]
                .labels,
            (std::vector<int32_t>{4, 4}));
  // A part of a word is that of its tokens.
  EXPECT_EQ(encode_answers(questions_of(scratch, "the man sleeping", "sleep"), tokenizer,
                           {.max_length = 20, .shared = 4})
                .rows.items[0]
                .labels,
            (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(encode_answers(questions_of(scratch, "the man", ""), tokenizer, {.max_length = 20, .shared = 4})
                .rows.items[0]
                .labels,
            (std::vector<int32_t>{0, 0}));
  expect_throw<DataError>("file: line 1: question: expected at most 3 tokens",
                          [&] { encode_answers(questions, tokenizer, {.max_length = 4, .shared = 0}); });
}

// A tokenizer without [CLS] has no token for "no answer".
TEST(AnswerRows, WithoutATokenForNoneRefuseQuestionsWithoutAnAnswer) {
  const Scratch scratch;
  const text::Tokenizer tokenizer = text::Tokenizer::load(golden_model("gpt2_untied_relu"));
  EXPECT_EQ(encode_answers(questions_of(scratch, "the man sleeps", "man"), tokenizer,
                           {.max_length = 3, .shared = 0})
                .rows.items[1]
                .labels,
            (std::vector<int32_t>{kNoLabel, kNoLabel}));
  const data::Questions none = questions_of(scratch, "the man sleeps", "");
  expect_throw<DataError>("line 1: expected an answer, because the tokenizer has no [CLS] token",
                          [&] { encode_answers(none, tokenizer, {.max_length = 20, .shared = 0}); });
}

TEST(AnswerTask, RefusesSettingsAndDataByName) {
  const auto refused = [](const std::string& field, const std::string& value, const std::string& message) {
    AnswerRun own;
    ASSERT_TRUE(own.job.set_field(field, value)) << field;
    TrainObserver observer;
    expect_throw<UsageError>(message, [&] { run_job(own.job, observer); });
  };
  refused("train.max_length", "21",
          "train.max_length: expected at most 20 tokens (the model's limit), found 21");
  refused("data.shared", "-1", "data.shared: expected 0 or more");
  refused("valid.max_answer_tokens", "0", "valid.max_answer_tokens: expected 1 or more");
  refused("data.train", "", "data.train: expected a file of training data, found none");
  AnswerRun own;
  own.job.valid = own.scratch.write("bad", "{}");
  TrainObserver observer;
  EXPECT_NE(message_of<DataError>([&] { run_job(own.job, observer); }).find("bad"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(own.job.folder)) << "found before anything is written";
}

}  // namespace
}  // namespace qkv::train
