#include "qkv/train/tasks/embed/embed_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/base/error.h"
#include "tests/ops/gradient_check.h"

namespace qkv::train {
namespace {

using qkv::testing::check_gradients;
using qkv::testing::random_tensor;

double value(const Variable& loss) { return loss.value().item(); }

Tensor matrix(const std::vector<float>& values) { return Tensor::from(values, {std::ssize(values) / 2, 2}); }

const Tensor kFirst = matrix({2, 0, 0, 3}), kSecond = matrix({5, 0, 1, 1});
// Their cosines: {{1, 1 / sqrt(2)}, {0, 1 / sqrt(2)}}.
const double kHalf = std::sqrt(0.5);

TEST(EmbedLoss, UnitRowsHaveLengthOne) {
  const Tensor x = random_tensor({3, 7}, 1);
  const Tensor y = unit_rows(x).value();
  for (int64_t i = 0; i < 3; ++i) {
    double squares = 0;
    for (int64_t c = 0; c < 7; ++c) squares += double{x.data()[i * 7 + c]} * double{x.data()[i * 7 + c]};
    for (int64_t c = 0; c < 7; ++c)
      EXPECT_NEAR(y.data()[i * 7 + c], x.data()[i * 7 + c] / std::sqrt(squares), 1e-6);
  }
  const Tensor cosines = pair_cosines(kFirst, kSecond).value();
  EXPECT_NEAR(cosines.data()[0], 1, 1e-6);
  EXPECT_NEAR(cosines.data()[1], kHalf, 1e-6);
}

TEST(EmbedLoss, ContrastiveIsTheCrossEntropyOfThePairs) {
  // Logits are cosines / 0.5.
  const double forward = std::log(1 + std::exp(2 * kHalf - 2)) + std::log(1 + std::exp(-2 * kHalf));
  EXPECT_NEAR(value(contrastive_loss(kFirst, kSecond, {.temperature = 0.5f})), forward, 1e-5);
  const double backward = std::log(1 + std::exp(-2.0)) + std::log(2.0);
  EXPECT_NEAR(value(contrastive_loss(kFirst, kSecond, {.temperature = 0.5f, .symmetric = true})),
              (forward + backward) / 2, 1e-5);
  EXPECT_NEAR(value(contrastive_loss(kSecond, kFirst, {.temperature = 0.5f})), backward, 1e-5);
}

TEST(EmbedLoss, EqualTextsAreNoNegatives) {
  const std::vector<uint64_t> different{1, 2}, equal{7, 7};
  const auto loss = [&](const std::vector<uint64_t>& first, const std::vector<uint64_t>& second) {
    return value(
        contrastive_loss(kFirst, kSecond, {.temperature = 0.5f, .first_keys = first, .second_keys = second}));
  };
  EXPECT_NEAR(loss(different, different), value(contrastive_loss(kFirst, kSecond, {.temperature = 0.5f})),
              1e-7);
  EXPECT_EQ(loss(equal, different), 0);
  EXPECT_EQ(loss(different, equal), 0);
  EXPECT_THROW(loss({1}, different), ShapeError);
}

TEST(EmbedLoss, CosentRanksByTheScores) {
  // One pair of pairs: log(1 + exp((c_low - c_high) / temperature)).
  EXPECT_NEAR(value(cosent_loss(kFirst, kSecond, std::vector<float>{4, 1}, 0.5f)),
              std::log(1 + std::exp((kHalf - 1) / 0.5)), 1e-5);
  EXPECT_NEAR(value(cosent_loss(kFirst, kSecond, std::vector<float>{1, 4}, 0.5f)),
              std::log(1 + std::exp((1 - kHalf) / 0.5)), 1e-5);
  EXPECT_EQ(value(cosent_loss(kFirst, kSecond, std::vector<float>{2, 2}, 0.5f)), 0) << "no order";
  // Three pairs with cosines 1, sqrt(1/2), 0 and the scores 1, 3, 2: the sum has three terms.
  const Tensor first = matrix({1, 0, 1, 0, 1, 0}), second = matrix({1, 0, 1, 1, 0, 1});
  EXPECT_NEAR(value(cosent_loss(first, second, std::vector<float>{1, 3, 2}, 0.5f)),
              std::log(1 + std::exp((1 - kHalf) / 0.5) + std::exp(-kHalf / 0.5) + std::exp(1 / 0.5)), 1e-5);
  EXPECT_THROW(cosent_loss(kFirst, kSecond, std::vector<float>{1}, 0.5f), ShapeError);
}

TEST(EmbedLoss, CosineMseIsTheSquaredError) {
  EXPECT_NEAR(value(cosine_mse_loss(kFirst, kSecond, std::vector<float>{0.5f, 0})), 0.25 + 0.5, 1e-5);
  EXPECT_THROW(cosine_mse_loss(kFirst, random_tensor({2, 3}, 1), std::vector<float>{1, 1}), ShapeError);
}

// The values of sentence-transformers 6.2: MultipleNegativesRankingLoss(scale=2), CoSENTLoss(scale=2) and
// CosineSimilarityLoss of scores / 4.
TEST(EmbedLoss, AgreesWithSentenceTransformers) {
  const Tensor first = Tensor::from(std::vector<float>{2, 0, 1, 0, 3, -1, 1, 1, 1, -2, 0.5f, 0}, {4, 3});
  const Tensor second = Tensor::from(std::vector<float>{5, 0, 0.5f, 1, 1, 2, -1, 2, 1, 1, -1, 3}, {4, 3});
  const std::vector<float> scores{4, 1, 2.5f, 1}, targets{1, 0.25f, 0.625f, 0.25f};
  EXPECT_NEAR(value(contrastive_loss(first, second, {.temperature = 0.5f})) / 4, 1.6131292581558228, 1e-5);
  EXPECT_NEAR(value(contrastive_loss(first, second, {.temperature = 0.5f, .symmetric = true})) / 4,
              (1.6131292581558228 + 1.7370290756225586) / 2, 1e-5);
  EXPECT_NEAR(value(cosent_loss(first, second, scores, 0.5f)), 0.8594342470169067, 1e-5);
  EXPECT_NEAR(value(cosine_mse_loss(first, second, targets)) / 4, 0.10537709295749664, 1e-6);
}

TEST(EmbedLoss, Gradients) {
  const std::vector<Tensor> inputs{random_tensor({4, 6}, 1), random_tensor({4, 6}, 2)};
  static const std::vector<float> kScores{0.5f, 0.25f, 1, 0.25f};
  static const std::vector<uint64_t> kKeys{1, 2, 1, 3}, kOthers{5, 6, 7, 8};
  check_gradients({.function = [](const auto& in) { return unit_rows(in[0]); }, .inputs = {inputs[0]}});
  for (const bool symmetric : {false, true}) {
    check_gradients({.function =
                         [=](const auto& in) {
                           return contrastive_loss(in[0], in[1],
                                                   {.temperature = 0.5f,
                                                    .symmetric = symmetric,
                                                    .first_keys = kKeys,
                                                    .second_keys = kOthers});
                         },
                     .inputs = inputs});
  }
  check_gradients({.function = [](const auto& in) { return cosent_loss(in[0], in[1], kScores, 0.5f); },
                   .inputs = inputs});
  check_gradients(
      {.function = [](const auto& in) { return cosine_mse_loss(in[0], in[1], kScores); }, .inputs = inputs});
}

}  // namespace
}  // namespace qkv::train
