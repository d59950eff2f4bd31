// Encoder-decoder folders written by transformers give its results (tests/golden/families.py).

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

const auto kCaseName = [](const auto& info) { return family_name(info.param); };

Ragged part(const Ragged& texts, int64_t i) {
  const int64_t length = texts.offsets.length(i);
  return {texts.values.slice_rows(texts.offsets.begin(i), length), Offsets::uniform(1, length)};
}

class TranslationFamilies : public ::testing::TestWithParam<std::string> {
 protected:
  Tensor logits(const Transformer& model, const Ragged& sources, const Ragged& targets) const {
    nn::ForwardContext context;
    const nn::Memory memory = model.encode(sources, context);
    return model.logits()(model.decode(targets, memory, context)).value();
  }

  const FamilyCase case_ = FamilyCase(GetParam());
  const Ragged targets_{case_.expected["target_ids"],
                        Offsets::of_lengths(case_.expected["target_lengths"].values<int32_t>())};
  const std::unique_ptr<Transformer> model_ = load_transformer(case_.folder);
};

TEST_P(TranslationFamilies, MatchTransformers) {
  for_each_device([&](Device device) {
    const auto model = load_transformer(case_.folder, {.device = device});
    nn::ForwardContext context;
    const AttentionRecorder attention(context);
    const nn::Memory memory = model->encode(case_.texts, context);
    const Variable decoded = model->decode(targets_, memory, context);
    expect_close(flat(memory.values.value()), case_.expected["hidden"], "hidden", 5e-6);
    expect_close(flat(model->logits()(decoded).value()), case_.expected["logits"], "logits", 5e-6);
    attention.expect(case_.expected, 4e-6);
  });
}

TEST_P(TranslationFamilies, GenerateTheTextOfTransformers) {
  for_each_device([&](Device device) {
    const auto model = load_transformer(case_.folder, {.device = device});
    nn::ForwardContext context;
    nn::DecoderState state = model->start(model->encode(part(case_.texts, 0), context));
    std::vector<int32_t> found{static_cast<int32_t>(model->config().decoder_start_id)};
    for (const int32_t expected : case_.expected["greedy"].values<int32_t>()) {
      Tensor next = to_host(model->step(Tensor::from(std::vector{found.back()}, {1}), state));
      // As in transformers' recording, end and padding tokens are never chosen.
      for (const int64_t never : {model->config().eos_id, model->config().pad_id})
        next.data()[never] = -1e30f;
      found.push_back(static_cast<int32_t>(std::ranges::max_element(next.values()) - next.values().begin()));
      ASSERT_EQ(found.back(), expected) << "token " << found.size();
    }
    EXPECT_EQ(found.size(), 13u);
  });
}

TEST_P(TranslationFamilies, SameBitsInAnyBatchAndForAnyThreads) {
  const int before = threads();
  set_threads(1);
  const Tensor together = logits(*model_, case_.texts, targets_);
  for (const int count : {1, 3}) {
    set_threads(count);
    for (int64_t i = 0; i < targets_.offsets.sequences(); ++i) {
      const Tensor alone = logits(*model_, part(case_.texts, i), part(targets_, i));
      const Tensor own = together.slice_rows(targets_.offsets.begin(i), targets_.offsets.length(i));
      EXPECT_TRUE(std::ranges::equal(alone.values(), own.values())) << i;
    }
  }
  set_threads(before);
}

TEST_P(TranslationFamilies, RoundTrip) {
  const Scratch copy;
  const bool found_alone = family_of(case_.folder) == "t5";  // others are written for folders of theirs
  save_transformer(copy.path(), *model_, {}, found_alone ? std::filesystem::path() : case_.folder);
  EXPECT_EQ(folder_kind(copy.path()), FolderKind::translation);
  EXPECT_EQ(family_of(copy.path()), family_of(case_.folder));
  const auto again = load_transformer(copy.path());
  EXPECT_EQ(fields(again->config()), fields(model_->config()));
  EXPECT_TRUE(std::ranges::equal(logits(*again, case_.texts, targets_).values(),
                                 logits(*model_, case_.texts, targets_).values()));
  if (!std::filesystem::exists(case_.folder / "model.safetensors")) return;
  if (family_of(case_.folder) == "pegasus") return;  // transformers stores its sinusoids, too
  expect_same_tensors(copy.path(), case_.folder);
}

INSTANTIATE_TEST_SUITE_P(All, TranslationFamilies,
                         ::testing::ValuesIn(family_cases(FolderKind::translation, "")), kCaseName);

// A copy of a golden folder with part of its config.json replaced.
class T5Config : public ::testing::Test {
 protected:
  std::string message_with(const std::string& from, const std::string& to) {
    std::string text = read_file(FamilyCase("t5").folder / "config.json");
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    folder_.write("config.json", text.replace(at, from.size(), to));
    try {
      load_transformer(folder_.path());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  const Scratch folder_;
};

TEST_F(T5Config, RejectsInvalidFields) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gated-mish\""},
      {"\"is_encoder_decoder\": true", "\"is_encoder_decoder\": false"},
      {"\"T5ForConditionalGeneration\"", "\"T5ForQuestionAnswering\""},
      {"\"d_kv\": 6", "\"d_kv\": \"6\""},
      {"\"relative_attention_num_buckets\": 8", "\"relative_attention_num_buckets\": 7"},
      {"\"d_ff\": 12", "\"d_ff\": 12, \"quantization_config\": {\"bits\": 4}"},
      {"\"T5ForConditionalGeneration\"", "\"T5EncoderModel\""},
      // Checked before a tensor of this size is created.
      {"\"relative_attention_num_buckets\": 8", "\"relative_attention_num_buckets\": 2000000000"},
      {"\"relative_attention_max_distance\": 20", "\"relative_attention_max_distance\": 2000000000"},
      {"\"num_decoder_layers\": 2", "\"num_decoder_layers\": 1000000"},
      {"\"num_heads\": 2", "\"num_heads\": 100000"},
  };
  const char* const names[] = {"feed_forward_proj",
                               "is_encoder_decoder",
                               "architectures",
                               "d_kv",
                               "position_buckets",
                               "quantization_config",
                               "architectures",
                               "position_buckets: expected at most",
                               "position_max_distance: expected at most",
                               "decoder_layers: expected at most",
                               "num_heads (heads): expected at most"};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string message = message_with(cases[i].first, cases[i].second);
    EXPECT_NE(message.find(names[i]), std::string::npos) << message;
    EXPECT_NE(message.find("config.json"), std::string::npos) << message;
  }
}

// Before transformers 5, one field had the meaning of two current ones, and files stored another of the tied
// tables.
TEST_F(T5Config, ReadsOlderFolders) {
  const FamilyCase one("t5_gated");
  const auto expected = load_transformer(one.folder);
  std::string text = read_file(one.folder / "config.json");
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"scale_decoder_outputs\": false,", ""},
                                 {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"}}) {
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
  }
  folder_.write("config.json", text);
  const io::SafetensorsFile file(one.folder / "model.safetensors");
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : file.names())
    tensors.push_back({name == "shared.weight" ? "encoder.embed_tokens.weight" : name, file.tensor(name)});
  io::write_safetensors(folder_ / "model.safetensors", tensors);
  const auto found = load_transformer(folder_.path());
  EXPECT_EQ(fields(found->config()), fields(expected->config()));
  found->visit([&](const std::string& name, const nn::Parameter& parameter) {
    expected->visit([&](const std::string& other, const nn::Parameter& same) {
      if (name != other) return;
      EXPECT_TRUE(std::ranges::equal(parameter.variable.value().values(), same.variable.value().values()))
          << name;
    });
  });
}

}  // namespace
