#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/data/sentence_pairs.h"
#include "qkv/metrics/classification.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/proof/proof.h"
#include "tests/train/embed_run.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::Scratch;
using namespace testing_task;  // NOLINT(google-build-using-namespace)

struct Observer : TrainObserver {
  std::vector<Evaluation> evaluations;
  int64_t fail_after = 0;
  void on_validation(const ValidationReport& report) override { evaluations.push_back(report.evaluation); }
  void on_step(const StepReport& report) override {
    if (report.step == fail_after) throw std::runtime_error("killed");
  }
};

TrainResult train(const EmbedJob& job) {
  Observer observer;
  return run_job(job, observer);
}

EmbedJob learning_job(const Scratch& scratch, EmbedLoss loss) {
  EmbedJob job = small_embed_job(scratch, "out");
  job.task.loss = loss;
  job.task.dropout = 0;
  job.task.drop_path = 0;
  job.options.max_steps = 120;
  job.options.validate_every = 40;
  job.options.checkpoint_every = 0;
  job.options.schedule.learning_rate = 0.01f;
  return job;
}

TEST(EmbedTask, LearnsScores) {
  for (const EmbedLoss loss : {EmbedLoss::automatic, EmbedLoss::cosine_mse}) {
    const Scratch scratch;
    const EmbedJob job = learning_job(scratch, loss);
    const TrainResult result = train(job);
    EXPECT_EQ(result.best_by.name, "spearman");
    EXPECT_GT(result.best.at("spearman"), 0.8);
    EXPECT_GT(result.best.at("pearson"), 0.9);
    // The exported folder gives the validated vectors.
    const pipelines::TextEmbedder embedder(job.folder);
    const pipelines::TextEmbedOptions options = embedder.default_options();
    EXPECT_EQ(options.vector.pooling, pipelines::Pooling::mean);
    EXPECT_TRUE(options.vector.normalize);
    EXPECT_EQ(options.max_length, 20) << "the model's positions";
    data::SentencePairReader reader(job.valid);
    std::vector<double> cosines, scores;
    for (data::SentencePair pair; reader.next(pair);) {
      const auto vectors = embedder(std::vector{pair.first, pair.second}, options);
      double cosine = 0;
      for (size_t c = 0; c < 8; ++c) cosine += double{vectors[0].values[c]} * double{vectors[1].values[c]};
      cosines.push_back(cosine);
      scores.push_back(*pair.score);
    }
    EXPECT_NEAR(metrics::spearman(cosines, scores), result.best.at("spearman"), 1e-3);
    EXPECT_NEAR(metrics::pearson(cosines, scores), result.best.at("pearson"), 1e-5);
    EXPECT_TRUE(pipelines::check_proof(job.folder).good());
  }
}

TEST(EmbedTask, LearnsPairsWithoutScores) {
  const Scratch scratch;
  EmbedJob job = learning_job(scratch, EmbedLoss::automatic);
  job.train = job.valid = scratch.write("pairs.tsv", matching_pairs());
  job.task.pooling = pipelines::Pooling::cls;
  job.task.symmetric = true;
  const TrainResult result = train(job);
  EXPECT_EQ(result.best_by.name, "accuracy");
  EXPECT_GT(result.best.at("accuracy"), 0.9);
  EXPECT_EQ(pipelines::TextEmbedder(job.folder).default_options().vector.pooling, pipelines::Pooling::cls);
  // Scored pairs to validate with need no scores to train with.
  job.valid = scratch.write("scored.tsv", scored_pairs());
  job.folder = scratch / "scored";
  EXPECT_GT(train(job).best.at("spearman"), 0.3);
}

TEST(EmbedTask, StartsFromTheFoldersVectors) {
  const Scratch scratch;
  EmbedJob job = small_embed_job(scratch, "out");
  job.options.max_steps = 1;
  job.options.schedule = {.kind = ScheduleKind::constant, .warmup_steps = 0, .learning_rate = 1e-12f};
  train(job);
  const pipelines::TextEmbedder before(job.from), after(job.folder);
  const std::vector<std::string> texts{"a red dog", "the man sleeps in the house."};
  const auto expected = before(texts, {.vector = {.normalize = true}}),
             found = after(texts, after.default_options());
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(found[i].values[c], expected[i].values[c], 1e-6);
  }
  EXPECT_FALSE(after.model().config().masked_language);
}

TEST(EmbedTask, KilledAndResumedEndsInTheSameBits) {
  const Scratch scratch;
  const EmbedJob whole = small_embed_job(scratch, "whole");
  train(whole);
  EmbedJob part = small_embed_job(scratch, "part");
  part.existing = IfRunExists::resume;
  for (const int64_t step : {1, 6, 6, 11}) {
    Observer killer;
    killer.fail_after = step;
    EXPECT_THROW(run_job(part, killer), std::runtime_error);
  }
  EXPECT_EQ(train(part).steps, 12);
  testing::expect_same_run(scratch / "whole", scratch / "part");
  testing::expect_same_files(scratch / "whole", scratch / "part",
                             {"config.json", "log.jsonl", "modules.json", "tokenizer.json"});
}

TEST(EmbedTask, HasTheSameBitsForAnyThreadsAndWhenRecomputed) {
  const Scratch scratch;
  const int before = threads();
  for (const auto& [name, count, recompute] :
       {std::tuple{"one", 1, false}, {"two", 2, false}, {"again", 2, true}}) {
    set_threads(count);
    EmbedJob job = small_embed_job(scratch, name);
    job.options.recompute = recompute;
    job.options.max_steps = 4;
    train(job);
    EXPECT_EQ(read_file(scratch / name / "model.safetensors"),
              read_file(scratch / "one" / "model.safetensors"))
        << name;
  }
  set_threads(before);
}

TEST(EmbedTask, OtherSettingsAndDataAreRefusedByName) {
  const Scratch scratch;
  EmbedJob job = small_embed_job(scratch, "out");
  job.options.max_steps = 2;
  job.options.schedule.total_steps = 12;
  train(job);
  job.existing = IfRunExists::resume;
  const auto message = [&](const std::string& field, const std::string& text) {
    EmbedJob other = job;
    EXPECT_TRUE(other.set_field(field, text));
    return message_of<UsageError>([&] { train(other); });
  };
  EXPECT_EQ(message("train.loss", "contrastive"),
            "resume: train.loss: expected auto as in the checkpoint, found contrastive");
  EXPECT_EQ(message("model.pooling", "max"),
            "resume: model.pooling: expected mean as in the checkpoint, found max");
  EXPECT_EQ(message("data.train", scratch.write("other.tsv", "1\ta dog\ta man\n").string()),
            "resume: data.fingerprint: the data are not those of the checkpoint");
}

// With sentence-transformers' files a decoder is an encoder, of which the last token is pooled.
TEST(EmbedTask, StartsFromADecoder) {
  const Scratch scratch;
  const std::filesystem::path models = QKV_TEST_DATA "/models/golden";
  for (const std::string base : {"qwen3", "gemma2_texts"}) {
    EmbedJob job = small_embed_job(scratch, "out");
    const std::filesystem::path tokenizer = job.from;
    job.from = scratch / base;
    job.folder = scratch / (base + " out");
    std::filesystem::copy(models / base, job.from);
    std::filesystem::copy(tokenizer / "tokenizer.json", job.from / "tokenizer.json");
    if (base == "qwen3") {
      std::filesystem::create_directory(job.from / "1_Pooling");
      scratch.write(base + "/1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})");
      scratch.write(base + "/modules.json",
                    R"([{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}])");
    }
    job.complete({});
    train(job);
    const pipelines::TextEmbedder before(job.from), after(job.folder);
    EXPECT_TRUE(after.model().config().causal);
    const pipelines::TextEmbedOptions options = after.default_options();
    EXPECT_EQ(options.vector.pooling,
              base == "qwen3" ? pipelines::Pooling::last_token : pipelines::Pooling::mean);
    const std::vector<std::string> texts{"a red dog.", "the good man."};
    EXPECT_NE(before(texts, options)[0].values, after(texts, options)[0].values) << base;
  }
}

TEST(EmbedTask, NamesWhatIsWrong) {
  const Scratch scratch;
  const auto message = [&](const std::string& field, const std::string& text) {
    EmbedJob job = small_embed_job(scratch, "out");
    EXPECT_TRUE(job.set_field(field, text)) << field;
    try {
      train(job);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("model.from", ""), "model.from: expected the folder of a text encoder, found none");
  EXPECT_EQ(message("data.train", ""), "data.train: expected a file of sentence pairs, found none");
  expect_contains(message("data.train", "-"),
                  "data.train -: expected a file, as a resumed run reads it again, ");
  EXPECT_NE(message("data.train", (scratch / "missing.tsv").string()).find("missing.tsv"), std::string::npos);
  expect_contains(message("data.valid", scratch.write("empty.tsv", "").string()), "found an empty file");
  expect_contains(message("model.from", QKV_TEST_DATA "/models/golden/vit_base"), "a text encoder");
  EXPECT_EQ(message("train.temperature", "0"), "train.temperature: expected more than 0, found 0");
  EXPECT_EQ(message("train.batch_pairs", "0"), "train.batch_pairs: expected 1 or more, found 0");
  EXPECT_EQ(message("model.drop_path", "1"), "model.drop_path: expected 0 to below 1, found 1");
  EmbedJob unscored = small_embed_job(scratch, "out");
  unscored.train = scratch.write("pairs.tsv", matching_pairs());
  unscored.task.loss = EmbedLoss::cosent;
  EXPECT_EQ(message_of<UsageError>([&] { train(unscored); }),
            "train.loss = cosent: expected lines of a score and two sentences, found pairs without scores");
}

// Settings that are not given follow a folder of sentence-transformers.
TEST(EmbedTask, TakesTheSettingsOfSentenceTransformers) {
  const Scratch scratch;
  EmbedJob job = small_embed_job(scratch, "first");
  job.task.pooling = pipelines::Pooling::max;
  job.task.normalize = false;
  job.task.max_length = 9;
  job.options.schedule.warmup_steps = 0;
  job.options.max_steps = 1;
  train(job);
  EmbedJob next;
  next.from = job.folder;
  next.complete({"train.max_length"});
  EXPECT_EQ(next.task.pooling, pipelines::Pooling::max);
  EXPECT_FALSE(next.task.normalize);
  EXPECT_EQ(next.task.max_length, 128);
  next.complete({"model.pooling"});
  EXPECT_EQ(next.task.max_length, 9);
  EXPECT_EQ(next.options.max_epochs, 3);
  next.options.max_epochs = 0;
  next.complete({"train.max_steps"});
  EXPECT_EQ(next.options.max_epochs, 0);
}

}  // namespace
}  // namespace qkv::train
