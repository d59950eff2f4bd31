// Rules between parameters and the tensors of files, each read and written on small tensors.

#include "qkv/models/hub/weight_map.h"

#include <gtest/gtest.h>

#include <numeric>

#include "qkv/base/error.h"
#include "qkv/ops/quantize.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using qkv::testing::expect_parts;
using qkv::testing::message_of;
using qkv::testing::Scratch;

using Values = std::vector<float>;

struct Module {
  std::string name;
  Shape shape;
  Values values;
};

struct Stored {
  std::string name;
  Shape shape;
  Values values;
};

// first, first + 1, ...
Values count(int64_t first, int64_t n) {
  Values values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return values;
}

// Parameters with these values, or without any.
std::function<void(const nn::ParameterVisitor&)> parameters(const std::vector<Module>& modules, bool values) {
  auto all = std::make_shared<std::vector<std::pair<std::string, nn::Parameter>>>();
  for (const auto& [name, shape, own] : modules) {
    const nn::Parameter parameter =
        shape.rank() == 2 ? nn::Parameter::weight_matrix(shape, {}) : nn::Parameter(shape, {});
    if (values) parameter.set_value({Tensor::from(own, shape)});
    all->emplace_back(name, parameter);
  }
  return [all](const nn::ParameterVisitor& visitor) {
    for (const auto& [name, parameter] : *all) visitor(name, parameter);
  };
}

void expect_both_ways(const WeightMap& map, const std::vector<Module>& ours,
                      const std::vector<Stored>& theirs) {
  const std::vector<io::NamedTensor> written = stored_tensors(map, parameters(ours, true));
  ASSERT_EQ(written.size(), theirs.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_EQ(written[i].name, theirs[i].name);
    ASSERT_EQ(written[i].tensor.shape(), theirs[i].shape) << theirs[i].name;
    const auto found = written[i].tensor.values();
    EXPECT_EQ(Values(found.begin(), found.end()), theirs[i].values) << theirs[i].name;
  }
  const Scratch folder;
  std::vector<io::NamedTensor> tensors;
  for (const auto& [name, shape, values] : theirs) tensors.push_back({name, Tensor::from(values, shape)});
  io::write_safetensors(folder / "model.safetensors", tensors);
  const auto visit = parameters(ours, false);
  load_parameters(TensorFiles(folder.path(), MapFor::reading), map, {}, visit, {});
  size_t i = 0;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const auto found = parameter.variable.value().values();
    EXPECT_EQ(Values(found.begin(), found.end()), ours[i++].values) << name;
  });
}

TEST(WeightMap, ConcatenatesUnequalParts) {
  const std::vector<Module> ours{{"layers.0.q.weight", {4, 2}, count(0, 8)},
                                 {"layers.0.k.weight", {1, 2}, {20, 21}},
                                 {"layers.0.v.weight", {2, 2}, count(30, 4)},
                                 {"layers.0.q.bias", {4}, count(50, 4)},
                                 {"layers.0.k.bias", {1}, {60}},
                                 {"layers.0.v.bias", {2}, {70, 71}}};
  const std::vector<std::pair<std::string, int64_t>> modules{
      {"layers.#.q", 4}, {"layers.#.k", 1}, {"layers.#.v", 2}};
  const Values bias{50, 51, 52, 53, 60, 70, 71};
  expect_both_ways({.rules = concatenated("h.#.qkv", Layout::same, modules)}, ours,
                   {{"h.0.qkv.bias", {7}, bias},
                    {"h.0.qkv.weight", {7, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 30, 31, 32, 33}}});
  expect_both_ways({.rules = concatenated("h.#.qkv", Layout::transposed, modules)}, ours,
                   {{"h.0.qkv.bias", {7}, bias},
                    {"h.0.qkv.weight", {2, 7}, {0, 2, 4, 6, 20, 30, 32, 1, 3, 5, 7, 21, 31, 33}}});
}

// As in GPT-NeoX: the rows of each head are its query, key and value; here of 2, 1 and 1 outputs.
TEST(WeightMap, ConcatenatesWithinGroups) {
  const std::vector<Module> ours{{"q.weight", {4, 2}, count(0, 8)},  {"k.weight", {2, 2}, count(20, 4)},
                                 {"v.weight", {2, 2}, count(30, 4)}, {"q.bias", {4}, count(50, 4)},
                                 {"k.bias", {2}, {60, 61}},          {"v.bias", {2}, {70, 71}}};
  expect_both_ways({.rules = concatenated("qkv", Layout::same, {{"q", 4}, {"k", 2}, {"v", 2}}, 2)}, ours,
                   {{"qkv.bias", {8}, {50, 51, 60, 70, 52, 53, 61, 71}},
                    {"qkv.weight", {8, 2}, {0, 1, 2, 3, 20, 21, 30, 31, 4, 5, 6, 7, 22, 23, 32, 33}}});
}

TEST(WeightMap, TransposesAndSubtractsOne) {
  expect_both_ways(
      {.rules = {{"fc", "conv", Layout::transposed}, {.ours = "norm", .theirs = "scale", .minus_one = true}}},
      {{"fc.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"norm.weight", {3}, {1.5f, 0.25f, 1}}},
      {{"conv.weight", {3, 2}, {1, 4, 2, 5, 3, 6}}, {"scale.weight", {3}, {0.5f, -0.75f, 0}}});
}

// Two heads of five outputs, the first four of which are rotated: outputs 0 and 2, 1 and 3 are pairs.
TEST(WeightMap, ReordersRotaryPairs) {
  const WeightMap map{.rules = {{.ours = "q", .theirs = "query", .paired = {.heads = 2, .rotated = 4}}}};
  expect_both_ways(map, {{"q.bias", {10}, count(0, 10)}},
                   {{"query.bias", {10}, {0, 2, 1, 3, 4, 5, 7, 6, 8, 9}}});
  // Meta's permutation of LLaMA: view(heads, 2, d / 2).transpose(1, 2).
  expect_both_ways({.rules = {{.ours = "q", .theirs = "query", .paired = {.heads = 1, .rotated = 6}}}},
                   {{"q.weight", {6, 2}, count(0, 12)}},
                   {{"query.weight", {6, 2}, {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}}});
}

TEST(WeightMap, CountsLayersAndExperts) {
  const WeightMap map{.rules = {{"layers.#.experts.*.fc1", "model.layers.#.mlp.experts.*.w1"},
                                {"layers.#.fc1", "model.layers.#.mlp.w1"}}};
  expect_both_ways(map, {{"layers.3.experts.12.fc1.weight", {1, 2}, {1, 2}}, {"layers.4.fc1.bias", {1}, {3}}},
                   {{"model.layers.3.mlp.experts.12.w1.weight", {1, 2}, {1, 2}},
                    {"model.layers.4.mlp.w1.bias", {1}, {3}}});
  EXPECT_EQ(message_of<UsageError>([&] { mapped_name(map, "layers.3.experts.x.fc1.weight"); }),
            "family: expected a rule for the parameter layers.3.experts.x.fc1.weight, found none");
}

TEST(WeightMap, NamesDependOnTheKindOfTheLayer) {
  WeightMap map{.rules = {{.ours = "layers.#.norm", .theirs = "h.#.local", .layer_kind = "sliding"},
                          {.ours = "layers.#.norm", .theirs = "h.#.global", .layer_kind = "full"}},
                .layer_kinds = {"sliding", "full"}};
  expect_both_ways(map, {{"layers.0.norm.bias", {1}, {1}}, {"layers.1.norm.bias", {1}, {2}}},
                   {{"h.0.local.bias", {1}, {1}}, {"h.1.global.bias", {1}, {2}}});
  EXPECT_THROW(mapped_name(map, "layers.2.norm.bias"), UsageError);
}

TEST(WeightMap, ReadsTheFirstOfTheTiedNames) {
  const WeightMap map{.rules = {{.ours = "table", .theirs = "shared", .also = {"encoder.table", "head"}}}};
  for (const char* name : {"shared.weight", "encoder.table.weight", "head.weight"}) {
    const Scratch folder;
    io::write_safetensors(folder / "model.safetensors", {{name, Tensor::from(Values{4, 5}, {1, 2})}});
    const auto visit = parameters({{"table.weight", {1, 2}, {}}}, false);
    load_parameters(TensorFiles(folder.path(), MapFor::reading), map, {}, visit, {});
    visit([&](const std::string&, const nn::Parameter& parameter) {
      EXPECT_EQ(parameter.variable.value().values()[1], 5) << name;
    });
  }
}

TEST(WeightMap, RefusesToRearrangeInt8) {
  const QuantizedTensor weight = to_dtype({Tensor::from(count(1, 4), {2, 2})}, DType::i8);
  const WeightMap turned{.rules = {{"fc", "conv", Layout::transposed}}};
  const auto visit = parameters({{"fc.weight", {2, 2}, {}}}, false);
  const Scratch folder;
  io::write_safetensors(folder / "model.safetensors",
                        {{"conv.weight", weight.values}, {"conv.weight_scale", weight.scales}});
  const TensorFiles files(folder.path(), MapFor::reading);
  expect_parts(message_of<DataError>([&] {
                 load_parameters(files, turned, {.config = "config.json", .dtype = DType::i8}, visit, {});
               }),
               {"model.safetensors: conv.weight", "rearranged", "I8"});
  load_parameters(files, {.rules = {{"fc", "conv"}}}, {.config = "config.json", .dtype = DType::i8}, visit,
                  {});
  expect_parts(message_of<UsageError>([&] { stored_tensors(turned, visit); }),
               {"conv.weight", "rearranged", "i8"});
}

}  // namespace
