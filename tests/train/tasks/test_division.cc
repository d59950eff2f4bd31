// Validations that ranks divide, with ranks as threads.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/train/ranks/division.h"
#include "qkv/train/ranks/node_share.h"
#include "qkv/train/tasks/lm/lm.h"
#include "tests/support/letters.h"
#include "tests/support/scratch.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/bert_run.h"
#include "tests/train/embed_run.h"
#include "tests/train/image_run.h"
#include "tests/train/label_run.h"
#include "tests/train/reverse_task.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::Scratch;
using testing::ThreadRanks;

TEST(Division, TakesAllResultsInOrderOnEachRankAndDividesTheWork) {
  for (int count = 1; count <= 4; ++count) {
    std::vector<int64_t> worked(static_cast<size_t>(count));
    ThreadRanks(count).run([&](Communicator& own) {
      std::string all;
      EXPECT_TRUE(divide(
          own, nullptr, 7,
          [&](int64_t batch) {
            ++worked[static_cast<size_t>(own.rank())];
            return std::string(static_cast<size_t>(batch), static_cast<char>('a' + batch));
          },
          [&](int64_t batch, std::string_view result) { all += concat(batch, result, ";"); }));
      EXPECT_EQ(all, "0;1b;2cc;3ddd;4eeee;5fffff;6gggggg;");
    });
    for (const int64_t own : worked) {
      EXPECT_GE(own, 7 / count);
      EXPECT_LE(own, 7 / count + 1);
    }
  }
}

TEST(Division, StopsOnAllRanksIfOneIsRequestedTo) {
  std::atomic<bool> stop = false;
  ThreadRanks(3).run([&](Communicator& own) {
    EXPECT_FALSE(divide(
        own, own.rank() == 1 ? &stop : nullptr, 100'000'000,
        [&](int64_t batch) {
          if (batch == 301) stop = true;
          return std::string("x");
        },
        [](int64_t, std::string_view) { FAIL() << "expected no result"; }));
  });
}

TEST(Division, AnErrorNamesItsRank) {
  expect_throw<Error>("rank 2: no such file", [] {
    ThreadRanks(3).run([&](Communicator& own) {
      divide(
          own, nullptr, 3,
          [&](int64_t) -> std::string {
            if (own.rank() == 2) throw DataError("no such file");
            return {};
          },
          [](int64_t, std::string_view) {});
    });
  });
}

// Expects the same from one process and from each of three ranks, all of which send results.
void expect_same_evaluation(const std::function<std::unique_ptr<Task>(int rank)>& make_task,
                            int64_t items = 0) {
  const auto make = [&](int rank) {
    std::unique_ptr<Task> task = make_task(rank);
    task->initialise(7);
    return task;
  };
  const EvaluationRequest request{.number = 0, .scheduled = false, .items = items};
  const std::unique_ptr<Task> whole = make(0);
  const Evaluation expected = whole->evaluate(request).value();
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < 3; ++rank) tasks.push_back(make(rank + 1));
  ThreadRanks(3).run([&](Communicator& own) {
    EvaluationRequest divided = request;
    divided.ranks = &own;
    const Evaluation found = tasks[static_cast<size_t>(own.rank())]->evaluate(divided).value();
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.metrics, expected.metrics);
    EXPECT_EQ(found.samples, expected.samples);
    EXPECT_EQ(found.extent, expected.extent);
    EXPECT_FALSE(found.metrics.empty());
    EXPECT_GT(own.traffic().bytes_sent, 0);
  });
}

template <class Job>
void expect_same_evaluation_of(Job job, int64_t items = 0) {
  const std::filesystem::path folder = job.folder;
  expect_same_evaluation(
      [&](int rank) {
        job.folder = concat(folder.string(), "-", rank);
        TrainObserver quiet;
        return job.make_task(false, quiet, nullptr);
      },
      items);
}

TEST(Division, OfTranslationsGivesTheSameBits) {
  const Scratch scratch;
  TranslationJob job = testing_task::small_job(scratch, "run");
  job.task.batch_tokens = 30;
  job.task.bleu_every = 1;
  expect_same_evaluation_of(job);
  expect_same_evaluation_of(job, 5);
}

LmJob small_lm_job(const Scratch& scratch) {
  scratch.write("tokenizer/tokenizer.json", testing::letters_json("\n .abcdeghimnostu", '.'));
  scratch.write("tokenizer/tokenizer_config.json", R"({"eos_token": ".", "unk_token": "<unk>"})");
  LmJob job;
  job.folder = scratch / "run";
  job.shape = {.layers = 1, .d_model = 32, .heads = 2, .d_ff = 64, .max_positions = 16};
  job.corpus.train = scratch.write("train.txt", "the cat sat on the mat.\n\nthe dog\ndug in the bog.\n");
  job.corpus.valid = job.corpus.train;
  job.corpus.tokenizer = (scratch / "tokenizer").string();
  job.task.batch_tokens = 16;
  job.options.schedule.warmup_steps = 1;
  return job;
}

TEST(Division, OfTextsGivesTheSameBits) {
  const Scratch scratch;
  expect_same_evaluation_of(small_lm_job(scratch));
}

TEST(Division, OfMaskedTextsGivesTheSameBits) {
  const Scratch scratch;
  PretrainBertJob job = testing_task::topic_job(scratch / "data", scratch / "run");
  job.task.batch_tokens = 64;
  expect_same_evaluation_of(job);
}

TEST(Division, OfLabelledTextsAndWordsGivesTheSameBits) {
  const Scratch scratch;
  ClassifyJob classify;
  classify.train = scratch.write("train.txt", testing::colour_texts(60));
  classify.valid = scratch.write("valid.txt", testing::colour_texts(1500));
  classify.folder = scratch / "classify";
  testing::set_small(classify);
  expect_same_evaluation_of(classify);
  TagJob tag;
  tag.train = scratch.write("train-words.txt", testing::tagged_words(60));
  tag.valid = scratch.write("valid-words.txt", testing::tagged_words(1500));
  tag.folder = scratch / "tag";
  testing::set_small(tag);
  expect_same_evaluation_of(tag);
  AnswerJob answer;
  answer.train = scratch.write("train-questions.txt", testing::coloured_questions(60));
  answer.valid = scratch.write("valid-questions.txt", testing::coloured_questions(1500));
  answer.folder = scratch / "answer";
  testing::set_small(answer);
  expect_same_evaluation_of(answer);
}

TEST(Division, OfSentencePairsGivesTheSameBits) {
  const Scratch scratch;
  EmbedJob job = testing_task::small_embed_job(scratch, "run");
  std::string pairs;
  for (int i = 0; i < 6; ++i) pairs += testing_task::scored_pairs();
  job.valid = scratch.write("valid.tsv", pairs);
  expect_same_evaluation_of(job);
}

TEST_F(ImageTraining, DividedValidationGivesTheSameBits) {
  ImageJob own = job("run");
  own.task.batch_images = 4;
  expect_same_evaluation_of(own);
}

struct Tokens {
  std::vector<int32_t> ids;
  std::vector<int64_t> begins;
  int64_t bytes = 0;
  template <class Function>
  void members(const Function& function) {
    function(ids, begins, bytes);
  }
};

struct Row {
  std::vector<int32_t> ids;
  float value = 0;
  template <class Function>
  void members(const Function& function) {
    function(ids, value);
  }
};

struct Rows {
  std::vector<Row> rows;
  std::vector<std::string> names;
  template <class Function>
  void members(const Function& function) {
    function(rows, names);
  }
};

TEST(NodeShare, SendsVectorsOfVectorsAndTexts) {
  ThreadRanks(2).run([&](Communicator& own) {
    NodeShare node(own);
    const Rows found = node.once<Rows>([] {
      return Rows{{{{1, 2, 3}, 0.5f}, {{}, 2}, {{4}, -1}}, {"", "a name"}};
    });
    node.send();
    EXPECT_EQ(found.names, (std::vector<std::string>{"", "a name"}));
    ASSERT_EQ(found.rows.size(), 3u);
    EXPECT_EQ(found.rows[0].ids, (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(found.rows[0].value, 0.5f);
    EXPECT_TRUE(found.rows[1].ids.empty());
    EXPECT_EQ(found.rows[2].ids, std::vector<int32_t>{4});
    EXPECT_EQ(found.rows[2].value, -1);
  });
}

TEST(NodeShare, KeepsWhatItsCallerDropsOrChanges) {
  ThreadRanks(2).run([&](Communicator& own) {
    NodeShare node(own);
    const std::vector<int32_t> expected(1000, 7);
    {
      Tokens dropped = node.once<Tokens>([&] { return Tokens{expected, {1, 2}, 3}; });
      EXPECT_EQ(dropped.ids, expected);
    }
    Tokens changed = node.once<Tokens>([&] { return Tokens{expected, {1, 2}, 3}; });
    EXPECT_EQ(changed.ids, expected);
    if (own.is_root()) changed.ids.assign(1000, 8);
    node.send();
  });
}

TEST(NodeShare, MakesDataOnceANode) {
  ThreadRanks ranks(5);
  ranks.host_of = [](int rank) { return rank % 2 == 0 ? "even" : "odd"; };
  std::atomic<int> made = 0;
  ranks.run([&](Communicator& own) {
    NodeShare node(own);
    std::vector<Tokens> found;
    for (int32_t i = 0; i < 2; ++i) {
      found.push_back(node.once<Tokens>([&] {
        ++made;
        return Tokens{{own.rank(), i, 7}, {}, 1'000'000'000'000 + own.rank()};
      }));
    }
    node.send();
    for (int32_t i = 0; i < 2; ++i) {
      const Tokens& words = found[static_cast<size_t>(i)];
      EXPECT_EQ(words.ids, (std::vector<int32_t>{own.rank() % 2, i, 7}));
      EXPECT_TRUE(words.begins.empty());
      EXPECT_EQ(words.bytes, 1'000'000'000'000 + own.rank() % 2);
    }
  });
  EXPECT_EQ(made, 4);
}

// Jobs of ranks that cannot read the text.
template <class Job>
struct BlindJob : Job {
  bool set_field(std::string_view name, std::string_view value) override {
    const bool text = name == "data.train" || name == "data.source" || name == "data.target" ||
                      (name == "data.valid" && !value.empty());
    return Job::set_field(name, text ? "/nowhere" : value);
  }
};

template <class Job>
void expect_same_run_without_text(Job job, const Scratch& scratch) {
  job.options.accumulate = 4;
  job.options.max_steps = 3;
  job.options.schedule.warmup_steps = 1;
  testing_task::Quiet quiet;
  job.folder = scratch / "whole";
  run_job(job, quiet);
  job.folder = scratch / "divided";
  ThreadRanks ranks(4);
  ranks.host_of = [](int rank) { return rank < 2 ? "one" : "two"; };
  ranks.run([&](Communicator& own) {
    testing_task::Quiet own_quiet;
    if (own.is_root()) {
      run_job(job, own_quiet, nullptr, own);
      return;
    }
    follow_job(own, [&own](const std::string&) -> std::unique_ptr<train::Job> {
      if (own.rank() == 2) return std::make_unique<Job>();
      return std::make_unique<BlindJob<Job>>();
    });
  });
  EXPECT_EQ(read_file(scratch / "whole/model.safetensors"), read_file(scratch / "divided/model.safetensors"));
  EXPECT_EQ(read_file(scratch / "whole/log.jsonl"), read_file(scratch / "divided/log.jsonl"));
}

TEST(NodeShare, OnlyOneRankOfANodeReadsTheText) {
  const Scratch texts, masked, pairs, sentences;
  expect_same_run_without_text(small_lm_job(texts), texts);
  expect_same_run_without_text(testing_task::topic_job(masked / "data", masked / "run"), masked);
  TranslationJob translation = testing_task::small_job(pairs, "run");
  translation.valid = {};
  expect_same_run_without_text(translation, pairs);
  expect_same_run_without_text(testing_task::small_embed_job(sentences, "run"), sentences);
}

TEST(NodeShare, OnlyOneRankOfANodeReadsTheLabels) {
  const Scratch texts, words;
  ClassifyJob classify;
  classify.train = texts.write("train.txt", testing::colour_texts(60));
  classify.valid = classify.train;
  testing::set_small(classify);
  expect_same_run_without_text(classify, texts);
  TagJob tag;
  tag.train = words.write("train.txt", testing::tagged_words(60));
  tag.valid = tag.train;
  testing::set_small(tag);
  expect_same_run_without_text(tag, words);
  const Scratch questions;
  AnswerJob answer;
  answer.train = questions.write("train.txt", testing::coloured_questions(60));
  answer.valid = answer.train;
  testing::set_small(answer);
  expect_same_run_without_text(answer, questions);
}

}  // namespace
}  // namespace qkv::train
