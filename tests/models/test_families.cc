// Folders written by transformers give its results (tests/golden/families.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/tensor/device_memory.h"
#include "tests/models/family_case.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

const auto kCaseName = [](const auto& info) { return family_name(info.param); };

// A prompt without its last token.
Ragged beginning(std::span<const int32_t> prompt) {
  const auto ids = prompt.subspan(0, prompt.size() - 1);
  return {Tensor::from(ids, {std::ssize(ids)}), Offsets::uniform(1, std::ssize(ids))};
}

class LanguageFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(LanguageFamilies, MatchTransformers) {
  const FamilyCase one(GetParam());
  for_each_device([&](Device device) {
    const auto model = load_language_model(one.folder, {.device = device});
    nn::ForwardContext context;
    const AttentionRecorder attention(context);
    const Variable hidden = (*model)(one.texts, context);
    expect_close(flat(hidden.value()), one.expected["hidden"], "hidden", 5e-6);
    expect_close(flat(model->logits()(hidden).value()), one.expected["logits"], "logits", 5e-6);
    attention.expect(one.expected, 2e-6);
  });
}

TEST_P(LanguageFamilies, GenerateTheTextOfTransformers) {
  const FamilyCase one(GetParam());
  for_each_device([&](Device device) {
    const auto model = load_language_model(one.folder, {.device = device});
    const int64_t length = one.offsets.length(0);
    const auto prompt = one.texts.values.values<int32_t>().subspan(0, static_cast<size_t>(length));
    nn::DecoderState state = model->start(beginning(prompt));
    const int64_t waits = device_waits();
    Tensor logits = to_host(model->step(Tensor::from(std::vector{prompt.back()}, {1}), state));
    EXPECT_EQ(device_waits() - waits, device == Device::cpu ? 0 : 1) << "for the logits";
    std::vector<int32_t> found;
    for (const int32_t expected : one.expected["greedy"].values<int32_t>()) {
      // As in transformers' recording, the end token (id 2) is never chosen.
      logits.values()[2] = -1e30f;
      found.push_back(
          static_cast<int32_t>(std::ranges::max_element(logits.values()) - logits.values().begin()));
      ASSERT_EQ(found.back(), expected) << "token " << found.size();
      logits = to_host(model->step(Tensor::from(std::vector{found.back()}, {1}), state));
    }
    EXPECT_EQ(found.size(), 12u);
  });
}

TEST_P(LanguageFamilies, SameBitsInAnyBatchAndForAnyThreads) {
  const FamilyCase one(GetParam());
  const auto model = load_language_model(one.folder);
  nn::ForwardContext context;
  const int before = threads();
  set_threads(1);
  const Tensor together = (*model)(one.texts, context).value();
  nn::DecoderState state = model->start(one.texts);
  const Tensor ids = Tensor::from(std::vector<int32_t>{4, 9, 5}, {3});
  const Tensor next = model->step(ids, state);
  for (const int count : {1, 3}) {
    set_threads(count);
    for (int64_t i = 0; i < one.offsets.sequences(); ++i) {
      const Tensor alone = (*model)(one.text(i), context).value();
      EXPECT_TRUE(std::ranges::equal(
          alone.values(), together.slice_rows(one.offsets.begin(i), one.offsets.length(i)).values()))
          << i;
      nn::DecoderState own = model->start(one.text(i));
      EXPECT_TRUE(
          std::ranges::equal(model->step(ids.slice_rows(i, 1), own).values(), next.slice_rows(i, 1).values()))
          << i;
    }
  }
  set_threads(before);
}

TEST_P(LanguageFamilies, RoundTrip) {
  const FamilyCase one(GetParam());
  const auto model = load_language_model(one.folder);
  const Scratch copy;
  save_language_model(copy.path(), *model, one.model_type());
  nn::ForwardContext context;
  EXPECT_TRUE(std::ranges::equal((*load_language_model(copy.path()))(one.texts, context).value().values(),
                                 (*model)(one.texts, context).value().values()));
  // Training on a device writes its model from there.
  if (kHasReference) {
    const Scratch from_device;
    save_language_model(from_device.path(), *load_language_model(one.folder, {.device = Device::reference}),
                        one.model_type());
    EXPECT_EQ(read_file(from_device / "model.safetensors"), read_file(copy / "model.safetensors"));
  }
  if (!std::filesystem::exists(one.folder / "model.safetensors") || one.wrapped()) return;
  expect_same_tensors(copy.path(), one.folder);
}

INSTANTIATE_TEST_SUITE_P(All, LanguageFamilies, ::testing::ValuesIn(family_cases(FolderKind::language, "")),
                         kCaseName);

class EncoderFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderFamilies, MatchTransformers) {
  const FamilyCase one(GetParam());
  for_each_device([&](Device device) {
    const auto model = load_text_encoder(one.folder, {.device = device});
    nn::ForwardContext context;
    const AttentionRecorder attention(context);
    const Variable hidden = (*model)(one.texts, context, one.expected["types"]);
    expect_close(flat(hidden.value()), one.expected["hidden"], "hidden", 5e-6);
    attention.expect(one.expected, 2e-6);
    const auto expect_head = [&](const char* name, const auto& run) {
      if (!one.expected.has(name)) {
        EXPECT_THROW(run(), UsageError) << name;
        return;
      }
      expect_close(flat(run().value()), one.expected[name], name, 5e-6);
    };
    expect_head("logits", [&] { return model->masked_language_logits(hidden); });
    expect_head("next_sentence", [&] { return model->next_sentence(hidden, one.offsets); });
    expect_head("labels", [&] { return model->classifier_logits(hidden, one.offsets); });
    if (one.expected.has("pooled")) {
      expect_head("pooled", [&] { return model->pooled(hidden, one.offsets); });
    }
  });
}

TEST_P(EncoderFamilies, SameBitsInAnyBatchAndForAnyThreads) {
  const FamilyCase one(GetParam());
  const auto model = load_text_encoder(one.folder);
  const Tensor types = one.expected["types"];
  nn::ForwardContext context;
  const int before = threads();
  set_threads(1);
  const Tensor together = (*model)(one.texts, context, types).value();
  for (const int count : {1, 3}) {
    set_threads(count);
    for (int64_t i = 0; i < one.offsets.sequences(); ++i) {
      const int64_t begin = one.offsets.begin(i), length = one.offsets.length(i);
      const Tensor alone = (*model)(one.text(i), context, types.slice_rows(begin, length)).value();
      EXPECT_TRUE(std::ranges::equal(alone.values(), together.slice_rows(begin, length).values())) << i;
    }
  }
  set_threads(before);
}

TEST_P(EncoderFamilies, RoundTrip) {
  const FamilyCase one(GetParam());
  const auto model = load_text_encoder(one.folder);
  const Scratch copy;
  save_text_encoder(copy.path(), *model, one.model_type());
  const auto again = load_text_encoder(copy.path());
  nn::ForwardContext context;
  EXPECT_TRUE(std::ranges::equal((*again)(one.texts, context, one.expected["types"]).value().values(),
                                 (*model)(one.texts, context, one.expected["types"]).value().values()));
  EXPECT_EQ(again->config().labels, model->config().labels);
  expect_same_tensors_without_prefix(copy.path(), one.folder);
}

// Decoders with a classifier among them.
INSTANTIATE_TEST_SUITE_P(All, EncoderFamilies, ::testing::ValuesIn(family_cases(FolderKind::encoder, "")),
                         kCaseName);

// The encoder can be loaded from an encoder-decoder's folder.
TEST(EncoderOfAPair, MatchesTransformers) {
  const FamilyCase one("t5_gated");
  EXPECT_EQ(folder_kind(one.folder), FolderKind::translation);
  nn::ForwardContext context;
  expect_close(flat((*load_text_encoder(one.folder))(one.texts, context).value()), one.expected["hidden"],
               "hidden", 5e-6);
}

}  // namespace
