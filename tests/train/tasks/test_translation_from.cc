// Fine-tuning of encoder-decoders: the folder's family, tokenizer and options stay.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "qkv/base/files.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/pipelines/translate.h"
#include "qkv/train/tasks/translation/translation.h"
#include "tests/train/killed.h"
#include "tests/train/label_run.h"

namespace qkv::train {
namespace {

using testing::expect_contains;
using testing::expect_throw;
using testing::Scratch;

// "twenty-one" to "one and twenty", in the words of the golden folders of Marian and T5.
data::CorpusFiles write_turned_numbers(const Scratch& scratch, const std::string& name, int step) {
  constexpr std::array kTens{"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
  constexpr std::array kUnits{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  std::string source, target;
  for (size_t i = 0; i < kTens.size() * kUnits.size(); i += static_cast<size_t>(step)) {
    const std::string ten = kTens.at(i / kUnits.size()), unit = kUnits.at(i % kUnits.size());
    source += concat(ten, "-", unit, "\n");
    target += concat(unit, " and ", ten, "\n");
  }
  return {scratch.write(name + ".source", source), scratch.write(name + ".target", target)};
}

struct Losses : TrainObserver {
  std::vector<double> losses;
  void on_step(const StepReport& report) override { losses.push_back(report.loss); }
};

struct Translation {
  explicit Translation(const std::string& family) {
    const std::filesystem::path golden = std::filesystem::path(QKV_TEST_DATA) / "pipelines" / "golden";
    if (family == "qkv") {
      write_own(golden / "marian");
    } else {
      std::filesystem::copy(golden / family, scratch / "start");
    }
    job.train = write_turned_numbers(scratch, "train", 1);
    job.valid = write_turned_numbers(scratch, "valid", 5);
    job.folder = scratch / "run";
    job.from = scratch / "start";
    job.task.batch_tokens = 200;
    job.task.bleu_every = 0;
    job.options.accumulate = 2;
    job.options.schedule.learning_rate = 0.01f;
    job.options.max_steps = 12;
    job.options.validate_every = 4;
    job.options.checkpoint_every = 3;
    job.options.log_every = 3;
    job.complete({"schedule.learning_rate", "train.max_steps"});
    job.options.max_epochs = 0;
  }
  // A model that no other family can express, of another family's tokenizer.
  void write_own(const std::filesystem::path& tokenizer) {
    models::TransformerConfig config = models::load_transformer(tokenizer)->config();
    config.norm = nn::NormPlacement::pre;
    config.positions = nn::PositionKind::rotary;
    const models::Transformer model(config);
    nn::initialise(model, 3);
    std::filesystem::create_directories(scratch / "start");
    text::TranslationTokenizer::load(tokenizer).save(scratch / "start");
    models::save_transformer(scratch / "start", model, {.beam = 3, .max_new_tokens = 40});
  }
  std::string file(const std::string& name) const { return read_file(scratch / name); }
  static std::vector<std::string> texts(const pipelines::Translator& translator) {
    const std::vector<std::string> sources{"twenty-one", "fifty-four", "ninety - six"};
    std::vector<std::string> found;
    for (const auto& one : translator(sources, translator.default_options())) {
      EXPECT_EQ(one.error, "");
      found.push_back(one.text);
    }
    return found;
  }
  TrainResult run() const {
    TrainObserver quiet;
    return run_job(job, quiet);
  }

  Scratch scratch;
  TranslationJob job;
};

std::map<std::string, Tensor> parameters_at(const std::filesystem::path& folder) {
  std::map<std::string, Tensor> values;
  models::load_transformer(folder, {.trainable = true})
      ->visit([&](const std::string& name, const nn::Parameter& parameter) {
        values[name] = parameter.variable.value().clone();
      });
  return values;
}

TEST(TranslationFrom, KeepsFamilyTokenizerAndOptions) {
  for (const std::string family : {"marian", "t5", "qkv"}) {
    SCOPED_TRACE(family);
    const Translation own(family);
    EXPECT_EQ(own.job.options.schedule.kind, ScheduleKind::linear);
    EXPECT_EQ(own.run().steps, 12);
    EXPECT_EQ(models::family_of(own.job.folder), family);
    EXPECT_EQ(models::fields(models::read_transformer_config(own.job.folder)),
              models::fields(models::read_transformer_config(own.job.from)));
    EXPECT_EQ(own.file("run/generation_config.json"), own.file("start/generation_config.json"));
    for (const std::filesystem::path& file : files_in(own.scratch / "start")) {
      const std::string name = file.filename().string();
      const bool tokenizer = name.find("token") != name.npos || name.find("vocab") != name.npos ||
                             name.ends_with(".spm") || name.ends_with(".model");
      if (!tokenizer) continue;
      EXPECT_EQ(own.file("run/" + name), own.file("start/" + name)) << name;
    }
    EXPECT_TRUE(pipelines::check_proof(own.job.folder).good());
    const pipelines::Translator translator(own.job.folder);
    EXPECT_NE(Translation::texts(translator), Translation::texts(pipelines::Translator(own.job.from)));
    // Adam moves a weight by about the learning rate in each step: the run began at the folder's weights.
    const auto theirs = parameters_at(own.job.from);
    double moved = 0;
    for (const auto& [name, value] : parameters_at(own.job.folder)) {
      const Tensor& other = theirs.at(name);
      ASSERT_EQ(other.shape(), value.shape());
      for (int64_t i = 0; i < value.numel(); ++i)
        moved = std::max(moved, std::abs(double{value.data()[i]} - double{other.data()[i]}));
    }
    EXPECT_GT(moved, 0.01);
    EXPECT_LT(moved, 12 * 0.01 * 1.5);
  }
}

TEST(TranslationFrom, Learns) {
  for (const std::string family : {"marian", "t5"}) {
    SCOPED_TRACE(family);
    Translation own(family);
    own.job.options.max_steps = 120;
    own.job.options.validate_every = 60;
    own.job.options.accumulate = 1;
    own.job.options.optimizer.average_decay = 0;
    own.job.options.schedule.learning_rate = 0.02f;
    own.job.task.label_smoothing = 0;
    own.job.config.dropout = own.job.config.embedding_dropout = own.job.config.attention_dropout =
        own.job.config.activation_dropout = 0;
    Losses curve;
    const TrainResult result = run_job(own.job, curve);
    EXPECT_GT(curve.losses.front(), 3);
    EXPECT_LT(result.best.at("loss"), 0.5 * curve.losses.front());
  }
}

// The start folder may vanish once the run has a checkpoint.
TEST(TranslationFrom, KilledAndResumedWithoutTheFolderEndsInTheSameBits) {
  for (const std::string family : {"marian", "t5"}) {
    SCOPED_TRACE(family);
    Translation own(family);
    own.run();
    own.job.folder = own.scratch / "part";
    own.job.existing = IfRunExists::resume;
    testing::run_killed(own.job, 5);
    std::filesystem::remove_all(own.scratch / "start");
    testing::run_killed(own.job, 10);
    own.run();
    for (const char* name : {"model.safetensors", "config.json", "generation_config.json",
                             "tokenizer_config.json", "start/config.json"})
      EXPECT_EQ(own.file(concat("run/", name)), own.file(concat("part/", name))) << name;
    // Before that, it is needed.
    own.job.folder = own.scratch / "new";
    expect_throw<IoError>("there is no such folder", [&] { own.run(); });
  }
}

TEST(TranslationFrom, SettingsThatTheFolderDecidesAreRefused) {
  Translation own("t5");
  EXPECT_EQ(own.job.config.d_model, 16);
  EXPECT_EQ(own.job.config.positions, nn::PositionKind::relative);
  for (const char* field :
       {"model.d_model", "model.tying", "vocabulary.size", "vocabulary.model", "vocabulary.source_lang"}) {
    expect_throw<UsageError>(concat(field, ": expected none with model.from"),
                             [&] { own.job.complete({field}); });
  }
  own.job.config.dropout = 0.25f;
  own.job.complete({"model.from", "model.dropout"});
  EXPECT_EQ(own.job.config.dropout, 0.25f);
  EXPECT_EQ(own.job.config.attention_dropout, 0.1f);
  EXPECT_EQ(own.job.options.schedule.learning_rate, 5e-5f);
  EXPECT_EQ(own.job.options.max_epochs, 3);
  own.job.config.dropout = 1.5f;
  expect_throw<UsageError>("model.dropout: expected", [&] { own.run(); });
}

TEST(TranslationFrom, RefusesOtherFolders) {
  Translation own("marian");
  const auto refused = [&](const std::string& name, const std::string& kind) {
    own.job.from = testing::golden_model(name);
    expect_throw<UsageError>(concat("expected the folder of an encoder-decoder, found ", kind),
                             [&] { own.job.complete({}); });
  };
  refused("gpt2", "\"gpt2\", a language model");
  refused("bert_base", "\"bert\", a text encoder");
  refused("t5_encoder", "\"t5\", a text encoder");
  // A tokenizer that ends texts with another token than the model.
  Translation other("t5");
  std::string config = other.file("start/config.json");
  const std::string field = "\"eos_token_id\": 1";
  config.replace(config.find(field), field.size(), "\"eos_token_id\": 5");
  write_file_atomically(other.scratch / "start/config.json", config);
  expect_throw<DataError>("eos_token_id, 5, found 1", [&] { other.run(); });
  for (const std::string family : {"bart", "nllb"})
    expect_throw<DataError>("texts begin with <s> or a language", [&] { Translation(family).run(); });
}

// LoRA: the run's folder is an adapter of the start folder; merging gives the same translations.
TEST(TranslationFrom, AnAdapterTranslatesAsItsMergedModel) {
  for (const std::string family : {"marian", "t5"}) {
    SCOPED_TRACE(family);
    Translation own(family);
    own.job.options.lora = {.rank = 3, .alpha = 6, .targets = "q_proj,v_proj,fc1,fc2"};
    own.job.options.max_steps = 60;
    own.job.options.validate_every = 30;
    own.job.options.optimizer.average_decay = 0;
    Losses curve;
    const TrainResult result = run_job(own.job, curve);
    EXPECT_LT(result.best.at("loss"), 0.9 * curve.losses.front());
    EXPECT_FALSE(std::filesystem::exists(own.job.folder / "model.safetensors"));
    EXPECT_FALSE(std::filesystem::exists(own.job.folder / "config.json")) << "it has no head of its own";
    const auto base = Translation::texts(pipelines::Translator(own.job.from)),
               adapted = Translation::texts(pipelines::Translator(own.job.from, {.adapter = own.job.folder}));
    EXPECT_NE(adapted, base);
    models::merge_adapter(own.job.from, own.job.folder, own.scratch / "merged");
    EXPECT_EQ(Translation::texts(pipelines::Translator(own.scratch / "merged")), adapted);
    const std::string names = own.file("run/adapter_config.json");
    expect_contains(names, family == "t5" ? "\"decoder.block.0.layer.1.EncDecAttention.q\""
                                          : "\"model.decoder.layers.0.encoder_attn.q_proj\"");

    // Resumed, it ends in the same bits.
    own.job.folder = own.scratch / "part";
    own.job.existing = IfRunExists::resume;
    testing::run_killed(own.job, 30);
    own.run();
    EXPECT_EQ(own.file("part/adapter_model.safetensors"), own.file("run/adapter_model.safetensors"));
  }
  Translation none("t5");
  none.job.from.clear();
  none.job.config = models::preset("tiny");
  none.job.options.lora.rank = 2;
  expect_throw<UsageError>("lora.rank: expected a run that starts from", [&] { none.run(); });
}

}  // namespace
}  // namespace qkv::train
