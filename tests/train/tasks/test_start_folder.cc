// Runs that start from a model folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/pipelines/classify.h"
#include "tests/models/folder_copy.h"
#include "tests/train/killed.h"
#include "tests/train/label_run.h"
#include "tests/train/same_run.h"

namespace qkv::train {
namespace {

using models::FolderKind;
using testing::expect_throw;
using testing::golden_model;
using testing::Scratch;

std::map<std::string, Tensor> values_of(const models::TextEncoder& model) {
  std::map<std::string, Tensor> values;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    values[name] = parameter.variable.value();
  });
  return values;
}

bool same_bytes(const Tensor& x, const Tensor& y) {
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.as_bytes().data(), y.as_bytes().data(), x.bytes()) == 0;
}

// Names of the parameters of a model of `config` that are those of the folder, after initialise_from().
std::vector<std::string> kept(const std::filesystem::path& folder, const models::TextEncoderConfig& config) {
  const models::TextEncoder model(config);
  initialise_from(folder, model, 5);
  const auto source = models::load_text_encoder(folder, {.dtype = DType::f32});
  const auto theirs = values_of(*source);
  std::vector<std::string> names;
  for (const auto& [name, value] : values_of(model)) {
    EXPECT_TRUE(value.defined()) << name;
    const auto found = theirs.find(name);
    if (found != theirs.end() && same_bytes(found->second, value)) names.push_back(name);
  }
  model.visit([](const std::string& name, const nn::Parameter& parameter) {
    EXPECT_TRUE(parameter.variable.requires_grad()) << name;
    EXPECT_EQ(parameter.variable.value().dtype(), DType::f32) << name;
  });
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

size_t parameters_of(const std::filesystem::path& folder) {
  return nn::parameters_of(*models::load_text_encoder(folder)).size();
}

TEST(StartFolder, KeepsWhatTheModelHasAndRenewsOtherHeads) {
  const auto folder = golden_model("bert_texts");
  models::TextEncoderConfig config = models::read_text_encoder_config(folder);
  EXPECT_EQ(kept(folder, config).size(), parameters_of(folder)) << "the same labels: the classifier too";
  config.labels = {"bad", "good", "so-so"};
  std::vector<std::string> names = kept(folder, config);
  EXPECT_EQ(names.size(), parameters_of(folder) - 2) << "other labels: all but the classifier";
  EXPECT_FALSE(has(names, "classifier.weight"));
  EXPECT_TRUE(has(names, "pooler.weight"));
  config.labelled = models::ClassificationTarget::tokens;
  config.labels = {"bad", "so-so", "good"};
  config.pooler = false;
  EXPECT_FALSE(has(kept(folder, config), "classifier.bias")) << "of tokens";

  // A masked-language model lacks a pooler; its own head is not needed.
  models::TextEncoderConfig texts = models::read_text_encoder_config(golden_model("bert_masked"));
  texts.masked_language = false;
  texts.pooler = true;
  texts.labelled = models::ClassificationTarget::texts;
  texts.labels = {"x", "y"};
  names = kept(golden_model("bert_masked"), texts);
  EXPECT_TRUE(has(names, "encoder.layers.1.fc2.weight"));
  EXPECT_FALSE(has(names, "pooler.weight"));
}

// As transformers does: BertForSequenceClassification takes the pooler of a folder of BertForMaskedLM.
TEST(StartFolder, KeepsStoredHeadsThatTheClassOfTheFolderLacks) {
  const testing::FolderCopy copy("bert_pretraining");
  const auto pretraining = values_of(*models::load_text_encoder(copy.folder.path(), {.dtype = DType::f32}));
  copy.replace("config.json", "BertForPreTraining", "BertForMaskedLM");
  models::TextEncoderConfig config = models::read_text_encoder_config(copy.folder.path());
  EXPECT_FALSE(config.pooler);
  config.pooler = config.next_sentence = true;
  const models::TextEncoder model(config);
  initialise_from(copy.folder.path(), model, 5);
  const auto values = values_of(model);
  EXPECT_EQ(values.size(), pretraining.size());
  for (const auto& [name, value] : values) EXPECT_TRUE(same_bytes(value, pretraining.at(name))) << name;
  EXPECT_FALSE(models::load_text_encoder(copy.folder.path())->config().pooler) << "unless they are wanted";
}

TEST(StartFolder, ReadsAllFamiliesOfTextEncoders) {
  for (const char* name : {"roberta_masked", "distilbert_masked", "bert_pretraining+bf16"}) {
    SCOPED_TRACE(name);
    models::TextEncoderConfig config = models::read_text_encoder_config(golden_model(name));
    config.masked_language = config.next_sentence = false;
    config.pooler = true;
    config.labelled = models::ClassificationTarget::texts;
    config.labels = {"x", "y"};
    EXPECT_GT(kept(golden_model(name), config).size(), 30u);
    models::require_expressible(config, models::family_of(golden_model(name)));
  }
  models::TextEncoderConfig t5 = models::read_text_encoder_config(golden_model("t5_encoder"));
  t5.pooler = true;
  t5.labelled = models::ClassificationTarget::texts;
  t5.labels = {"x", "y"};
  EXPECT_THROW(models::require_expressible(t5, "t5"), UsageError);
}

TEST(StartFolder, Int8WeightsBecomeF32) {
  const Scratch scratch;
  models::quantize_folder(golden_model("bert_base"), scratch / "int8", DType::i8);
  const models::TextEncoderConfig config = models::read_text_encoder_config(scratch / "int8");
  EXPECT_EQ(kept(scratch / "int8", config).size(), parameters_of(golden_model("bert_base")));
}

TEST(StartFolder, RefusesOtherFolders) {
  const Scratch scratch;
  const auto refused = [&](const std::string& name, const std::string& message) {
    expect_throw<UsageError>(
        message, [&] { StartFolder(golden_model(name), FolderKind::encoder, {}, /*resumes=*/false); });
  };
  refused("t5", "expected the folder of a text encoder, found \"t5\", an encoder-decoder");
  refused("vit_base", "expected the folder of a text encoder, found \"vit\", an image encoder");
  // A language model is an encoder, too, but an encoder no language model.
  EXPECT_EQ(StartFolder(golden_model("gpt2"), FolderKind::encoder, {}, /*resumes=*/false).family(), "gpt2");
  expect_throw<UsageError>("expected the folder of a language model, found \"bert\", a text encoder", [] {
    StartFolder(golden_model("bert_base"), FolderKind::language, {}, /*resumes=*/false);
  });
  EXPECT_THROW(StartFolder(scratch / "nowhere", FolderKind::encoder, {}, false), IoError);
  // A model of other sizes than when the run was set up.
  models::TextEncoderConfig config = models::read_text_encoder_config(golden_model("bert_base"));
  config.encoder.each([](nn::LayerOptions& layer) { layer.d_ff += 4; });
  const models::TextEncoder model(config);
  expect_throw<DataError>("encoder.layers.0.fc1.weight: expected [16, 8], found [12, 8]",
                          [&] { initialise_from(golden_model("bert_base"), model, 1); });
}

TEST(StartFolder, RefusesATokenizerLargerThanTheModel) {
  const Scratch scratch;
  std::filesystem::copy(golden_model("bert_base"), scratch / "model");
  std::string json = read_file(scratch / "model/tokenizer.json");
  const size_t at = json.find("\"bad\"");
  ASSERT_NE(at, std::string::npos);
  json.insert(at, "\"more\": 23, ");
  write_file_atomically(scratch / "model/tokenizer.json", json);
  const StartFolder start(scratch / "model", FolderKind::encoder, {}, false);
  expect_throw<DataError>("expected a tokenizer of at most the model's 23 tokens, found 24",
                          [&] { start.tokenizer(23); });
}

struct FineTuning {
  explicit FineTuning(const std::string& model = "bert_texts") {
    std::filesystem::copy(golden_model(model), scratch / "start", std::filesystem::copy_options::recursive);
    job.train = scratch.write("train.txt", testing::colour_texts(40));
    job.valid = scratch.write("valid.txt", testing::colour_texts(10));
    job.folder = scratch / "run";
    job.encoder.from = scratch / "start";
    job.options.max_steps = 12;
    job.options.checkpoint_every = 4;
    job.complete({"train.max_steps", "train.checkpoint_every"});
    job.options.max_epochs = 0;
  }
  void run() const {
    TrainObserver observer;
    run_job(job, observer);
  }

  Scratch scratch;
  ClassifyJob job;
};

// The folder's labels are bad, so-so, good: its classifier stays, and so do its labels.
TEST(StartFolder, ARunStartsFromItAndKeepsItsClassifier) {
  const FineTuning own;
  EXPECT_EQ(own.job.encoder.shape.d_model, 8);
  EXPECT_EQ(own.job.options.schedule.learning_rate, 5e-5f);
  own.run();
  const auto before = models::load_text_encoder(own.scratch / "start"),
             after = models::load_text_encoder(own.job.folder);
  EXPECT_EQ(after->config().labels, before->config().labels);
  const auto theirs = values_of(*before);
  double moved = 0;
  for (const auto& [name, value] : values_of(*after)) {
    const Tensor other = theirs.at(name);
    for (int64_t i = 0; i < value.numel(); ++i) {
      const double change = std::abs(double{value.data()[i]} - double{other.data()[i]});
      moved = std::max(moved, change);
      // Adam moves a weight by about the learning rate in each step.
      ASSERT_LT(change, 12 * 5e-5 * 1.5) << name;
    }
  }
  EXPECT_GT(moved, 1e-4);
  EXPECT_EQ(read_file(own.job.folder / "tokenizer.json"), read_file(own.scratch / "start/tokenizer.json"));
  EXPECT_EQ(pipelines::TextClassifier(own.job.folder)(std::vector<std::string>{"a red dog"})[0].error, "");
}

// The folder may vanish once the run has a checkpoint.
TEST(StartFolder, AResumedRunNeedsNoFolderAndEndsInTheSameBits) {
  FineTuning own;
  own.run();
  own.job.folder = own.scratch / "part";
  own.job.existing = IfRunExists::resume;
  testing::run_killed(own.job, 6);
  std::filesystem::remove_all(own.scratch / "start");
  testing::run_killed(own.job, 10);
  own.run();
  testing::expect_same_files(own.scratch / "run", own.scratch / "part",
                             {"model.safetensors", "config.json", "tokenizer.json", "start/config.json"});
  // Before that, it is needed.
  own.job.folder = own.scratch / "new";
  expect_throw<IoError>("there is no such folder", [&] { own.run(); });
}

// LoRA: the run's folder becomes an adapter with a new head.
TEST(StartFolder, AClassifierCanBeAnAdapter) {
  FineTuning own("bert_base");
  own.job.options.lora.rank = 2;
  own.run();
  EXPECT_FALSE(std::filesystem::exists(own.job.folder / "model.safetensors"));
  const models::LoadOptions options{.adapter = own.job.folder};
  const auto model = models::load_text_encoder(own.scratch / "start", options);
  EXPECT_EQ(model->config().labels, (std::vector<std::string>{"bad", "good"}));
  const pipelines::TextClassifier classifier(own.scratch / "start", options);
  EXPECT_EQ(classifier(std::vector<std::string>{"a red dog"})[0].error, "");
}

TEST(StartFolder, SettingsThatTheFolderDecidesAreRefused) {
  FineTuning own;
  for (const char* field : {"model.layers", "model.d_model", "vocabulary.size", "vocabulary.tokenizer"}) {
    expect_throw<UsageError>(concat(field, ": expected none with model.from"),
                             [&] { own.job.complete({field}); });
  }
  own.job.encoder.shape.dropout = 0.25f;
  own.job.complete({"model.from", "model.dropout", "schedule.learning_rate"});
  EXPECT_EQ(own.job.encoder.shape.dropout, 0.25f);
  EXPECT_EQ(own.job.encoder.shape.attention_dropout, 0.1f);
  EXPECT_EQ(own.job.options.max_epochs, 3);
}

}  // namespace
}  // namespace qkv::train
