// Positions that a caller gives.

#include "qkv/models/text_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/models/shape.h"
#include "tests/support/scratch.h"

namespace qkv::models {
namespace {

Tensor ids_from(int32_t first, int64_t count) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<int32_t>(i));
  return Tensor::from(values, {count});
}

TEST(TextEncoderPositions, SelectRowsOfTheTable) {
  const TextEncoder model(
      bert({.layers = 2, .d_model = 16, .heads = 2, .d_ff = 24, .max_positions = 12}, 30));
  nn::initialise(model, 3);
  const Ragged ids{ids_from(7, 5), Offsets::uniform(1, 5)};
  nn::ForwardContext context;
  const auto hidden = [&](const Tensor& positions) { return model(ids, context, {}, positions).value(); };
  const Tensor usual = hidden({});
  EXPECT_TRUE(std::ranges::equal(hidden(ids_from(0, 5)).values(), usual.values()));
  const Tensor moved = hidden(ids_from(7, 5));
  EXPECT_FALSE(std::ranges::equal(moved.values(), usual.values()));

  // The same as rows that have moved in the table.
  model.visit([](const std::string& name, const nn::Parameter& parameter) {
    if (name != "embed_positions.weight") return;
    Tensor table = parameter.variable.value().clone();
    for (int64_t row = 0; row < 5; ++row)
      table.slice_rows(row, 1).copy_from(parameter.variable.value().slice_rows(row + 7, 1));
    parameter.set_value({table});
  });
  EXPECT_TRUE(std::ranges::equal(hidden({}).values(), moved.values()));

  EXPECT_NE(testing::message_of<UsageError>([&] { hidden(ids_from(8, 5)); }).find("12"), std::string::npos);
  EXPECT_THROW(hidden(ids_from(0, 4)), Error);
  EXPECT_THROW(hidden(ids_from(-1, 5)), Error);
}

}  // namespace
}  // namespace qkv::models
