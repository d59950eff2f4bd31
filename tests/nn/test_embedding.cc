#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "qkv/nn/embedding.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

TEST(Embedding, RejectsPositionsBeyondTheLearnedTable) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const nn::Embedding embedding(
      {.d_model = 6, .positions = {.kind = nn::PositionKind::learned, .max_positions = 4}}, table.variable);
  nn::initialise("table", table, 1);
  nn::initialise(embedding, 2);
  nn::ForwardContext context;
  const auto ids = [](int n) { return Tensor::from(std::vector<int32_t>(static_cast<size_t>(n), 3), {n}); };
  EXPECT_EQ(embedding({ids(4), Offsets({0, 4})}, context).shape(), (Shape{4, 6}));
  EXPECT_THROW(embedding({ids(5), Offsets({0, 5})}, context), UsageError);
}

// Rows stand as they are in the place of ids below 0, and other tokens are multiplied by the factor. Where
// positions are added there are none.
TEST(Embedding, TakesRowsInTheirOrder) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  nn::initialise("table", table, 1);
  nn::ForwardContext context;
  const Tensor ids = Tensor::from(std::vector<int32_t>{-7, 3, -2, -9}, {4});
  const Offsets offsets({0, 3, 4});
  const Tensor rows = random_tensor({3, 6}, 5);
  const nn::Embedding plain({.d_model = 6, .factor = 2, .positions = {.kind = nn::PositionKind::rotary}},
                            table.variable);
  const Tensor y = plain({ids, offsets}, context, {.rows = rows}).value();
  for (int64_t c = 0; c < 6; ++c) {
    EXPECT_EQ(y.at(0, c), rows.at(0, c));
    EXPECT_EQ(y.at(1, c), 2 * table.variable.value().at(3, c));
    EXPECT_EQ(y.at(2, c), rows.at(1, c));
    EXPECT_EQ(y.at(3, c), rows.at(2, c));
  }
  EXPECT_THROW(plain({ids, offsets}, context, {.rows = rows.slice_rows(0, 2)}), ShapeError);
  EXPECT_THROW(plain({ids, offsets}, context), DataError) << "without rows";
  for (const nn::PositionKind kind : {nn::PositionKind::learned, nn::PositionKind::sinusoidal_halves}) {
    const nn::Embedding adds({.d_model = 6, .positions = {.kind = kind, .max_positions = 8}}, table.variable);
    nn::initialise(adds, 2);
    EXPECT_THROW(adds({ids, offsets}, context, {.rows = rows}), UsageError);
  }
}

// Padding in a text takes the row before the first and is not counted, as in RoBERTa; position i of a text is
// row first_row + the number of other tokens before it.
TEST(Embedding, SkipsPadTokens) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const auto embedding = [&](int64_t pad_id) {
    nn::Embedding all({.d_model = 6,
                       .positions = {.kind = nn::PositionKind::learned,
                                     .max_positions = 8,
                                     .first_row = 2,
                                     .pad_id = pad_id}},
                      table.variable);
    nn::initialise(all, 2);
    return all;
  };
  nn::initialise("table", table, 1);
  const std::vector<int32_t> ids{3, 1, 4, 1, 1, 5, /*second text*/ 1, 7};
  const Offsets offsets({0, 6, 8});
  const auto rows_of = [&](const nn::Embedding& one) {
    Tensor positions;
    one.visit([&](const std::string&, const nn::Parameter& p) { positions = p.variable.value(); });
    nn::ForwardContext context;
    const Tensor y = one({Tensor::from(ids, {8}), offsets}, context).value();
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t row = 0; row < 8; ++row) {
        double difference = 0;
        for (int64_t c = 0; c < 6; ++c)
          difference +=
              std::abs(double{y.at(i, c)} - table.variable.value().at(ids[static_cast<size_t>(i)], c) -
                       positions.at(row, c));
        if (difference < 1e-5) rows.push_back(row);
      }
    }
    return rows;
  };
  EXPECT_EQ(rows_of(embedding(1)), (std::vector<int64_t>{2, 1, 3, 1, 1, 4, 1, 2}));
  EXPECT_EQ(rows_of(embedding(-1)), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 2, 3}));
}

// Multiplies word embeddings by the factor, adds positions and types, and normalises, as in BERT.
TEST(Embedding, AddsTypesAndNormalises) {
  const nn::Parameter table(Shape{11, 6}, {nn::Initializer::Kind::normal, 1.0f});
  const nn::Embedding embedding(
      {.d_model = 6,
       .factor = 1.5f,
       .positions = {.kind = nn::PositionKind::learned, .max_positions = 8, .first_row = 2},
       .token_types = 2,
       .norm = true,
       .epsilon = 1e-12f},
      table.variable);
  nn::initialise("table", table, 1);
  nn::initialise(embedding, 2);
  std::map<std::string, Tensor> parts;
  embedding.visit([&](const std::string& name, const nn::Parameter& p) { parts[name] = p.variable.value(); });
  const std::vector<int32_t> ids{3, 10, 0}, types{0, 1, 1};
  nn::ForwardContext context;
  const Tensor y =
      embedding({Tensor::from(ids, {3}), Offsets({0, 2, 3})}, context, {.types = Tensor::from(types, {3})})
          .value();
  const int64_t places[] = {2, 3, 2};
  for (int64_t i = 0; i < 3; ++i) {
    double sum[6], mean = 0, variance = 0;
    for (int64_t c = 0; c < 6; ++c) {
      sum[c] = 1.5 * double{table.variable.value().data()[ids[static_cast<size_t>(i)] * 6 + c]} +
               double{parts["embed_positions.weight"].data()[places[i] * 6 + c]} +
               double{parts["embed_types.weight"].data()[types[static_cast<size_t>(i)] * 6 + c]};
      mean += sum[c] / 6;
    }
    for (const double value : sum) variance += (value - mean) * (value - mean) / 6;
    for (int64_t c = 0; c < 6; ++c) {
      EXPECT_NEAR(y.data()[i * 6 + c], (sum[c] - mean) / std::sqrt(variance), 2e-5);
    }
  }
  const auto of_type = [&](int32_t type) {
    embedding({Tensor::from(std::vector<int32_t>{1}, {1}), Offsets({0, 1})}, context,
              {.types = Tensor::from(std::vector<int32_t>{type}, {1})});
  };
  EXPECT_NO_THROW(of_type(1));
  EXPECT_THROW(of_type(2), DataError);
}

}  // namespace
