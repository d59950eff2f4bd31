#include "qkv/models/hub/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/family.h"
#include "tests/models/small_transformer.h"
#include "tests/support/pytorch_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using qkv::testing::message_of;
using qkv::testing::Scratch;

void expect_same_parameters(const Transformer& a, const Transformer& b) {
  std::vector<std::pair<std::string, Tensor>> first;
  a.visit(
      [&](const std::string& name, const nn::Parameter& p) { first.emplace_back(name, p.variable.value()); });
  size_t i = 0;
  b.visit([&](const std::string& name, const nn::Parameter& p) {
    ASSERT_LT(i, first.size());
    EXPECT_EQ(name, first[i].first);
    EXPECT_TRUE(std::ranges::equal(p.variable.value().values(), first[i].second.values())) << name;
    ++i;
  });
  EXPECT_EQ(i, first.size());
}

class Saved : public ::testing::TestWithParam<Tying> {};

TEST_P(Saved, RoundTripsBitForBit) {
  const Scratch folder;
  Transformer model(small(GetParam()));
  nn::initialise(model, 3);
  save_transformer(folder.path(), model, {.beam = 3, .length_penalty = 1.5, .max_new_tokens = 97});
  const auto loaded = load_transformer(folder.path());
  EXPECT_EQ(fields(loaded->config()), fields(model.config()));
  expect_same_parameters(model, *loaded);
}

INSTANTIATE_TEST_SUITE_P(Tyings, Saved,
                         ::testing::Values(Tying::none, Tying::two_way, Tying::three_way, Tying::inputs),
                         [](const auto& tying) { return name_of(tying.param); });

// Fields that Marian's layout cannot express are restored too.
TEST(Folder, KeepsFieldsThatMarianLacks) {
  const std::pair<const char*, const char*> changes[] = {{"gated", "true"},
                                                         {"norm_kind", "rms"},
                                                         {"epsilon", "0.001"},
                                                         {"bias", "false"},
                                                         {"output_bias", "false"},
                                                         {"positions", "relative"},
                                                         {"positions", "alibi"},
                                                         {"position_buckets", "8"},
                                                         {"position_max_distance", "77"},
                                                         {"scale_attention", "false"},
                                                         {"scale_output", "true"}};
  for (const auto& [name, value] : changes) {
    const Scratch folder;
    TransformerConfig config = small();
    config.positions = nn::PositionKind::relative;
    ASSERT_TRUE(set_field(config, name, value));
    Transformer model(config);
    nn::initialise(model, 3);
    save_transformer(folder.path(), model, {});
    const auto loaded = load_transformer(folder.path());
    EXPECT_EQ(fields(loaded->config()), fields(config)) << name;
    expect_same_parameters(model, *loaded);
  }
}

TEST(Folder, StoresDecodingDefaults) {
  const Scratch folder;
  EXPECT_EQ(load_generation_defaults(folder.path()).beam, 1);
  // Old folders have it in config.json.
  folder.write("config.json", R"({"d_model": 16, "num_beams": 6, "bad_words_ids": [[29]]})");
  EXPECT_EQ(load_generation_defaults(folder.path()).beam, 6);
  EXPECT_EQ(load_generation_defaults(folder.path()).length_penalty, 1);
  folder.write("generation_config.json",
               R"({"num_beams": null, "length_penalty": 2.5, "bad_words_ids": [[3], [4, 5]], "max_length": 9,
          "min_length": 3, "early_stopping": true, "no_repeat_ngram_size": 2, "repetition_penalty": 1.25,
          "renormalize_logits": true, "temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.125})");
  const GenerationDefaults found = load_generation_defaults(folder.path());
  EXPECT_EQ(found.beam, 1);
  EXPECT_EQ(found.length_penalty, 2.5);
  EXPECT_EQ(found.max_new_tokens, 8) << "without the start token";
  EXPECT_EQ(found.min_new_tokens, 2) << "without the start token";
  EXPECT_EQ(found.early_stopping, EarlyStopping::when_full);
  EXPECT_EQ(found.no_repeat_ngram, 2);
  EXPECT_EQ(found.repetition_penalty, 1.25f);
  EXPECT_TRUE(found.renormalize);
  EXPECT_EQ(found.sampling.temperature, 0.5);
  EXPECT_EQ(found.sampling.top_k, 7);
  EXPECT_EQ(found.sampling.top_p, 0.75);
  EXPECT_EQ(found.sampling.min_p, 0.125);
  EXPECT_EQ(found.bad_words, (std::vector<std::vector<int32_t>>{{3}, {4, 5}}));
  folder.write("generation_config.json", generation_json(small(), found));
  const GenerationDefaults again = load_generation_defaults(folder.path());
  EXPECT_EQ(again.bad_words, (std::vector<std::vector<int32_t>>{{3}, {4, 5}, {29}})) << "and padding";
  EXPECT_EQ(again.early_stopping, found.early_stopping);
  EXPECT_EQ(again.max_new_tokens, found.max_new_tokens);
  EXPECT_EQ(again.min_new_tokens, found.min_new_tokens);
  EXPECT_EQ(again.renormalize, found.renormalize);
  EXPECT_EQ(again.sampling.top_p, found.sampling.top_p);
  folder.write("generation_config.json", R"({"max_length": 20, "max_new_tokens": 31, "min_new_tokens": 4})");
  EXPECT_EQ(load_generation_defaults(folder.path()).max_new_tokens, 31);
  EXPECT_EQ(load_generation_defaults(folder.path()).min_new_tokens, 4);
  folder.write("generation_config.json", R"({"max_length": 20, "forced_eos_token_id": 2})");
  EXPECT_EQ(load_generation_defaults(folder.path()).max_new_tokens, 18)
      << "without the start token and the end";
  // Numbers of single precision are written with the digits that they need.
  const std::string written = generation_json(small(), {.repetition_penalty = 1.2f});
  EXPECT_NE(written.find("\"repetition_penalty\": 1.2\n"), std::string::npos) << written;
  folder.write("generation_config.json", R"({"early_stopping": "never"})");
  EXPECT_EQ(load_generation_defaults(folder.path()).early_stopping, EarlyStopping::exact);
  for (const char* const wrong :
       {"[1]", R"({"num_beams": "four"})", R"({"bad_words_ids": [[]]})", R"({"early_stopping": "soon"})",
        R"({"num_beams": 0})", R"({"num_beams": 1.5})", R"({"max_length": 4294967316})", R"({"top_k": -1})",
        R"({"max_new_tokens": 99999999999999999999})", R"({"min_length": true})",
        R"({"sequence_bias": [[[], 1.0]]})", R"({"sequence_bias": [[4]]})", R"({"suppress_tokens": [-2]})",
        R"({"forced_bos_token_id": [1]})", R"({"exponential_decay_length_penalty": [3]})", R"({"wings": 2})",
        R"({"max_new_tokens": 0})", R"({"do_sample": true, "temperature": 0})"}) {
    folder.write("generation_config.json", wrong);
    const std::string message = message_of<DataError>([&] { load_generation_defaults(folder.path()); });
    EXPECT_NE(message.find("generation_config.json"), std::string::npos) << message;
  }
  folder.write("generation_config.json", R"({"do_sample": false, "temperature": 0})");
  EXPECT_EQ(load_generation_defaults(folder.path()).sampling.temperature, 0) << "of no effect";
}

// The same weights by torch.save(), in one file and in two with an index.
TEST(Folder, OpensWeightsOfTorchSave) {
  const Scratch folder;
  Transformer model(small());
  nn::initialise(model, 3);
  save_transformer(folder.path(), model, {});
  const std::filesystem::path one = folder / "pytorch_model.bin", safetensors = folder / "model.safetensors";
  qkv::testing::make_pytorch(safetensors, one);
  expect_same_parameters(model, *load_transformer(folder.path()));
  expect_same_parameters(model, *load_transformer(folder.path(), {.trainable = true}));

  save_transformer(folder.path(), model, {});
  std::filesystem::remove(one);
  {
    const io::SafetensorsFile whole(safetensors);
    const std::vector<std::string> names = whole.names();
    const std::string middle = names[names.size() / 2];
    nlohmann::json map;
    for (const bool second : {false, true}) {
      const std::string file =
          second ? "pytorch_model-00002-of-00002.bin" : "pytorch_model-00001-of-00002.bin";
      const auto own = [&](const std::string& name) { return (name >= middle) == second; };
      folder.write(file, qkv::testing::pytorch_archive(whole, own));
      for (const std::string& name : names) {
        if (own(name)) map[name] = file;
      }
    }
    folder.write("pytorch_model.bin.index.json", nlohmann::json{{"weight_map", map}}.dump());
  }
  std::filesystem::remove(safetensors);
  expect_same_parameters(model, *load_transformer(folder.path()));
  std::filesystem::remove(folder / "pytorch_model-00002-of-00002.bin");
  EXPECT_NE(message_of<DataError>([&] {
              load_transformer(folder.path());
            }).find("pytorch_model-00002-of-00002.bin"),
            std::string::npos);
  std::filesystem::remove(folder / "pytorch_model.bin.index.json");
  std::filesystem::create_symlink("nowhere", one);
  EXPECT_NE(message_of<IoError>([&] { load_transformer(folder.path()); }).find("pytorch_model.bin"),
            std::string::npos);
  std::filesystem::remove(one);
  // safetensors come first.
  save_transformer(folder.path(), model, {});
  folder.write("pytorch_model.bin", "PK");
  expect_same_parameters(model, *load_transformer(folder.path()));
  std::filesystem::remove(safetensors);
  EXPECT_NE(message_of<DataError>([&] {
              load_transformer(folder.path());
            }).find("pytorch_model.bin: expected a file of"),
            std::string::npos);
}

// Marian folders of other writers: the shared table under another name, no logits bias, extra tensors.
TEST(Folder, AcceptsOtherNamesOfTheSharedTable) {
  const Scratch folder;
  Transformer model(small());
  nn::initialise(model, 3);
  save_transformer(folder.path(), model, {});
  std::vector<io::NamedTensor> tensors{{"model.encoder.embed_positions.weight", Tensor::full({4, 16}, 2.0f)}};
  model.visit([&](const std::string& name, const nn::Parameter& p) {
    if (name == "final_logits_bias") return;
    tensors.push_back({name == "model.shared.weight" ? "lm_head.weight" : name, p.variable.value()});
  });
  io::write_safetensors(folder / "model.safetensors", tensors);
  expect_same_parameters(model, *load_transformer(folder.path()));
}

TEST(Folder, NamesMissingAndInvalidTensors) {
  const Scratch folder;
  EXPECT_NE(
      message_of<IoError>([&] { load_transformer(folder / "nowhere"); }).find("there is no such folder"),
      std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { load_transformer(folder.path()); }).find("config.json"),
            std::string::npos);
  Transformer model(small());
  nn::initialise(model, 3);
  save_transformer(folder.path(), model, {});
  const std::string weights = read_file(folder / "model.safetensors");

  folder.write("model.safetensors", std::string_view(weights).substr(0, weights.size() - 100));
  EXPECT_NE(message_of<DataError>([&] { load_transformer(folder.path()); }).find("model.safetensors"),
            std::string::npos);
  folder.write("model.safetensors", "");
  EXPECT_NE(message_of<DataError>([&] { load_transformer(folder.path()); }).find("model.safetensors"),
            std::string::npos);

  // A tensor of another shape, and a missing one.
  TransformerConfig wider = small();
  wider.d_ff = 25;
  Transformer other(wider);
  nn::initialise(other, 3);
  std::vector<io::NamedTensor> tensors;
  other.visit([&](const std::string& name, const nn::Parameter& p) {
    tensors.push_back({name, p.variable.value()});
  });
  io::write_safetensors(folder / "model.safetensors", tensors);
  const std::string message = message_of<DataError>([&] { load_transformer(folder.path()); });
  EXPECT_NE(message.find("fc1.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("[24, 16]"), std::string::npos) << message;
  EXPECT_NE(message.find("[25, 16]"), std::string::npos) << message;
  io::write_safetensors(folder / "model.safetensors", {{"one", Tensor::full({2}, 1.0f)}});
  EXPECT_NE(message_of<DataError>([&] { load_transformer(folder.path()); }).find("model.shared.weight"),
            std::string::npos);
}

TEST(Folder, LoadedWeightsAreTheMappedFile) {
  const Scratch folder;
  Transformer model(small());
  nn::initialise(model, 3);
  save_transformer(folder.path(), model, {});
  const size_t before = allocator_stats().in_use;
  const auto loaded = load_transformer(folder.path());
  EXPECT_EQ(allocator_stats().in_use, before) << "weights were copied";
}

}  // namespace
