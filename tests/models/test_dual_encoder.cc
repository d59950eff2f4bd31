// Folders of two encoders written by transformers give its vectors and logits (tests/golden/families.py).

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "qkv/models/dual_encoder.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"
#include "tests/models/folder_copy.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

Tensor text_vectors(const DualEncoder& model, const Ragged& texts) {
  nn::ForwardContext context;
  return to_host(model.text->pooled((*model.text)(texts, context), texts.offsets).value()).clone();
}

Tensor image_vectors(const DualEncoder& model, const Tensor& pixels) {
  nn::ForwardContext context;
  const Variable hidden = (*model.image)(pixels, context);
  const Offsets offsets = Offsets::uniform(pixels.dim(0), model.image->config().tokens());
  return to_host(model.image->pooled(hidden, offsets).value()).clone();
}

// As transformers gives them.
Tensor of_length_one(Tensor vectors) {
  for (int64_t r = 0; r < vectors.rows(); ++r) {
    double squares = 0;
    for (int64_t c = 0; c < vectors.cols(); ++c)
      squares += double{vectors.at(r, c)} * double{vectors.at(r, c)};
    for (int64_t c = 0; c < vectors.cols(); ++c)
      vectors.data()[r * vectors.cols() + c] /= static_cast<float>(std::sqrt(squares));
  }
  return vectors;
}

double product(const Tensor& a, int64_t row_of_a, const Tensor& b, int64_t row_of_b) {
  double sum = 0;
  for (int64_t c = 0; c < a.cols(); ++c) sum += double{a.at(row_of_a, c)} * double{b.at(row_of_b, c)};
  return sum;
}

class DualEncoders : public ::testing::TestWithParam<std::string> {};

TEST_P(DualEncoders, MatchTransformers) {
  const FamilyCase one(GetParam());
  EXPECT_EQ(folder_kind(one.folder), FolderKind::image_text);
  for_each_device([&](Device device) {
    const DualEncoder model = load_dual_encoder(one.folder, {.device = device});
    const Tensor texts = of_length_one(text_vectors(model, one.texts)),
                 images = of_length_one(image_vectors(model, one.expected["pixels"]));
    expect_close(flat(texts), one.expected["text_vectors"], "texts", 5e-6);
    expect_close(flat(images), one.expected["image_vectors"], "images", 5e-6);
    const Tensor logits = one.expected["logits"];  // [images, texts]
    for (int64_t i = 0; i < images.rows(); ++i) {
      std::vector<double> cosines, expected;
      double sum = 0;
      for (int64_t k = 0; k < texts.rows(); ++k) {
        const float logit = logits.values()[i * texts.rows() + k];
        cosines.push_back(product(texts, k, images, i));
        expected.push_back(model.similarity.independent ? 1 / (1 + std::exp(-logit)) : std::exp(logit));
        sum += expected.back();
      }
      const std::vector<float> found = model.similarity.probabilities(cosines);
      for (size_t k = 0; k < expected.size(); ++k)
        EXPECT_NEAR(found[k], model.similarity.independent ? expected[k] : expected[k] / sum, 2e-6);
    }
  });
}

// Each encoder opens as a model of its own family, with the bits that it has in the whole.
TEST_P(DualEncoders, EncodersOpenAlone) {
  const FamilyCase one(GetParam());
  const DualEncoder both = load_dual_encoder(one.folder);
  DualEncoder parts{load_text_encoder(one.folder), load_image_encoder(one.folder), {}};
  const Scratch scratch;
  save_text_encoder(scratch / "text", *parts.text, concat(GetParam(), "_text_model"));
  save_image_encoder(scratch / "image", *parts.image, concat(GetParam(), "_vision_model"));
  parts = {load_text_encoder(scratch / "text"), load_image_encoder(scratch / "image"), {}};
  const Tensor pixels = one.expected["pixels"];
  EXPECT_TRUE(
      std::ranges::equal(text_vectors(parts, one.texts).values(), text_vectors(both, one.texts).values()));
  EXPECT_TRUE(
      std::ranges::equal(image_vectors(parts, pixels).values(), image_vectors(both, pixels).values()));
}

TEST_P(DualEncoders, RoundTripInEveryDtype) {
  const FamilyCase one(GetParam());
  const Scratch scratch;
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const DualEncoder model = load_dual_encoder(one.folder, {.dtype = dtype});
    const auto copy = scratch / name_of(dtype);
    save_dual_encoder(copy, model, GetParam(), one.folder);
    if (dtype == DType::f32) expect_same_tensors_without_prefix(copy, one.folder);
    EXPECT_EQ(folder_kind(copy), FolderKind::image_text);
    const DualEncoder again = load_dual_encoder(copy);
    EXPECT_EQ(weight_dtype(again), dtype);
    EXPECT_EQ(again.similarity.log_scale, model.similarity.log_scale);
    EXPECT_EQ(again.similarity.bias, model.similarity.bias);
    EXPECT_TRUE(
        std::ranges::equal(text_vectors(again, one.texts).values(), text_vectors(model, one.texts).values()));
    const Tensor pixels = one.expected["pixels"];
    EXPECT_TRUE(
        std::ranges::equal(image_vectors(again, pixels).values(), image_vectors(model, pixels).values()));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DualEncoders, ::testing::Values("clip", "siglip"));

// What is wrong after a change of config.json.
std::string refused(const std::string& name, const std::function<void(nlohmann::json&)>& change) {
  const FolderCopy copy(name);
  nlohmann::json config = nlohmann::json::parse(read_file(copy.folder / "config.json"));
  change(config);
  copy.folder.write("config.json", config.dump());
  return message_of<DataError>([&] { load_dual_encoder(copy.folder.path()); });
}

TEST(DualEncoder, ErrorsNameTheFieldWithinTheWhole) {
  using Json = nlohmann::json;
  using Change = std::function<void(Json&)>;
  const std::vector<std::tuple<const char*, Change, const char*>> cases{
      {"clip", [](Json& all) { all["text_config"]["depth"] = 3; },
       "config.json: text_config: depth: unknown field"},
      {"clip", [](Json& all) { all["vision_config"]["patch_size"] = 13; },
       "vision_config: image_size (height): expected at least 13"},
      {"clip", [](Json& all) { all["vision_config"] = 5; }, "vision_config: expected"},
      {"clip", [](Json& all) { all["depth"] = 5; }, "config.json: depth: unknown field"},
      {"clip", [](Json& all) { all["architectures"] = {"CLIPForImageClassification"}; },
       "architectures: expected CLIPModel"},
      {"clip", [](Json& all) { all["projection_dim"] = 7; }, "text_projection.weight"},
      {"clip", [](Json& all) { all["text_config"]["eos_token_id"] = 99; },
       "text_config: eos_token_id (end_id): expected an id below 23"},
      {"siglip", [](Json& all) { all["vision_config"]["vision_use_head"] = false; },
       "expected vectors of texts and images of one width, found 8 and none"}};
  for (const auto& [name, change, part] : cases) {
    const std::string message = refused(name, change);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

// Of an image whose sides are not multiples of the patches', the rest at the right and the bottom is not
// read.
TEST(DualEncoder, PatchesNeedNotCoverTheImage) {
  const FolderCopy copy("siglip");
  copy.replace("config.json", "\"image_size\": 12", "\"image_size\": 14");
  const auto smaller = load_image_encoder(copy.one.folder), larger = load_image_encoder(copy.folder.path());
  const Tensor pixels = copy.one.expected["pixels"];  // [images, 3, 12, 12]
  Tensor wider = Tensor::full({pixels.dim(0), 3, 14, 14}, 77);
  for (int64_t plane = 0; plane < pixels.dim(0) * 3; ++plane) {
    for (int64_t row = 0; row < 12; ++row)
      std::copy_n(pixels.data() + (plane * 12 + row) * 12, 12, wider.data() + (plane * 14 + row) * 14);
  }
  nn::ForwardContext context;
  const Tensor expected = (*smaller)(pixels, context).value(), found = (*larger)(wider, context).value();
  EXPECT_TRUE(std::ranges::equal(expected.values(), found.values()));
}

// Widths that blocks fit in one encoder alone.
TEST(DualEncoder, QuantizesWhatFits) {
  const std::filesystem::path folder = QKV_TEST_DATA "/apps/golden/hub/clip-vit-base-patch32";
  const Scratch scratch;
  quantize_folder(folder, scratch / "q8_0", DType::q8_0);
  const DualEncoder model = load_dual_encoder(folder, {.dtype = DType::q8_0}),
                    again = load_dual_encoder(scratch / "q8_0");
  EXPECT_EQ(weight_dtype(again), weight_dtype(model));
}

TEST(DualEncoder, NeedsItsNumbers) {
  const FolderCopy copy("clip");
  copy.rewrite([](auto& tensors) {
    std::erase_if(tensors, [](const auto& one) { return one.name == "logit_scale"; });
  });
  const std::string missing = message_of<DataError>([&] { load_dual_encoder(copy.folder.path()); });
  EXPECT_NE(missing.find("logit_scale"), std::string::npos) << missing;
  const FolderCopy large("clip");
  large.rewrite([](auto& tensors) {
    for (auto& one : tensors)
      if (one.name == "logit_scale") one.tensor.data()[0] = 90;
  });
  const std::string overflow = message_of<DataError>([&] { load_dual_encoder(large.folder.path()); });
  EXPECT_NE(overflow.find("logit_scale: expected a number of at most 80, found 90"), std::string::npos)
      << overflow;
  const FolderCopy infinite("siglip");
  infinite.rewrite([](auto& tensors) {
    for (auto& one : tensors)
      if (one.name == "logit_bias") one.tensor.values()[0] = INFINITY;
  });
  const std::string message = message_of<DataError>([&] { load_dual_encoder(infinite.folder.path()); });
  EXPECT_NE(message.find("logit_bias: expected a number of at most 1e+30, found inf"), std::string::npos)
      << message;
  EXPECT_THROW(load_dual_encoder(FamilyCase("bert_base").folder), DataError);
}

TEST(Similarity, ProbabilitiesDoNotOverflow) {
  const std::vector<double> cosines{1, -1, 0.999};
  const std::vector<float> shared = Similarity{.log_scale = 12}.probabilities(cosines);
  EXPECT_EQ(shared[0], 1);
  EXPECT_EQ(shared[1], 0);
  const std::vector<float> alone =
      Similarity{.log_scale = 8, .bias = -5, .independent = true}.probabilities(cosines);
  EXPECT_EQ(alone[0], 1);
  EXPECT_EQ(alone[1], 0);
  EXPECT_TRUE(Similarity().probabilities({}).empty());
}

}  // namespace
