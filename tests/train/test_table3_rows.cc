// The rows of the paper's Table 3: their settings, their sizes against the paper, their selection.

#include <gtest/gtest.h>

#include <map>

#include "qkv/models/transformer.h"
#include "qkv/train/table3/report.h"
#include "tests/support/scratch.h"

namespace qkv::train {
namespace {

using testing::expect_throw;
using testing::message_of;

const Table3Row& row_named(const std::string& name) {
  for (const Table3Row& row : table3_rows()) {
    if (row.name == name) return row;
  }
  throw UsageError("no row " + name);
}

std::vector<std::string> names_of_rows(const std::vector<Table3Row>& rows) {
  std::vector<std::string> names;
  for (const Table3Row& row : rows) names.push_back(row.name);
  return names;
}

std::map<std::string, std::string> fields_of_row(const std::string& name, int64_t scale) {
  const auto list = models::fields(table3_config(row_named(name), scale));
  return {list.begin(), list.end()};
}

int64_t parameters_of_row(const std::string& name, int64_t scale) {
  models::TransformerConfig config = table3_config(row_named(name), scale);
  config.source_vocabulary = config.target_vocabulary = table3_vocabulary(scale);
  return nn::count_parameters(models::Transformer(config));
}

// The columns of the paper's table that a row changes, and nothing else.
TEST(Table3Rows, ChangeWhatThePaperChanges) {
  using Changes = std::map<std::string, std::string>;
  const std::map<std::string, Changes> expected{
      {"A-h1", {{"heads", "1"}, {"d_k", "512"}, {"d_v", "512"}}},
      {"A-h4", {{"heads", "4"}, {"d_k", "128"}, {"d_v", "128"}}},
      {"A-h16", {{"heads", "16"}, {"d_k", "32"}, {"d_v", "32"}}},
      {"A-h32", {{"heads", "32"}, {"d_k", "16"}, {"d_v", "16"}}},
      {"B-dk16", {{"d_k", "16"}}},
      {"B-dk32", {{"d_k", "32"}}},
      {"C-N2", {{"encoder_layers", "2"}, {"decoder_layers", "2"}}},
      {"C-N4", {{"encoder_layers", "4"}, {"decoder_layers", "4"}}},
      {"C-N8", {{"encoder_layers", "8"}, {"decoder_layers", "8"}}},
      {"C-dmodel256", {{"d_model", "256"}, {"d_k", "32"}, {"d_v", "32"}}},
      {"C-dmodel1024", {{"d_model", "1024"}, {"d_k", "128"}, {"d_v", "128"}}},
      {"C-dff1024", {{"d_ff", "1024"}}},
      {"C-dff4096", {{"d_ff", "4096"}}},
      {"D-dropout0", {{"dropout", "0"}, {"embedding_dropout", "0"}}},
      {"D-dropout0.2", {{"dropout", "0.2"}, {"embedding_dropout", "0.2"}}},
      {"D-smoothing0", {}},
      {"D-smoothing0.2", {}},
      {"E-learned", {{"positions", "learned"}}},
      {"big",
       {{"d_model", "1024"},
        {"d_ff", "4096"},
        {"heads", "16"},
        {"dropout", "0.3"},
        {"embedding_dropout", "0.3"}}}};
  ASSERT_EQ(table3_rows().size(), expected.size() + 1);
  const Changes base = fields_of_row("base", 1);
  EXPECT_EQ(base.at("d_model"), "512");
  EXPECT_EQ(base.at("d_ff"), "2048");
  EXPECT_EQ(base.at("heads"), "8");
  EXPECT_EQ(base.at("encoder_layers"), "6");
  EXPECT_EQ(base.at("dropout"), "0.1");
  for (const auto& [name, changes] : expected) {
    Changes found;
    for (const auto& [field, value] : fields_of_row(name, 1)) {
      if (value != base.at(field)) found[field] = value;
    }
    EXPECT_EQ(found, changes) << name;
  }
  EXPECT_EQ(row_named("D-smoothing0").label_smoothing, 0);
  EXPECT_EQ(row_named("D-smoothing0.2").label_smoothing, 0.2f);
  EXPECT_EQ(table3_steps(row_named("A-h1"), 70), 70);
  EXPECT_EQ(table3_steps(row_named("big"), 70), 210);
}

// "params x 10^6" of the paper, by their difference from base, because the vocabulary is known only as about
// 37,000 pieces: with 37,000, base has 63 million instead of 65, and the rows with another d_model differ
// accordingly.
TEST(Table3Rows, HaveThePapersParameters) {
  const double base = static_cast<double>(parameters_of_row("base", 1)) / 1e6;
  EXPECT_NEAR(base, 65, 2);
  for (const Table3Row& row : table3_rows()) {
    if (!row.millions || row.name == "base") continue;
    const double found = static_cast<double>(parameters_of_row(row.name, 1)) / 1e6;
    const auto paper = static_cast<double>(*row.millions);
    if (row.d_model == 512) {
      EXPECT_NEAR(found - base, paper - 65, 1) << row.name;
    } else {
      EXPECT_NEAR(found, paper, 0.05 * paper) << row.name;
    }
  }
  EXPECT_EQ(parameters_of_row("A-h1", 1), parameters_of_row("base", 1));
}

TEST(Table3Rows, KeepTheirRatiosAtEveryScale) {
  for (const int64_t scale : {2, 4, 8, 16}) {
    for (const Table3Row& row : table3_rows()) {
      const models::TransformerConfig whole = table3_config(row, 1), part = table3_config(row, scale);
      EXPECT_EQ(part.d_model * scale, whole.d_model) << row.name;
      EXPECT_EQ(part.d_ff * scale, whole.d_ff) << row.name;
      EXPECT_EQ(part.d_k * scale, whole.d_k) << row.name;
      EXPECT_EQ(part.d_v * scale, whole.d_v) << row.name;
      EXPECT_EQ(part.heads, whole.heads) << row.name;
      EXPECT_EQ(part.encoder_layers, whole.encoder_layers) << row.name;
    }
  }
  // All matrices shrink by the square; biases and norms by the scale alone.
  const auto share = static_cast<double>(parameters_of_row("base", 8) * 64) /
                     static_cast<double>(parameters_of_row("base", 1));
  EXPECT_NEAR(share, 1, 0.03);
  expect_throw<UsageError>("found 3", [] { table3_config(table3_rows()[0], 3); });
}

TEST(Table3Rows, AreSelectedByNameAndGroup) {
  EXPECT_EQ(select_table3_rows({}).size(), 19u) << "without big";
  const std::vector<std::string> names{"B", "C-N2", "big"};
  EXPECT_EQ(names_of_rows(select_table3_rows(names)),
            (std::vector<std::string>{"base", "B-dk16", "B-dk32", "C-N2", "big"}));
  const std::vector<std::string> wrong{"A", "F"};
  const std::string message = message_of<UsageError>([&] { select_table3_rows(wrong); });
  EXPECT_NE(message.find("A-h1"), std::string::npos) << message;
  EXPECT_NE(message.find("found 'F'"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::train
