// Sparse embeddings: those of sentence-transformers' SparseEncoder in double precision
// (tests/golden/sparse_vectors.py), for any batch, and unsupported settings by name.

#include "qkv/pipelines/embed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::expect_parts;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kGoldenModels = QKV_TEST_DATA "/models/golden";
const std::filesystem::path kModel = kGoldenModels / "bert_masked";

const json& golden() {
  static const json kGolden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/sparse_vectors.json"));
  return kGolden;
}

const json& case_named(const std::string& name) {
  for (const json& one : golden()["cases"]) {
    if (one["name"] == name) return one;
  }
  throw UsageError("no case " + name);
}

// The model with additional files.
class Folder {
 public:
  Folder(const json& files, const std::string& model) {
    std::filesystem::copy(kGoldenModels / model, scratch_.path());
    for (const auto& [name, content] : files.items()) scratch_.write(name, content.dump());
  }
  explicit Folder(const json& one) : Folder(one["files"], one["model"].get<std::string>()) {}
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};

std::vector<std::string> texts() { return golden()["texts"].get<std::vector<std::string>>(); }

// With the zeros.
std::vector<float> dense(const SparseEmbedded& embedded, size_t vocabulary) {
  EXPECT_EQ(embedded.error, "");
  std::vector<float> all(vocabulary);
  for (const TokenWeight& one : embedded.weights) {
    EXPECT_GT(one.weight, 0);
    all.at(static_cast<size_t>(one.id)) = one.weight;
  }
  return all;
}

class SparseVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(SparseVectors, MatchSentenceTransformers) {
  const json& one = case_named(GetParam());
  const Folder folder(one);
  const SparseEmbedder embedder(folder.path());
  SparseEmbedOptions options = embedder.default_options();
  // sentence-transformers cuts texts without being told to.
  if (!options.max_length) options.max_length = 20;
  const std::vector<SparseEmbedded> found = embedder(texts(), options);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto expected = one["vectors"][i].get<std::vector<double>>();
    const std::vector<float> weights = dense(found[i], expected.size());
    for (size_t j = 0; j < expected.size(); ++j)
      EXPECT_NEAR(weights[j], expected[j], 5e-6 * std::max(1.0, expected[j]))
          << texts()[i] << ", token " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SparseVectors,
                         ::testing::Values("no_modules", "of_version_5", "sum_of_a_prompted_text",
                                           "logarithm_twice", "sum_of_logarithms_twice"),
                         [](const auto& tested) { return tested.param; });

TEST(SparseEmbeddings, HaveTokensLargestFirstAndTheSameBitsInAnyBatch) {
  const Folder folder(case_named("sum_of_a_prompted_text"));
  const SparseEmbedder embedder(folder.path());
  SparseEmbedOptions options = embedder.default_options();
  const std::vector<SparseEmbedded> together = embedder(texts(), options);
  for (size_t i = 0; i < together.size(); ++i) {
    const SparseEmbedded alone = embedder(std::vector{texts()[i]}, options).at(0);
    EXPECT_EQ(to_json(alone), to_json(together[i]));
    for (size_t k = 0; k < alone.weights.size(); ++k) {
      EXPECT_EQ(alone.weights[k].token, embedder.tokenizer().token(alone.weights[k].id));
      EXPECT_LE(alone.weights[k].weight, alone.weights[k == 0 ? 0 : k - 1].weight);
    }
  }
  options.top = 3;
  const SparseEmbedded best = embedder(texts(), options).at(0);
  ASSERT_EQ(best.weights.size(), 3u);
  for (size_t k = 0; k < 3; ++k) EXPECT_EQ(best.weights[k].id, together[0].weights[k].id);
}

// More tokens than the logits that are held at a time.
TEST(SparseEmbeddings, PoolLongTexts) {
  const SparseEmbedder embedder(kModel);
  constexpr int64_t kTokens = 150;
  const int64_t d_model = embedder.model().config().embedding.d_model;
  std::vector<float> numbers;
  for (int64_t i = 0; i < kTokens * d_model; ++i)
    numbers.push_back(static_cast<float>(std::sin(static_cast<double>(i * i))));
  const Tensor hidden = Tensor::from(numbers, {kTokens, d_model});
  const Tensor logits = embedder.model().masked_language_logits(hidden).value();
  SparseEmbedRequest request = embedder.prepare("a red dog");
  text::Encoding& encoding = request.encoding;
  encoding.ids.resize(kTokens);
  encoding.offsets.resize(kTokens);
  encoding.type_ids.resize(kTokens);
  encoding.special_mask.resize(kTokens);
  encoding.text_index.resize(kTokens);
  encoding.word_index.resize(kTokens);
  for (const SparsePooling pooling : {SparsePooling::max, SparsePooling::sum}) {
    request.options.pooling = pooling;
    const std::vector<float> found =
        dense(embedder.finish(request, hidden), static_cast<size_t>(logits.cols()));
    for (int64_t j = 0; j < logits.cols(); ++j) {
      double expected = 0;
      for (int64_t i = 0; i < kTokens; ++i) {
        const float logit = logits.values()[static_cast<size_t>(i * logits.cols() + j)];
        const double one = std::log(1 + std::max(0.0, double{logit}));
        expected = pooling == SparsePooling::max ? std::max(expected, one) : expected + one;
      }
      EXPECT_FLOAT_EQ(found[static_cast<size_t>(j)], static_cast<float>(expected)) << j;
    }
  }
}

TEST(SparseEmbeddings, RefuseWhatTheyCannotCompute) {
  expect_parts(message_of<DataError>([] { SparseEmbedder(kGoldenModels / "bert_texts"); }),
               {"bert_texts", "config.json", "masked-language head"});
  const SparseEmbedder embedder(kModel);
  expect_parts(message_of<UsageError>([&] { embedder.prepare("a", {.top = 0}); }), {"top", "found 0"});
  const std::vector<std::string> wrong{"\xff",
                                       "a red dog a red dog a red dog a red dog a red dog a red dog a dog"};
  const std::vector<SparseEmbedded> failed = embedder(wrong);
  expect_parts(failed[0].error, {"UTF-8"});
  expect_parts(failed[1].error, {"20 tokens"});
  EXPECT_TRUE(failed[1].weights.empty());
  const SparseEmbedRequest request = embedder.prepare("a");
  Tensor hidden = Tensor::zeros({std::ssize(request.encoding.ids), 8});
  hidden.data()[3] = std::numeric_limits<float>::quiet_NaN();
  expect_parts(message_of<NumericError>([&] { embedder.finish(request, hidden); }), {"NaN"});
}

TEST(SparseEmbeddings, OfAFolderAreNoVectors) {
  EXPECT_EQ(sentence_modules(kModel), SentenceModules::none);
  for (const char* name : {"of_version_5", "logarithm_twice"}) {
    const Folder folder(case_named(name));
    EXPECT_EQ(sentence_modules(folder.path()), SentenceModules::sparse);
    const TextEmbedder embedder(folder.path());
    expect_parts(message_of<DataError>([&] { embedder.default_options(); }), {"modules.json", "type"});
    // Of other commands, such as attention.
    EXPECT_EQ(max_text_length(folder.path(), embedder.model().config(), embedder.tokenizer()),
              name == std::string("of_version_5") ? 9 : 20);
  }
}

struct Refused {
  const char* name;
  const char* change;  // a JSON merge patch of the files of "logarithm_twice"
  std::vector<std::string> message;
};

class RefusedSparseFiles : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedSparseFiles, NameTheUnsupportedSetting) {
  json files = case_named("logarithm_twice")["files"];
  files.merge_patch(json::parse(GetParam().change));
  const Folder folder(files, "roberta_masked");
  const SparseEmbedder embedder(folder.path());
  expect_parts(message_of<DataError>([&] { embedder.default_options(); }), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RefusedSparseFiles,
    ::testing::Values(
        Refused{
            "vectors",
            R"({"modules.json": [{"path": "", "type": "x.Transformer"}, {"path": "1", "type": "x.Pooling"}]})",
            {"modules.json: [1].type: ", "a SpladePooling", "x.Pooling"}},
        Refused{"router",
                R"({"modules.json": [{"path": "", "type": "x.Router"}]})",
                {"modules.json: ", "an MLMTransformer and a SpladePooling", "found 1"}},
        Refused{"static_embedding",
                R"({"modules.json": [{"path": "", "type": "x.SparseStaticEmbedding"},
                                     {"path": "1_SpladePooling", "type": "x.SpladePooling"}]})",
                {"modules.json: [0].type: ", "MLMTransformer", "x.SparseStaticEmbedding"}},
        Refused{"hidden_states",
                R"({"sentence_bert_config.json": {"transformer_task": "feature-extraction"}})",
                {"sentence_bert_config.json: transformer_task: ", "fill-mask", "feature-extraction"}},
        Refused{
            "no_task", R"({"sentence_bert_config.json": null})", {"modules.json: [0].type: ", "fill-mask"}},
        Refused{"strategy",
                R"({"1_SpladePooling/config.json": {"pooling_strategy": "mean"}})",
                {"1_SpladePooling/config.json: pooling_strategy: ", "max or sum", "mean"}},
        Refused{"activation",
                R"({"1_SpladePooling/config.json": {"activation_function": "gelu"}})",
                {"1_SpladePooling/config.json: activation_function: ", "relu or log1p_relu", "gelu"}},
        Refused{"vocabulary",
                R"({"1_SpladePooling/config.json": {"word_embedding_dimension": 30522}})",
                {"1_SpladePooling/config.json: word_embedding_dimension: ", "expected 23", "30522"}},
        Refused{"unknown",
                R"({"1_SpladePooling/config.json": {"wings": 2}})",
                {"1_SpladePooling/config.json: wings: unknown field"}}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace qkv::pipelines
