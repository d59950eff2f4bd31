// Classifiers of texts and taggers of words.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "qkv/base/log.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/pipelines/tag.h"
#include "tests/train/killed.h"
#include "tests/train/label_run.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::golden_model;
using testing::message_of;
using testing::Scratch;

template <class Job>
struct LabelRun {
  explicit LabelRun(const std::string& train, const std::string& valid) {
    job.train = scratch.write("train.txt", train);
    job.valid = scratch.write("valid.txt", valid);
    job.folder = scratch / "run";
    job.options.max_steps = 40;
    testing::set_small(job);
  }
  TrainResult run() const {
    TrainObserver observer;
    return run_job(job, observer);
  }
  TrainResult resume(const std::string& folder) {
    job.folder = scratch / folder;
    job.existing = IfRunExists::resume;
    return run();
  }
  std::string weights(const std::string& folder = "run") const {
    return read_file(scratch / folder / "model.safetensors");
  }

  Scratch scratch;
  Job job;
};

struct ClassifyRun : LabelRun<ClassifyJob> {
  ClassifyRun() : LabelRun(testing::colour_texts(60), testing::colour_texts(20)) {}
};
struct TagRun : LabelRun<TagJob> {
  TagRun() : LabelRun(testing::tagged_words(60), testing::tagged_words(15)) {}
};

TEST(ClassifyTask, LearnsAndExportsAModelWithTheSameResults) {
  ClassifyRun own;
  own.job.options.max_steps = 120;
  own.job.options.optimizer.average_decay = 0.9f;
  const TrainResult result = own.run();
  EXPECT_EQ(result.best_by.name, "accuracy");
  EXPECT_EQ(result.best.at("accuracy"), 1);
  EXPECT_EQ(result.best.at("matthews"), 1);
  EXPECT_EQ(result.best.at("f1"), 1);
  EXPECT_LT(result.best.at("loss"), 0.1);

  const pipelines::TextClassifier classifier(own.job.folder);
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"bad", "good"}));
  const data::LabelledTexts texts = data::read_labelled_texts(own.job.valid, data::TextFormat::tab);
  double loss = 0;
  for (const data::LabelledText& item : texts.items) {
    const pipelines::Classified found = classifier(std::vector{item.first}).front();
    EXPECT_EQ(found.labels.front().label, item.label);
    loss -= std::log(double{found.labels.front().probability});
  }
  EXPECT_NEAR(loss / static_cast<double>(texts.items.size()), result.best.at("loss"), 1e-5);
  EXPECT_TRUE(pipelines::check_proof(own.job.folder).good());
}

TEST(ClassifyTask, LearnsNumbersOfPairs) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text +=
        concat(i % 3 == 0   ? "4.5"
               : i % 3 == 1 ? "2"
                            : "-0.5",
               "\tthe ", i % 3 == 0 ? "red" : "blue", " dog\tthe ", i % 3 == 2 ? "man" : "dog", " runs .\n");
  LabelRun<ClassifyJob> own(text, text);
  own.job.regression = true;
  own.job.options.max_steps = 150;
  const TrainResult result = own.run();
  EXPECT_EQ(result.best_by.name, "spearman");
  EXPECT_GT(result.best.at("spearman"), 0.95);
  EXPECT_GT(result.best.at("pearson"), 0.95);
  const pipelines::TextClassifier classifier(own.job.folder);
  EXPECT_EQ(classifier.model().config().problem, models::ProblemType::regression);
  const std::vector<std::string> lines{"the red dog\tthe dog runs .", "the blue dog\tthe man runs ."};
  const auto found = classifier(lines, {.pairs = true});
  EXPECT_GT(found[0].labels[0].probability, found[1].labels[0].probability + 2);
}

TEST(TagTask, LearnsAndExportsAModelWithTheSameResults) {
  TagRun own;
  own.job.options.max_steps = 120;
  const TrainResult result = own.run();
  EXPECT_EQ(result.best_by.name, "accuracy");
  EXPECT_EQ(result.best.at("accuracy"), 1);
  EXPECT_EQ(result.best.at("macro_f1"), 1);
  const pipelines::TokenTagger tagger(own.job.folder);
  EXPECT_EQ(tagger.model().config().labels,
            (std::vector<std::string>{"ADJ", "ADP", "DET", "NOUN", "PUNCT", "VERB"}));
  const std::vector<std::string> texts{"the red man sleeping in red ."};
  const auto tagged = tagger(texts).front();
  std::string tags;
  for (const pipelines::TaggedToken& token : tagged.tokens) {
    // "##ing" had no label in training.
    if (token.text != "ing") tags += token.label.label + " ";
  }
  EXPECT_EQ(tags, "DET ADJ NOUN VERB ADP NOUN PUNCT ");
  EXPECT_TRUE(pipelines::check_proof(own.job.folder).good());
}

// Sums over a batch are divided by the labels of the step: two batches have the gradient of one.
TEST(TagTask, TheLossCountsWordsAndNotTokens) {
  TagRun own;
  TrainObserver observer;
  own.job.folder = own.scratch / "other";
  make_writable_folder(own.job.folder);
  const std::unique_ptr<Task> task = own.job.make_task(false, observer, nullptr);
  task->initialise(1);
  const auto batch = task->batches(1, {})->next();
  const auto& labels = dynamic_cast<const LabelBatch&>(*batch).labels;
  EXPECT_EQ(batch->size.units, std::ssize(labels));
  EXPECT_EQ(batch->size.labels, std::ssize(labels) - std::ranges::count(labels, kNoLabel));
  EXPECT_LT(batch->size.labels, batch->size.units - 2 * batch->size.items + 1) << "[CLS] and [SEP]";
  nn::ForwardContext context;
  const BatchLoss loss = task->loss(*batch, batch->size, context);
  const CurveShare curve = read(loss.curves).at(0);
  EXPECT_NEAR(curve.sum / curve.count, double{loss.loss.value().item()}, 1e-5);
  EXPECT_NEAR(curve.sum / curve.count, std::log(6.0), 0.7);
}

template <class Run>
void expect_same_bits_after_kills() {
  Run own;
  for (const auto& [field, value] : {std::pair("train.validate_every", "8"),
                                     {"train.checkpoint_every", "5"},
                                     {"train.accumulate", "2"},
                                     {"optimizer.average_decay", "0.9"},
                                     {"train.layer_decay", "0.8"},
                                     {"train.frozen_layers", "1"}})
    ASSERT_TRUE(own.job.set_field(field, value)) << field;
  own.run();
  own.job.folder = own.scratch / "part";
  own.job.existing = IfRunExists::resume;
  for (const int64_t step : {3, 17, 31}) testing::run_killed(own.job, step);
  EXPECT_EQ(own.resume("part").steps, 40);
  const auto run = own.scratch / "run", part = own.scratch / "part";
  testing::expect_same_run(run, part);
  testing::expect_same_files(run, part, {"log.jsonl", "config.json", "tokenizer.json"});
}

TEST(ClassifyTask, KilledAndResumedEndsInTheSameBits) { expect_same_bits_after_kills<ClassifyRun>(); }
TEST(TagTask, KilledAndResumedEndsInTheSameBits) { expect_same_bits_after_kills<TagRun>(); }

TEST(ClassifyTask, ARunBelongsToItsSettingsAndData) {
  ClassifyRun own;
  own.job.options.max_steps = 2;
  own.run();
  const auto refused = [&](auto change, const std::string& message) {
    ClassifyJob other = own.job;
    change(other);
    other.existing = IfRunExists::resume;
    TrainObserver observer;
    expect_throw<UsageError>(message, [&] { run_job(other, observer); });
  };
  refused([](ClassifyJob& job) { job.task.layer_decay = 0.5f; },
          "resume: train.layer_decay: expected 1 as in the checkpoint, found 0.5");
  refused([](ClassifyJob& job) { job.task.batch_tokens = 50; }, "train.batch_tokens: expected 120");
  refused([](ClassifyJob& job) { job.encoder.shape.d_ff = 48; }, "model.d_ff: expected 64");
  refused([&](ClassifyJob& job) { job.train = own.scratch.write("more.txt", testing::colour_texts(61)); },
          "data.fingerprint");
  refused(
      [&](ClassifyJob& job) {
        job.train = own.scratch.write("new.txt", testing::colour_texts(60) + "ugly\tthe dog\n");
      },
      "data.labels: expected bad, good as in the checkpoint, found bad, good, ugly");
}

TEST(ClassifyTask, FrozenLayersStayAndHaveNoGradient) {
  ClassifyRun own;
  own.job.task.frozen_layers = 1;
  own.job.task.layer_decay = 0.5f;
  own.job.options.max_steps = 3;
  own.run();
  TrainObserver observer;
  const std::unique_ptr<Task> task = own.job.make_task(true, observer, nullptr);
  task->initialise(own.job.options.seed);
  const Checkpoint end = CheckpointFolder(own.job.folder / "checkpoints").load_latest().value();
  std::map<std::string, double> factors;
  const auto groups = task->parameter_groups();
  for (const auto& [name, parameter] : nn::parameters_of(*task)) {
    const bool frozen = name.starts_with("embed_") || name.starts_with("encoder.layers.0.");
    EXPECT_EQ(parameter.variable.requires_grad(), !frozen) << name;
    const Tensor before = parameter.variable.value(), after = end.file.tensor("weights/" + name);
    // (The bias of keys has no effect, and a gradient of rounding errors.)
    if (frozen || !name.ends_with("k_proj.bias")) {
      EXPECT_EQ(std::memcmp(before.as_bytes().data(), after.as_bytes().data(), before.bytes()) == 0, frozen)
          << name;
    }
    for (const optim::ParameterGroup& group : groups) {
      if (!group.contains({name, parameter})) continue;
      EXPECT_EQ(group.frozen, frozen) << name;
      factors[name] = group.learning_rate_factor;
      break;
    }
  }
  EXPECT_EQ(factors.at("encoder.layers.1.fc1.weight"), 0.5);
  EXPECT_FALSE(factors.contains("classifier.weight")) << "the head has the whole rate";
  EXPECT_FALSE(factors.contains("pooler.weight"));

  own.job.task.frozen_layers = 0;
  const std::unique_ptr<Task> all = own.job.make_task(true, observer, nullptr);
  const auto factor_of = [&](const std::string& name) {
    for (const optim::ParameterGroup& group : all->parameter_groups()) {
      if (group.contains({name, {}})) return group.learning_rate_factor;
    }
    return 1.0;
  };
  EXPECT_EQ(factor_of("encoder.layers.0.self_attn.q_proj.weight"), 0.25);
  EXPECT_EQ(factor_of("embed_tokens.weight"), 0.125);
  EXPECT_EQ(factor_of("embed_layer_norm.bias"), 0.125);
}

TEST(LabelTasks, TextsAreCutAndCounted) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(golden_model("bert_base"));
  const Scratch scratch;
  const auto texts = data::read_labelled_texts(
      scratch.write("t", "x\tthe red dog runs in the house .\ny\tthe dog\n"), data::TextFormat::tab);
  const LabelRows rows = encode_texts(texts, tokenizer, {"x", "y"}, 6);
  EXPECT_EQ(rows.cut, 1);
  EXPECT_EQ(rows.costs(), (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(rows.items[1].labels, std::vector<int32_t>{1});

  // "sleeping" has two tokens; the words after the third are cut off.
  const auto sentences = data::read_tagged_sentences(
      scratch.write("s", "the\tD\nsleeping\tA\ndog\tN\nruns\tV\n.\tP\n\n\u200b\tN\n\ndog\tN\n"), {});
  const std::vector<std::string> tags{"A", "D", "N", "P", "V"};
  const LabelRows words = encode_sentences(sentences, tokenizer, tags, 6);
  EXPECT_EQ(words.cut, 1);
  ASSERT_EQ(words.items.size(), 2u) << "a sentence without tokens is left out";
  EXPECT_EQ(words.items[0].labels, (std::vector<int32_t>{kNoLabel, 1, 0, kNoLabel, 2, kNoLabel}));
  EXPECT_EQ(words.unreached, (std::vector<int64_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(words.labels(), 4);
}

TEST(LabelTasks, SayWhatTheyRead) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, const std::string& message) { said.push_back(message); });
  const ClassifyRun texts;
  const TagRun words;
  TrainObserver observer;
  texts.job.make_task(/*resumes=*/false, observer, nullptr);
  words.job.make_task(/*resumes=*/false, observer, nullptr);
  set_log_sink({});
  EXPECT_EQ(said, (std::vector<std::string>{"training data: 60 texts", "validation data: 20 texts",
                                            "training data: 60 sentences, 290 tagged words",
                                            "validation data: 15 sentences, 73 tagged words"}));
}

TEST(LabelTasks, RefuseBadDataNamingTheLine) {
  const auto refused = [](auto own, const std::string& message) {
    TrainObserver observer;
    const std::string found = message_of<DataError>([&] { run_job(own->job, observer); });
    EXPECT_NE(found.find(message), std::string::npos) << found;
    EXPECT_FALSE(std::filesystem::exists(own->job.folder)) << "found before anything is written";
  };
  const auto classify = [](const std::string& train, const std::string& valid) {
    return std::make_unique<LabelRun<ClassifyJob>>(train, valid);
  };
  refused(classify("a\tthe dog\na\tthe man\n", "a\tthe dog\n"),
          "train.txt: expected at least 2 different labels, found only 'a'");
  refused(classify("a\tthe dog\nb\tthe man\n", "a\tthe dog\nc\tthe dog\n"),
          "valid.txt:2: expected one of the model's labels (a, b), found 'c'");
  refused(classify("a\tthe dog\nb\tthe man\n", "a\tthe dog\tthe man\n"), "expected single texts as in");
  auto numbers = classify("1\tthe dog\nx\tthe man\n", "2\tthe dog\n");
  numbers->job.regression = true;
  refused(std::move(numbers), "train.txt:2: expected a number as label, found 'x'");
  refused(std::make_unique<LabelRun<TagJob>>("the\tD\ndog\tN\n", "dog\tN\n\nruns\tV\n"),
          "valid.txt:3: expected one of the model's labels (D, N), found 'V'");
}

TEST(LabelTasks, LabelsThatAreNumbersAreInTheirOrder) {
  const Scratch scratch;
  const auto file = scratch.write("t", "10\ta\n9\tb\n-1\tc\n");
  EXPECT_EQ(label_set(data::read_labelled_texts(file, data::TextFormat::tab)),
            (std::vector<std::string>{"-1", "9", "10"}));
}

TEST(LabelTasks, RefuseSettingsByName) {
  const auto refused = [](const std::string& field, const std::string& value, const std::string& message) {
    ClassifyRun own;
    ASSERT_TRUE(own.job.set_field(field, value)) << field;
    TrainObserver observer;
    expect_throw<UsageError>(message, [&] { run_job(own.job, observer); });
  };
  refused("train.layer_decay", "0", "train.layer_decay: expected more than 0, at most 1, found 0");
  refused("train.frozen_layers", "3", "train.frozen_layers: expected 0 to the model's 2 layers, found 3");
  refused("train.label_smoothing", "1", "train.label_smoothing");
  refused("train.max_length", "-1", "train.max_length: expected 0 or more");
  refused("model.heads", "5", "model.heads: expected a divisor");
  refused("data.train", "", "data.train: expected a file of training data, found none");
  refused("data.valid", "-", "data.valid -: expected a file, as it is read several times, found stdin");
  ClassifyRun own;
  EXPECT_FALSE(own.job.set_field("data.word_column", "2")) << "of the other task";
  for (const Field& field : own.job.fields())
    EXPECT_TRUE(own.job.set_field(field.name, field.value)) << field.name;
}

}  // namespace
}  // namespace qkv::train
