// The parts of the masked-language head, as training uses them.

#include <gtest/gtest.h>

#include <map>

#include "qkv/models/shape.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/losses.h"
#include "tests/support/scratch.h"

namespace qkv::models {
namespace {

TextEncoderConfig small_config() {
  TextEncoderConfig config =
      bert({.layers = 2, .d_model = 16, .heads = 2, .d_ff = 24, .max_positions = 12}, 30);
  config.masked_language = config.pooler = config.next_sentence = true;
  return config;
}

// Gradients of all parameters of the loss, by name.
template <class Loss>
std::map<std::string, Tensor> gradients(const TextEncoder& model, const Loss& loss) {
  {
    Tape tape;
    tape.backward(loss());
  }
  std::map<std::string, Tensor> result;
  for (const auto& [name, parameter] : nn::parameters_of(model)) {
    Variable variable = parameter.variable;
    if (variable.has_grad()) result[name] = variable.grad().clone();
    variable.clear_grad();
  }
  return result;
}

// Rows are selected before the head: the loss and all gradients equal those of the logits of every token, of
// which the other rows are ignored.
TEST(MaskedLanguage, SelectedRowsHaveTheGradientsOfAllRows) {
  TextEncoder model(small_config());
  nn::initialise(model, 3);
  const Ragged ids = Ragged::from<int32_t>({{2, 7, 4, 9, 3, 11, 3}, {2, 4, 4, 3, 21, 3}});
  const Tensor types = Tensor::from(std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}, {13});
  const std::vector<int32_t> rows{2, 8, 9, 11}, labels{8, 5, 29, 0};
  double loss_of_rows = 0, loss_of_all = 0;
  const auto by_rows = gradients(model, [&] {
    nn::ForwardContext context;
    context.training = true;
    const Variable hidden = model(ids, context, types);
    const Variable selected = embedding(hidden, Tensor::from(rows, {4}), {}, {});
    const CrossEntropyResult result = model.masked_language_loss(
        selected, Tensor::from(labels, {4}), {.factor = 0.25f, .layout = context.weight_layout()});
    loss_of_rows = static_cast<double>(result.loss.value().item());
    return result.loss;
  });
  const auto by_all = gradients(model, [&] {
    nn::ForwardContext context;
    context.training = true;
    const Variable hidden = model(ids, context, types);
    std::vector<int32_t> all(13, -100);
    for (size_t i = 0; i < rows.size(); ++i) all[static_cast<size_t>(rows[i])] = labels[i];
    const Variable loss = cross_entropy(model.masked_language_logits(hidden), Tensor::from(all, {13}));
    loss_of_all = static_cast<double>(loss.value().item());
    return loss;
  });
  EXPECT_GT(loss_of_all, 1);
  EXPECT_NEAR(loss_of_rows, loss_of_all, 1e-5);
  ASSERT_EQ(by_rows.size(), by_all.size());
  ASSERT_TRUE(by_rows.contains("masked_language.dense.weight"));
  ASSERT_FALSE(by_rows.contains("next_sentence.weight"));
  for (const auto& [name, gradient] : by_all) {
    double largest = 0, difference = 0;
    ASSERT_TRUE(by_rows.contains(name)) << name;
    for (int64_t i = 0; i < gradient.numel(); ++i) {
      const auto at = static_cast<size_t>(i);
      const double expected = static_cast<double>(gradient.values()[at]);
      largest = std::max(largest, std::abs(expected));
      difference =
          std::max(difference, std::abs(static_cast<double>(by_rows.at(name).values()[at]) - expected));
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LT(difference, 2e-5 * std::max(1.0, largest)) << name;
  }
}

TEST(MaskedLanguage, RejectsAModelWithoutTheHead) {
  TextEncoderConfig config = small_config();
  config.masked_language = false;
  TextEncoder model(config);
  nn::initialise(model, 3);
  EXPECT_NE(testing::message_of<UsageError>([&] {
              model.masked_language_logits(Tensor::full({2, 16}, 1));
            }).find("expected a model with a masked-language head, found none"),
            std::string::npos);
  EXPECT_THROW(model.masked_language_loss(Tensor::full({2, 16}, 1), {}, {}), UsageError);
}

}  // namespace
}  // namespace qkv::models
