// Language modelling: learning, resuming, messages, exported folders.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/pipelines/score.h"
#include "qkv/search/language.h"
#include "qkv/train/tasks/lm/lm.h"
#include "tests/support/letters.h"
#include "tests/support/scratch.h"
#include "tests/train/recorder.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::message_of;
using testing::Scratch;

// Documents of one and of two lines.
std::string rhymes(int documents) {
  std::string text;
  for (int i = 0; i < documents; ++i) {
    text += i % 2 == 0 ? "the cat sat on the mat.\n" : "the dog\ndug in the bog.\n";
    text += "\n";
  }
  return text;
}

constexpr const char* kLetters = "\n .abcdeghimnostu";

class LanguageModelling : public ::testing::Test {
 protected:
  LanguageModelling() {
    scratch_.write("tokenizer/tokenizer.json", testing::letters_json(kLetters, '.'));
    scratch_.write("tokenizer/tokenizer_config.json", R"({"eos_token": ".", "unk_token": "<unk>"})");
    scratch_.write("train.txt", rhymes(60));
    scratch_.write("valid.txt", rhymes(6));
  }

  // A short run in this folder, of everything with a state.
  LmJob job(const std::string& folder, LmBlocks blocks = LmBlocks::gpt2) const {
    LmJob result;
    result.folder = scratch_ / folder;
    result.existing = IfRunExists::resume;
    result.blocks = blocks;
    result.shape = {.layers = 1,
                    .d_model = 32,
                    .heads = 2,
                    .d_ff = 64,
                    .max_positions = 16,
                    .dropout = 0.1f,
                    .attention_dropout = 0.1f};
    result.corpus.train = scratch_ / "train.txt";
    result.corpus.valid = scratch_ / "valid.txt";
    result.corpus.tokenizer = (scratch_ / "tokenizer").string();
    result.task.batch_tokens = 120;
    result.options.accumulate = 2;
    result.options.optimizer.average_decay = 0.9f;
    result.options.schedule = {.warmup_steps = 5, .learning_rate = 0.01f};
    result.options.max_steps = 24;
    result.options.validate_every = 8;
    result.options.checkpoint_every = 5;
    result.options.log_every = 3;
    return result;
  }

  Scratch scratch_;
};

TEST_F(LanguageModelling, LearnsAndWritesFoldersThatGenerate) {
  for (const LmBlocks blocks : {LmBlocks::gpt2, LmBlocks::llama}) {
    const std::string name = blocks == LmBlocks::gpt2 ? "gpt2" : "llama";
    SCOPED_TRACE(name);
    LmJob run = job(name, blocks);
    run.shape.dropout = run.shape.attention_dropout = 0;
    run.shape.max_positions = 32;
    run.options.accumulate = 1;
    run.options.max_steps = 200;
    run.options.validate_every = 50;
    Recorder observer;
    const TrainResult result = run_job(run, observer);
    EXPECT_GT(observer.losses.front(), 2.3);
    EXPECT_LT(result.best.at("loss"), 0.25);
    EXPECT_EQ(result.best_by.name, "perplexity");
    EXPECT_NEAR(result.best.at("perplexity"), std::exp(result.best.at("loss")), 1e-9);
    EXPECT_EQ(observer.start.task.items, "sequences");
    EXPECT_EQ(observer.start.task.sizes.front().second, 18);
    const std::vector<std::string>& samples = observer.validations.back().evaluation.samples;
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_EQ(samples[0].substr(0, 4), "the ") << samples[0];

    const pipelines::TextGenerator generator(run.folder);
    const std::vector<pipelines::Prompt> prompts{{.text = "the c"}, {.text = "the d"}};
    const auto generated = generator(prompts, generator.default_options());
    EXPECT_EQ(generated.at(0).completions.at(0).text, "at sat on the mat") << "the end token is no text";
    EXPECT_EQ(generated.at(1).completions.at(0).text, "og\ndug in the bog");
    EXPECT_TRUE(pipelines::check_proof(run.folder).good());
    const auto config = nlohmann::json::parse(read_file(run.folder / "config.json"));
    EXPECT_EQ(config["architectures"][0], blocks == LmBlocks::gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM");
    const auto generation = nlohmann::json::parse(read_file(run.folder / "generation_config.json"));
    EXPECT_EQ(generation["eos_token_id"], config["eos_token_id"]);
    EXPECT_EQ(saved_document_bounds(run.folder), data::DocumentBounds::blank_lines);
  }
}

// The loss is that of `qkv score` for documents that fit into the context, up to rounding.
TEST_F(LanguageModelling, TheValidationLossIsTheScoreOfItsDocuments) {
  LmJob run = job("out");
  run.shape.max_positions = 64;
  Recorder observer;
  const TrainResult result = run_job(run, observer);
  const auto model = pipelines::open_language_model(run.folder);
  const int32_t end = model->model->config().eos_ids.front();
  double nll = 0;
  int64_t labels = 0, bytes = 0;
  const data::Documents documents =
      data::read_documents(scratch_ / "valid.txt", data::DocumentBounds::blank_lines);
  for (const std::string& text : documents.texts) {
    std::vector<int32_t> ids = model->tokenizer.encode(text, {.special_tokens = false, .truncation = {}}).ids;
    ids.insert(ids.begin(), end);
    ids.push_back(end);
    const std::vector<search::Ids> one{ids};
    const std::vector<std::vector<float>> scores = search::score(*model->model, one);
    for (const float log_probability : scores.front()) nll -= static_cast<double>(log_probability);
    labels += std::ssize(ids) - 1;
    bytes += std::ssize(text);
  }
  EXPECT_NEAR(result.best.at("loss"), nll / static_cast<double>(labels), 1e-5);
  EXPECT_NEAR(result.best.at("bits_per_byte"), nll / std::log(2.0) / static_cast<double>(bytes), 1e-5);
}

// A stream has no tokens around it; its windows overlap in an evaluation, and the stride matters.
TEST_F(LanguageModelling, AStreamIsScoredWithContext) {
  LmJob run = job("out");
  run.corpus.documents = data::DocumentBounds::none;
  Recorder observer;
  run_job(run, observer);
  const auto model = pipelines::open_language_model(run.folder);
  EXPECT_EQ(saved_document_bounds(run.folder), data::DocumentBounds::none);
  const data::TokenDocuments stream = data::tokenize_documents(
      data::read_documents(scratch_ / "valid.txt", data::DocumentBounds::none), model->tokenizer);
  const LmScore half = score_documents(*model->model, stream).value();
  EXPECT_EQ(half.labels, half.bytes - 1);
  EXPECT_EQ(half.loss(), score_documents(*model->model, stream, {.stride = 8, .batch_tokens = 7})->loss());
  EXPECT_NEAR(half.loss(), observer.validations.back().evaluation.loss, 1e-6);
  // By hand, with a window for each token.
  double nll = 0;
  for (int64_t token = 1; token < stream.tokens(); ++token) {
    const int64_t begin = std::max<int64_t>(0, token - 16);
    const std::vector<search::Ids> window{
        std::span(stream.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(token - begin + 1))};
    nll -= static_cast<double>(search::score(*model->model, window).front().back());
  }
  const double every = score_documents(*model->model, stream, {.stride = 1})->nll;
  EXPECT_NEAR(every, nll, 1e-3);
  EXPECT_GT(std::fabs(every - half.nll), 1e-3);
}

TEST_F(LanguageModelling, InterruptedAndResumedEndsInTheSameBits) {
  for (const LmBlocks blocks : {LmBlocks::gpt2, LmBlocks::llama}) {
    const std::string name = blocks == LmBlocks::gpt2 ? "gpt2" : "llama";
    SCOPED_TRACE(name);
    Recorder whole;
    run_job(job(name + "-whole", blocks), whole);
    for (const int64_t step : {7, 13, 13, 21}) {
      Recorder part;
      part.fail_after = step;
      EXPECT_THROW(run_job(job(name + "-part", blocks), part), IoError);
    }
    Recorder rest;
    run_job(job(name + "-part", blocks), rest);
    EXPECT_GT(rest.start.resumed_from, 15);
    for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
                             "generation_config.json", "log.jsonl", "curve.svg"}) {
      EXPECT_EQ(read_file(scratch_ / (name + "-whole") / file), read_file(scratch_ / (name + "-part") / file))
          << file;
    }
  }
}

// A run that starts from a folder begins with its loss, and resumes when the folder has vanished.
TEST_F(LanguageModelling, StartsFromAFolder) {
  for (const LmBlocks blocks : {LmBlocks::gpt2, LmBlocks::llama}) {
    const std::string name = blocks == LmBlocks::gpt2 ? "gpt2" : "llama";
    SCOPED_TRACE(name);
    LmJob first = job(name, blocks);
    first.options.optimizer.average_decay = 0;
    Recorder before;
    const TrainResult trained = run_job(first, before);
    const auto starting = [&](const std::string& folder) {
      LmJob run = job(folder);
      run.from = first.folder;
      run.complete({"model.from", "schedule.learning_rate", "train.max_steps"});
      run.options.optimizer.average_decay = 0;
      return run;
    };
    LmJob still = starting(name + "-still");
    still.options.schedule.learning_rate = 1e-30f;
    still.options.max_steps = 8;
    Recorder observer;
    EXPECT_NEAR(run_job(still, observer).best.at("loss"), trained.best.at("loss"), 1e-6);
    EXPECT_EQ(models::family_of(still.folder), name);

    run_job(starting(name + "-whole"), observer);
    LmJob part = starting(name + "-part");
    Recorder failing;
    failing.fail_after = 11;
    EXPECT_THROW(run_job(part, failing), IoError);
    std::filesystem::remove_all(first.folder);
    run_job(part, observer);
    for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "log.jsonl"}) {
      EXPECT_EQ(read_file(scratch_ / (name + "-whole") / file), read_file(scratch_ / (name + "-part") / file))
          << file;
    }
    LmJob other = job("other");
    other.from = scratch_ / (name + "-whole");
    other.options.max_epochs = 40;
    other.complete({"model.from"});
    EXPECT_EQ(other.options.max_epochs, 3) << "without a limit of the user's";
    expect_throw<UsageError>("model.d_model: expected none with model.from", [&] {
      other.complete({"model.from", "model.d_model"});
    });
  }
}

TEST_F(LanguageModelling, SamplesDoNotChangeTheRun) {
  LmJob without = job("without");
  without.task.samples = 0;
  Recorder observer, silent;
  run_job(job("with"), observer);
  run_job(without, silent);
  EXPECT_EQ(read_file(scratch_ / "with/model.safetensors"),
            read_file(scratch_ / "without/model.safetensors"));
  EXPECT_TRUE(silent.validations.back().evaluation.samples.empty());
  const std::string log = read_file(scratch_ / "with/log.jsonl");
  EXPECT_NE(log.find("\"samples\":[\""), std::string::npos);
  EXPECT_EQ(read_file(scratch_ / "without/log.jsonl").find("samples"), std::string::npos);
}

TEST_F(LanguageModelling, HoldsOutTheEndOfTheText) {
  LmJob run = job("out");
  run.corpus.valid.clear();
  Recorder observer;
  run_job(run, observer);
  // 60 documents: 54 train.
  EXPECT_EQ(observer.start.task.train_items, 2 * 54);
  EXPECT_EQ(observer.start.task.valid_items, 2 * 6);
  LmJob none = job("none");
  none.corpus.valid.clear();
  none.corpus.valid_share = 0;
  Recorder unvalidated;
  run_job(none, unvalidated);
  EXPECT_EQ(unvalidated.start.task.valid_items, 0);
  EXPECT_TRUE(unvalidated.validations.empty());
}

TEST_F(LanguageModelling, OtherSettingsOrDataAreRefusedByName) {
  LmJob first = job("out");
  first.options.max_steps = 3;
  Recorder observer;
  run_job(first, observer);
  const auto refused = [&](auto change) {
    LmJob other = job("out");
    change(other);
    return message_of<UsageError>([&] { run_job(other, observer); });
  };
  const auto expect = [&](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refused([](LmJob& other) { other.blocks = LmBlocks::llama; }),
         "resume: model.blocks: expected gpt2 as in the checkpoint, found llama");
  expect(refused([](LmJob& other) { other.shape.max_positions = 17; }),
         "resume: model.max_positions: expected 16 as in the checkpoint, found 17");
  expect(refused([](LmJob& other) { other.task.batch_tokens = 121; }),
         "resume: train.batch_tokens: expected 120 as in the checkpoint, found 121");
  expect(refused([](LmJob& other) { other.corpus.documents = data::DocumentBounds::lines; }),
         "resume: data.documents: expected blank-lines as in the checkpoint, found lines");
  expect(refused([&](LmJob& other) { other.corpus.train = scratch_ / "valid.txt"; }),
         "data.fingerprint: the data are not those of the checkpoint");
}

TEST_F(LanguageModelling, NamesWhatIsWrong) {
  Recorder observer;
  const auto refused = [&](auto change) {
    LmJob other = job("bad");
    change(other);
    return message_of<Error>([&] { run_job(other, observer); });
  };
  const auto expect = [&](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refused([](LmJob& other) { other.corpus.train.clear(); }), "data.train: expected a file");
  expect(refused([](LmJob& other) { other.corpus.train = "-"; }), "expected a file, as a resumed run");
  expect(refused([](LmJob& other) { other.shape.heads = 5; }),
         "model.heads: expected a divisor of d_model 32");
  expect(refused([](LmJob& other) { other.shape.key_heads = 1; }), "model.key_heads: expected 0 or 2");
  expect(refused([](LmJob& other) { other.corpus.valid_share = 1; }),
         "data.valid_share: expected 0 to below 1, found 1");
  expect(refused([&](LmJob& other) { other.corpus.train = scratch_.write("empty", ""); }),
         "empty: expected text, found an empty file");
  expect(refused([&](LmJob& other) { other.corpus.train = scratch_.write("bytes", "\xFF\n"); }),
         "bytes, line 1, byte 1: expected UTF-8");
  expect(refused([&](LmJob& other) {
           other.corpus.train = scratch_.write("one", "a");
           other.corpus.documents = data::DocumentBounds::none;
           other.corpus.tokenizer = (scratch_ / "nowhere").string();
         }),
         "nowhere");
  scratch_.write("endless/tokenizer.json", testing::letters_json("ab"));
  expect(refused([&](LmJob& other) { other.corpus.tokenizer = (scratch_ / "endless").string(); }),
         "endless: expected a tokenizer with an end token");
}

TEST_F(LanguageModelling, WarnsOfUnknownCharactersAndShortTexts) {
  std::vector<std::string> said;
  set_log_sink([&](LogLevel level, const std::string& message) {
    if (level == LogLevel::warning) said.push_back(message);
  });
  LmJob run = job("out");
  run.corpus.documents = data::DocumentBounds::none;
  run.corpus.train = scratch_.write("short", "the cat.\n");
  run.corpus.valid = scratch_.write("unknown", "THE cat äö.\n");
  run.options.max_steps = 2;
  Recorder observer;
  run_job(run, observer);
  set_log_sink({});
  ASSERT_EQ(said.size(), 2u);
  expect_contains(said[0], "short: 9 tokens are fewer than model.max_positions = 16");
  expect_contains(said[1], "unknown: 5 of 12 tokens stand for characters outside the vocabulary");
}

}  // namespace
}  // namespace qkv::train
