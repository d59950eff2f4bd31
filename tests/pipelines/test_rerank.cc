// Rerankers give the scores of sentence-transformers' CrossEncoder (tests/golden/rerankers.py).

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/pipelines/rerank.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kClassifiers = QKV_TEST_DATA "/models/golden";

const json& recorded_scores() {
  static const json kGolden =
      json::parse(read_file(std::filesystem::path(QKV_TEST_DATA "/pipelines/golden/rerankers.json")));
  return kGolden;
}

// The model of a case with its files.
class RerankerFolder {
 public:
  explicit RerankerFolder(const std::string& name) {
    for (const json& one : recorded_scores()["cases"]) {
      if (one["name"] != name) continue;
      recorded = one;
      std::filesystem::copy(kClassifiers / one["model"].get<std::string>(), scratch.path());
      for (const auto& [file, content] : one["files"].items()) scratch.write(file, content.dump());
      set(one["config"]);
    }
  }
  // Fields of config.json.
  void set(const json& fields) {
    json config = json::parse(read_file(scratch / "config.json"));
    config.update(fields);
    scratch.write("config.json", config.dump());
  }

  json recorded;
  Scratch scratch;
};

class Rerankers : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string query_ = recorded_scores()["query"];
  const std::vector<std::string> texts_ = recorded_scores()["texts"];
};

TEST_P(Rerankers, MatchSentenceTransformers) {
  const RerankerFolder folder(GetParam());
  const Reranker reranker(folder.scratch.path());
  const std::vector<Reranked> found = reranker(query_, texts_, reranker.default_options());
  ASSERT_EQ(found.size(), texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    EXPECT_EQ(found[i].error, "");
    EXPECT_NEAR(found[i].score, folder.recorded["scores"][i].get<float>(), 5e-6) << texts_[i];
  }
}

TEST_P(Rerankers, AScoreDoesNotDependOnOtherTexts) {
  const RerankerFolder folder(GetParam());
  const Reranker reranker(folder.scratch.path());
  const std::vector<Reranked> together = reranker(query_, texts_, reranker.default_options());
  for (size_t i = 0; i < texts_.size(); ++i)
    EXPECT_EQ(reranker(query_, std::vector{texts_[i]}, reranker.default_options())[0].score,
              together[i].score);
}

INSTANTIATE_TEST_SUITE_P(Cases, Rerankers,
                         ::testing::Values("sigmoid", "identity", "older_identity", "decoder",
                                           "of_version_6"),
                         [](const auto& tested) { return tested.param; });

TEST(Reranker, RefusesAPairBeyondThePositionsUnlessItIsCut) {
  const RerankerFolder folder("sigmoid");
  const Reranker reranker(folder.scratch.path());
  const std::string text = recorded_scores()["texts"][3];
  EXPECT_NE(reranker.prepare(recorded_scores()["query"].get<std::string>(), text, {}).error, "");
  EXPECT_EQ(reranker.prepare(recorded_scores()["query"].get<std::string>(), text, reranker.default_options())
                .encoding.size(),
            16u);
}

TEST(Reranker, NamesAnUnsupportedActivation) {
  RerankerFolder folder("sigmoid");
  folder.set({{"sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Tanh"}}}});
  const Reranker reranker(folder.scratch.path());
  testing::expect_parts(message_of<DataError>([&] { reranker.default_options(); }),
                        {"config.json: sentence_transformers.activation_fn", "Sigmoid or Identity", "Tanh"});
}

TEST(Reranker, NeedsOneLabel) {
  testing::expect_parts(message_of<DataError>([] { Reranker(kClassifiers / "bert_texts"); }),
                        {"config.json", "a reranking (of one label) head"});
}

TEST(Reranker, OrdersTiesByPlaceAndLeavesErrorsOut) {
  const std::vector<Reranked> results{{1, ""}, {2, ""}, {9, "too long"}, {2, ""}};
  EXPECT_EQ(by_score(results), (std::vector<size_t>{1, 3, 0}));
}

}  // namespace
}  // namespace qkv::pipelines
