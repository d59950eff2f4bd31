#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "qkv/base/files.h"
#include "qkv/search/search.h"
#include "tests/search/table_step_model.h"

namespace qkv::search {
namespace {

using nlohmann::json;
using testing::Table;
using testing::TableStepModel;
EarlyStopping policy(const std::string& name) {
  if (name == "true") return EarlyStopping::when_full;
  return name == "never" ? EarlyStopping::exact : EarlyStopping::heuristic;
}

TEST(SearchGolden, FindsWhatTransformersFind) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/search/beam_search.json"));
  const SpecialIds special{.start = golden["start"], .eos = golden["eos"]};
  int searches = 0, cut = 0;
  for (const json& one : golden["cases"]) {
    const auto table = one["logits"].get<Table>();
    for (const json& expected : one["searches"]) {
      const SearchOptions options{.beam = expected["beam"],
                                  .nbest = expected["beam"],
                                  .length_penalty = expected["alpha"],
                                  .length_penalty_type = LengthPenaltyType::power,
                                  .early_stopping = policy(expected["early_stopping"]),
                                  .max_new_tokens = expected["max_length"].get<int>() - 2,
                                  .max_source_factor = 0,
                                  .min_new_tokens = std::max(0, expected["min_length"].get<int>() - 1),
                                  .suppress_tokens = {golden["pad"].get<int32_t>()}};
      TableStepModel step_model(table);
      const Request request{.source = {1}, .options = options};
      const NBest found = search(step_model, special, std::span(&request, 1)).at(0);
      const json& hypotheses = expected["hypotheses"];
      ASSERT_EQ(found.size(), hypotheses.size());
      for (size_t i = 0; i < found.size(); ++i) {
        json without = expected;
        without.erase("hypotheses");
        EXPECT_EQ(found[i].ids, hypotheses[i]["ids"].get<std::vector<int32_t>>()) << without << " " << i;
        EXPECT_NEAR(found[i].score, hypotheses[i]["score"].get<double>(), 2e-5) << without << " " << i;
        cut += found[i].complete ? 0 : 1;
      }
      ++searches;
    }
  }
  EXPECT_GE(searches, 500);
  EXPECT_GE(cut, 50);
}

}  // namespace
}  // namespace qkv::search
