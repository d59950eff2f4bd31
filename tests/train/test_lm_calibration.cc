#include "qkv/train/tasks/lm/lm_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/ops/quantize.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::message_of;

std::unique_ptr<models::LanguageModel> random_model(int64_t d_ff = 96) {
  const nn::PositionOptions positions{.kind = nn::PositionKind::rotary, .max_positions = 64};
  models::LanguageModelConfig config;
  config.vocabulary = 48;
  config.max_positions = 64;
  config.embedding = {.d_model = 64, .positions = positions};
  config.decoder = {.layers = nn::alike(2, {.d_model = 64,
                                            .heads = 4,
                                            .d_ff = d_ff,
                                            .attention = {.positions = positions},
                                            .reads_memory = false})};
  auto model = std::make_unique<models::LanguageModel>(config);
  nn::initialise(*model, 3);
  return model;
}

data::TokenDocuments random_documents() {
  data::TokenDocuments documents;
  RandomStream random(7, 1);
  for (int64_t d = 0; d < 12; ++d) {
    for (int64_t i = 0; i < 50; ++i) documents.ids.push_back(static_cast<int32_t>(random.below(48)));
    documents.begins.push_back(documents.tokens());
  }
  return documents;
}

Tensor hidden_of(const models::LanguageModel& model, const data::TokenDocuments& documents) {
  nn::ForwardContext context;
  return model(Ragged::from(std::vector<std::span<const int32_t>>{std::span(documents.ids).first(60)}),
               context)
      .value();
}

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += std::pow(double{a.data()[i]} - double{b.data()[i]}, 2);
  return sum;
}

std::map<std::string, DType> dtypes_of(const models::LanguageModel& model) {
  std::map<std::string, DType> dtypes;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    dtypes[name] = parameter.variable.value().dtype();
  });
  return dtypes;
}

TEST(LmCalibration, IsCloserToTheModelThanRounding) {
  const data::TokenDocuments documents = random_documents();
  const auto exact = random_model(), rounded = random_model(), calibrated = random_model();
  rounded->visit([](const std::string&, const nn::Parameter& parameter) {
    if (parameter.allows_quantized())
      parameter.set_value(to_dtype(parameter.weight().value(), parameter.dtype_in(DType::q4_0)));
  });
  std::vector<int64_t> steps;
  calibrate(*calibrated, documents, {.on_progress = [&](int64_t done, int64_t) { steps.push_back(done); }});
  EXPECT_EQ(dtypes_of(*calibrated), dtypes_of(*rounded));
  EXPECT_EQ(dtypes_of(*calibrated)["embed_tokens.weight"], DType::q8_0);
  EXPECT_EQ(dtypes_of(*calibrated)["decoder.layers.0.self_attn.q_proj.weight"], DType::q4_0);
  EXPECT_EQ(steps.size(), 12u);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  const Tensor expected = hidden_of(*exact, documents);
  EXPECT_LT(distance(hidden_of(*calibrated, documents), expected),
            0.8 * distance(hidden_of(*rounded, documents), expected));
}

// Later matrices see the inputs that the earlier ones, already rounded, give them.
TEST(LmCalibration, TakesSomeMatricesAtATime) {
  const data::TokenDocuments documents = random_documents();
  const auto exact = random_model(), few = random_model(), all = random_model();
  calibrate(*few, documents, {.most_bytes = 1});
  calibrate(*all, documents, {});
  EXPECT_EQ(dtypes_of(*few), dtypes_of(*all));
  const Tensor expected = hidden_of(*exact, documents);
  EXPECT_LT(distance(hidden_of(*few, documents), expected),
            1.5 * distance(hidden_of(*all, documents), expected));
}

TEST(LmCalibration, MatricesThatAreNoBlocksBecomeF16) {
  const auto model = random_model(/*d_ff=*/40);
  calibrate(*model, random_documents(), {.dtype = DType::q5_1});
  EXPECT_EQ(dtypes_of(*model)["decoder.layers.1.fc2.weight"], DType::f16);
  EXPECT_EQ(dtypes_of(*model)["decoder.layers.1.fc1.weight"], DType::q5_1);
}

TEST(LmCalibration, RefusesOtherDTypes) {
  const auto model = random_model();
  const data::TokenDocuments documents = random_documents();
  EXPECT_NE(
      message_of<UsageError>([&] { calibrate(*model, documents, {.dtype = DType::i8}); }).find("found i8"),
      std::string::npos);
  calibrate(*model, documents, {});
  EXPECT_NE(message_of<UsageError>([&] { calibrate(*model, documents, {}); }).find("expected f32"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::train
