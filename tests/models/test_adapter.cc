// LoRA adapters in PEFT's layout: those of peft (tests/golden/adapters.py), and our own.

#include "qkv/models/hub/adapters/adapter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"
#include "tests/support/devices.h"
#include "tests/support/pytorch_files.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace qkv::models {
namespace {

using namespace qkv::testing;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name;
}

Tensor language_logits(const LanguageModel& model, const Ragged& texts) {
  nn::ForwardContext context;
  return model.logits()(model(texts, context)).value();
}

Tensor class_logits(const TextEncoder& model, const FamilyCase& one) {
  nn::ForwardContext context;
  const Variable hidden = model(one.texts, context, one.expected["types"]);
  return model.classifier_logits(hidden, one.offsets).value();
}

TEST(Adapter, MatchesPeft) {
  for (const auto& [base, name] : {std::pair("gpt2", "adapter_gpt2"),
                                   {"llama_grouped", "adapter_llama_grouped"},
                                   {"llama_grouped", "adapter_llama_patterns"},
                                   {"falcon_groups", "adapter_falcon_groups"}}) {
    const FamilyCase one(base);
    const std::filesystem::path folder = golden(name);
    const Golden expected((folder / "expected.safetensors").string());
    for_each_device([&](Device device) {
      const auto plain = load_language_model(one.folder, {.device = device});
      const auto adapted = load_language_model(one.folder, {.adapter = folder, .device = device});
      expect_close(language_logits(*adapted, one.texts), expected["logits"], base, 1e-5);
      // Without the adapter the logits differ.
      double largest = 0;
      const Tensor before = to_host(language_logits(*plain, one.texts)), after = expected["logits"];
      for (size_t i = 0; i < before.values().size(); ++i)
        largest = std::max(largest, std::abs(double{before.values()[i]} - after.values()[i]));
      EXPECT_GT(largest, 0.01);
    });
  }
}

TEST(Adapter, MatchesPeftWithItsOwnClassifier) {
  const FamilyCase one("bert_texts");
  const std::filesystem::path folder = golden("adapter_bert_texts");
  const Golden expected((folder / "expected.safetensors").string());
  const auto adapted = load_text_encoder(one.folder, {.adapter = folder});
  expect_close(class_logits(*adapted, one), expected["logits"], "labels", 1e-5);
}

// transformers 5 renamed the modules of ViT; adapters made before are named after the tensors.
TEST(Adapter, ReadsBothModuleNamesOfImageModels) {
  const std::filesystem::path base = golden("vit_images"), folder = golden("adapter_vit_images");
  const Golden pixels((base / "expected.safetensors").string());
  const Golden expected((folder / "expected.safetensors").string());
  const auto logits = [&](const std::filesystem::path& adapter) {
    const auto model = load_image_encoder(base, {.adapter = adapter});
    nn::ForwardContext context;
    const Variable hidden = (*model)(pixels["pixels"], context);
    return model->classifier_logits(hidden, Offsets::uniform(2, hidden.value().rows() / 2)).value();
  };
  const Tensor found = logits(folder);
  expect_close(found, expected["logits"], "labels", 1e-5);

  const Scratch older;
  std::filesystem::copy_file(folder / kAdapterConfig, older.path() / kAdapterConfig);
  const io::SafetensorsFile file(folder / kAdapterWeights, MapFor::reading);
  std::vector<io::NamedTensor> tensors;
  size_t renamed = 0;
  for (std::string name : file.names()) {
    for (const auto& [now, then] : {std::pair(".layers.", ".encoder.layer."),
                                    {"attention.q_proj", "attention.attention.query"},
                                    {"attention.v_proj", "attention.attention.value"},
                                    {"mlp.fc1", "intermediate.dense"}}) {
      const size_t at = name.find(now);
      if (at == name.npos) continue;
      name.replace(at, std::string(now).size(), then);
      ++renamed;
    }
    tensors.push_back({name, file.tensor(file.names()[tensors.size()])});
  }
  EXPECT_EQ(renamed, 2 * 2 * 3 * 2U);  // two names in each of A and B of three modules of two layers
  io::write_safetensors(older.path() / kAdapterWeights, tensors);
  const Tensor again = logits(older.path());
  EXPECT_TRUE(std::ranges::equal(again.values(), found.values()));
}

TEST(Adapter, WorksOverQuantizedWeights) {
  const FamilyCase one("llama_grouped");
  const std::filesystem::path folder = golden("adapter_llama_grouped");
  const Golden expected((folder / "expected.safetensors").string());
  for (const DType dtype : {DType::bf16, DType::i8}) {
    const auto adapted = load_language_model(one.folder, {.dtype = dtype, .adapter = folder});
    EXPECT_EQ(weight_dtype(*adapted), dtype);
    expect_close(language_logits(*adapted, one.texts), expected["logits"], "logits", 0.08);
  }
}

// Separate updates of queries, keys and values, written as one update of GPT-2's c_attn.
TEST(Adapter, RoundTrips) {
  const FamilyCase one("gpt2");
  const auto model = load_language_model(one.folder, {.trainable = true});
  const Scratch folder;
  Tensor expected;
  {
    const nn::LowRankAdapter adapter(*model, {.rank = 2, .alpha = 5, .targets = {"q_proj", "v_proj", "fc2"}});
    nn::initialise(adapter, 3);
    uint64_t seed = 9;
    for (const nn::LowRankUpdate& update : adapter.updates())
      update.b.set_value({random_tensor(update.b.shape, ++seed)});
    expected = language_logits(*model, one.texts);
    save_adapter(folder.path(), adapter, [](const nn::ParameterVisitor&) {}, *model, "gpt2",
                 {.folder = one.folder, .task_type = "CAUSAL_LM"});
  }
  const auto again = load_language_model(one.folder, {.adapter = folder.path()});
  expect_close(language_logits(*again, one.texts), expected, "logits", 2e-6);
}

TEST(Adapter, RefusesAnotherBase) {
  const FamilyCase gpt2("gpt2"), untied("gpt2_untied_relu");
  const auto model = load_language_model(gpt2.folder, {.trainable = true});
  const Scratch folder;
  const nn::LowRankAdapter adapter(*model, {.rank = 2});
  nn::initialise(adapter, 3);
  save_adapter(folder.path(), adapter, [](const nn::ParameterVisitor&) {}, *model, "gpt2",
               {.folder = gpt2.folder, .task_type = {}});
  const auto message = [&](const std::filesystem::path& base, const std::filesystem::path& from) {
    try {
      load_language_model(base, {.adapter = from});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(gpt2.folder, folder.path()), "");
  const std::string other = message(untied.folder, folder.path());
  EXPECT_NE(other.find("expected the base model that the adapter was trained on"), other.npos) << other;
  // peft's files name no base: the tensors do not fit.
  const std::string peft = message(FamilyCase("llama").folder, golden("adapter_gpt2"));
  EXPECT_NE(peft.find("adapter_model.safetensors: base_model.model.transformer.h.0"), peft.npos) << peft;
  const std::string grouped = message(FamilyCase("llama").folder, golden("adapter_llama_grouped"));
  EXPECT_NE(grouped.find("adapter_model.safetensors"), grouped.npos) << grouped;
  EXPECT_NE(message(gpt2.folder, gpt2.folder).find("expected adapter_config.json"), std::string::npos);
}

TEST(Adapter, OpensWeightsOfTorchSave) {
  const FamilyCase one("gpt2");
  const Scratch folder;
  std::filesystem::copy_file(golden("adapter_gpt2") / kAdapterConfig, folder / kAdapterConfig);
  const auto message = [&] {
    return message_of<IoError>([&] { load_language_model(one.folder, {.adapter = folder.path()}); });
  };
  expect_parts(message(), {"adapter_model.safetensors", "found adapter_config.json alone"});
  std::filesystem::copy_file(golden("adapter_gpt2") / kAdapterWeights, folder / kAdapterWeights);
  make_pytorch(folder / kAdapterWeights, folder / "adapter_model.bin");
  const auto expected = load_language_model(one.folder, {.adapter = golden("adapter_gpt2")});
  const auto found = load_language_model(one.folder, {.adapter = folder.path()});
  EXPECT_TRUE(std::ranges::equal(language_logits(*found, one.texts).values(),
                                 language_logits(*expected, one.texts).values()));
  std::filesystem::rename(folder / kAdapterConfig, folder / "config");
  expect_parts(message(), {"found adapter_model.bin alone"});
  std::filesystem::rename(folder / "config", folder / kAdapterConfig);
  folder.write("adapter_model.bin", "PK");
  expect_throw<DataError>("adapter_model.bin: expected a file of torch.save()",
                          [&] { load_language_model(one.folder, {.adapter = folder.path()}); });
}

TEST(Adapter, NamesAMalformedPattern) {
  const FamilyCase one("llama_grouped");
  const Scratch folder;
  std::filesystem::copy(golden("adapter_llama_patterns"), folder.path(),
                        std::filesystem::copy_options::recursive);
  std::string config = read_file(folder / kAdapterConfig);
  config.replace(config.find("1.mlp.down_proj"), 15, "(q_proj");
  folder.write(kAdapterConfig, config);
  expect_parts(message_of<DataError>([&] { load_language_model(one.folder, {.adapter = folder.path()}); }),
               {"adapter_config.json: alpha_pattern", "(q_proj"});
}

TEST(Adapter, RefusesOtherMethods) {
  const FamilyCase one("llama_grouped");
  const std::filesystem::path from = golden("adapter_llama_grouped");
  for (const auto& [field, other] : {std::pair("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\""),
                                     {"\"use_dora\": false", "\"use_dora\": true"},
                                     {"\"bias\": \"none\"", "\"bias\": \"all\""},
                                     {"\"layer_replication\": null", "\"layer_replication\": [[0, 1]]"},
                                     {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 7}"}}) {
    const Scratch folder;
    std::filesystem::copy(from, folder.path(), std::filesystem::copy_options::recursive);
    std::string config = read_file(from / kAdapterConfig);
    const size_t at = config.find(field);
    ASSERT_NE(at, config.npos) << field;
    config.replace(at, std::string(field).size(), other);
    write_file_atomically(folder / kAdapterConfig, config);
    EXPECT_THROW(load_language_model(one.folder, {.adapter = folder.path()}), DataError) << other;
  }
}

}  // namespace
}  // namespace qkv::models
