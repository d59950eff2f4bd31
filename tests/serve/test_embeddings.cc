// Embeddings, by OpenAI's protocol and that of text-embeddings-inference: the pipelines' results.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "qkv/pipelines/json.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;
using serve::ServiceOptions;

TEST(Embeddings, EqualThePipelines) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  const std::vector<std::string> texts{"a red dog", "one small house", "a"};
  const auto expected = embedder(texts, embedder.default_options());
  const json found = json_of(post(service, "/v1/embeddings", {{"model", "bert_texts"}, {"input", texts}}));
  const json coded =
      json_of(post(service, "/v1/embeddings", {{"input", texts}, {"encoding_format", "base64"}}));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(found["data"][i]["embedding"].get<std::vector<float>>(), expected[i].values);
    const auto base64 = coded["data"][i]["embedding"].get<std::string>();
    EXPECT_EQ(base64.size(), (expected[i].values.size() * 4 + 2) / 3 * 4);
  }
  // "AAAAAA==" is 0.0f: decode the first three bytes of the first value by hand.
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto base64 = coded["data"][0]["embedding"].get<std::string>();
  uint32_t bits = 0;
  for (size_t k = 0; k < 4; ++k) bits = bits << 6 | static_cast<uint32_t>(kDigits.find(base64[k]));
  uint32_t value = 0;
  std::memcpy(&value, expected[0].values.data(), sizeof value);
  EXPECT_EQ(bits, (value & 0xff) << 16 | (value >> 8 & 0xff) << 8 | (value >> 16 & 0xff));
  expect_error(post(service, "/v1/embeddings", {{"input", "a"}, {"dimensions", 9}}), 400,
               {"dimensions", "1 to 8"});
  expect_error(post(service, "/v1/embeddings", {{"input", "a"}, {"encoding_format", "hex"}}), 400,
               {"encoding_format"});
  expect_error(post(service, "/v1/embeddings", {{"input", json::array()}}), 400, {"input"});
}

TEST(Embeddings, TakeTokenIds) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  std::vector<std::vector<int32_t>> ids;
  for (const char* text : {"a red dog", "one small house"})
    ids.push_back(embedder.tokenizer().encode(text).ids);
  const auto expected =
      embedder(std::vector<std::string>{"a red dog", "one small house"}, embedder.default_options());
  const json one = json_of(post(service, "/v1/embeddings", {{"input", ids[0]}}));
  const json both = json_of(post(service, "/v1/embeddings", {{"input", ids}}));
  ASSERT_EQ(one["data"].size(), 1U);
  ASSERT_EQ(both["data"].size(), 2U);
  EXPECT_EQ(one["data"][0]["embedding"].get<std::vector<float>>(), expected[0].values);
  EXPECT_EQ(both["data"][1]["embedding"].get<std::vector<float>>(), expected[1].values);
  EXPECT_EQ(one["usage"]["prompt_tokens"], ids[0].size());
  expect_error(post(service, "/v1/embeddings", {{"input", {1, 1'000'000}}}), 400, {"input", "1000000"});
  expect_error(post(service, "/v1/embeddings", {{"input", {{1}, {-1}}}}), 400, {"input"});
  expect_error(post(service, "/v1/embeddings", {{"input", std::vector<int>(5000, 1)}}), 400, {"5000"});
}

TEST(Embeddings, FollowDenseModulesOfTheFolder) {
  const Scratch scratch;
  const std::filesystem::path recordings = QKV_TEST_DATA "/pipelines/golden";
  std::filesystem::copy(golden_folder("bert_texts"), scratch / "dense");
  std::filesystem::copy(recordings / "dense", scratch / "dense", std::filesystem::copy_options::recursive);
  scratch.write("dense/modules.json",
                R"([{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
                    {"path": "2_Dense", "type": "x.Dense"}, {"path": "4_Dense", "type": "x.Dense"}])");
  std::filesystem::create_directory(scratch / "dense/1_Pooling");
  scratch.write("dense/1_Pooling/config.json", R"({"embedding_dimension": 8, "pooling_mode": "cls"})");
  ServiceOptions options;
  options.folders = {{"dense", scratch / "dense"}};
  Service service(options);
  const pipelines::TextEmbedder embedder(scratch / "dense");
  const auto expected = embedder(std::vector<std::string>{"a red dog"}, embedder.default_options());
  ASSERT_EQ(expected[0].values.size(), 5u);
  const json openai = json_of(post(service, "/v1/embeddings", {{"input", "a red dog"}}));
  EXPECT_EQ(openai["data"][0]["embedding"].get<std::vector<float>>(), expected[0].values);
  const json tei = json_of(post(service, "/embed", {{"inputs", "a red dog"}, {"normalize", false}}));
  EXPECT_EQ(tei[0].get<std::vector<float>>(), expected[0].values);
  expect_error(post(service, "/embed", {{"inputs", "a"}, {"dimensions", 6}}), 400, {"dimensions", "1 to 5"});
}

TEST(TextEmbeddingsInference, EmbedsPredictsAndTokenizes) {
  Service service(serving({"bert_texts"}));
  const pipelines::TextEmbedder embedder(golden_folder("bert_texts"));
  pipelines::TextEmbedOptions options = embedder.default_options();
  options.vector.normalize = true;
  const auto expected = embedder(std::vector<std::string>{"a red dog"}, options);
  const json vectors = json_of(post(service, "/embed", {{"inputs", "a red dog"}}));
  ASSERT_EQ(vectors.size(), 1U);
  EXPECT_EQ(vectors[0].get<std::vector<float>>(), expected[0].values);
  EXPECT_EQ(json_of(post(service, "/embed", {{"inputs", {"a red dog", "one"}}}))[0], vectors[0]);

  const pipelines::TextClassifier classifier(golden_folder("bert_texts"));
  const auto labels = classifier(std::vector<std::string>{"a red dog"});
  const json predicted = json_of(post(service, "/predict", {{"inputs", "a red dog"}}));
  EXPECT_EQ(predicted[0]["label"], labels[0].labels[0].label);
  EXPECT_EQ(predicted[0]["score"].get<float>(), labels[0].labels[0].probability);
  const json pairs = json_of(post(service, "/predict", {{"inputs", {{"a red dog", "a dog"}, {"one"}}}}));
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[1].size(), labels[0].labels.size());

  // A list of two texts is a pair, as in TEI, of one a text; a list of lists is a list of such.
  EXPECT_EQ(json_of(post(service, "/predict", {{"inputs", json::array({"a red dog", "a dog"})}})), pairs[0]);
  EXPECT_EQ(json_of(post(service, "/predict", {{"inputs", json::array({"a red dog"})}})), predicted);
  for (const json& wrong :
       {json::array(), json::array({"a", "b", "c"}), json::array({json::array({"a"}), "b"}), json(3)})
    expect_error(post(service, "/predict", {{"inputs", wrong}}), 400, {"inputs"});

  // The root does what the first text encoder is for, as TEI's does.
  EXPECT_EQ(json_of(post(service, "/", {{"inputs", "a red dog"}})), predicted);
  Service without_labels(serving({"bert_masked"}));
  EXPECT_EQ(json_of(post(without_labels, "/", {{"inputs", "a red dog"}})),
            json_of(post(without_labels, "/embed", {{"inputs", "a red dog"}})));

  const json best = json_of(
      post(service, "/predict",
           {{"inputs", "a red dog"}, {"parameters", {{"top_k", 1}, {"function_to_apply", nullptr}}}}));
  EXPECT_EQ(best, json::array({predicted[0]}));
  // The model's own function is neutral.
  EXPECT_EQ(json_of(post(service, "/predict",
                         {{"inputs", "a red dog"}, {"parameters", {{"function_to_apply", "softmax"}}}})),
            predicted);
  expect_error(post(service, "/predict", {{"inputs", "a"}, {"parameters", {{"function_to_apply", "none"}}}}),
               400, {"function_to_apply", "softmax"});

  const json tokens = json_of(post(service, "/tokenize", {{"inputs", {"a red dog"}}}));
  EXPECT_TRUE(tokens[0][0]["special"].get<bool>());
  EXPECT_EQ(tokens[0][1]["start"], 0);
  // The part of the input, also of a token that the vocabulary lacks.
  const std::string text = "a r\u00e9d dog";
  const json parts = json_of(post(service, "/tokenize", {{"inputs", text}}));
  for (const json& token : parts[0]) {
    if (token["special"].get<bool>()) continue;
    const size_t begin = token["start"], end = token["stop"];
    EXPECT_EQ(token["text"], text.substr(begin, end - begin));
  }
  expect_error(post(service, "/tokenize", {{"inputs", "a"}, {"model", "gpt"}}), 404, {"'gpt'", "bert_texts"});
  std::string long_text;
  for (int i = 0; i < 500'000; ++i) long_text += "a ";
  expect_error(post(service, "/tokenize", {{"inputs", json::array({long_text, long_text, long_text})}}), 400,
               {"1048576 tokens"});
  expect_error(post(service, "/rerank", {{"query", "a"}, {"texts", {"b"}}}), 400, {"a model for rerank"});
  const json info = json_of(ask(service, {.method = "GET", .path = "/info"}));
  EXPECT_EQ(info["model_id"], "bert_texts");
  EXPECT_EQ(info["model_dtype"], "float32");
  ServiceOptions in_int8 = serving({"bert_texts"});
  in_int8.load.dtype = DType::i8;
  Service small(in_int8);
  EXPECT_EQ(json_of(ask(small, {.method = "GET", .path = "/info"}))["model_dtype"], "int8");
  const HttpResponse error = post(service, "/embed", {{"input", "a"}});
  expect_error(error, 400, {"inputs"});
  EXPECT_EQ(json::parse(error.body)["error_type"], "Validation");
}

// The first numbers, then scaled if the vector is.
TEST(TextEmbeddingsInference, VectorsMayHaveFewerDimensions) {
  Service service(serving({"bert_texts"}));
  const auto embed = [&](const json& fields) {
    json request = fields;
    request["inputs"] = "a red dog";
    return json_of(post(service, "/embed", request))[0].get<std::vector<float>>();
  };
  const std::vector<float> whole = embed({{"normalize", false}});
  EXPECT_EQ(embed({{"normalize", false}, {"dimensions", 3}}), std::vector(whole.begin(), whole.begin() + 3));
  double squares = 0;
  for (const float x : embed({{"dimensions", 3}})) squares += double{x} * double{x};
  EXPECT_NEAR(squares, 1, 1e-6);
  const json openai = json_of(post(service, "/v1/embeddings", {{"input", "a red dog"}, {"dimensions", 3}}));
  EXPECT_EQ(openai["data"][0]["embedding"].get<std::vector<float>>(),
            std::vector(whole.begin(), whole.begin() + 3));
  expect_error(post(service, "/embed", {{"inputs", "a"}, {"dimensions", 9}}), 400, {"dimensions", "1 to 8"});
}

TEST(TextEmbeddingsInference, WeighsTokensOfTheVocabulary) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/sparse_vectors.json"));
  const json& one = golden["cases"][2];
  const Scratch scratch;
  std::filesystem::copy(golden_folder(one["model"]), scratch / "splade");
  for (const auto& [name, content] : one["files"].items()) scratch.write("splade/" + name, content.dump());
  ServiceOptions options;
  options.folders = {{"splade", scratch / "splade"}};
  Service service(options);
  const json request{{"inputs", golden["texts"]}, {"truncate", true}};
  const json found = json_of(post(service, "/embed_sparse", request));
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < found.size(); ++i) {
    auto expected = one["vectors"][i].get<std::vector<double>>();
    int64_t before = -1;
    for (const json& weight : found[i]) {
      const auto index = weight["index"].get<int64_t>();
      EXPECT_GT(index, before);
      before = index;
      double& left = expected.at(static_cast<size_t>(index));
      EXPECT_NEAR(weight["value"].get<float>(), left, 5e-6 * std::max(1.0, left));
      left = 0;
    }
    EXPECT_EQ(std::ranges::count(expected, 0.0), std::ssize(expected))
        << "of text " << i << " some are missing";
  }
  // TEI's root does what the model is for, and its folder says that this is not /embed.
  EXPECT_EQ(json_of(post(service, "/", request)), found);
  const json of_query{{"inputs", golden["texts"][1]}, {"prompt_name", "query"}};
  EXPECT_EQ(json_of(post(service, "/embed_sparse", of_query)), json::array({found[1]}));
  const json info = json_of(ask(service, {.method = "GET", .path = "/info"}));
  EXPECT_EQ(info["model_type"], (json{{"embedding", {{"pooling", "splade"}}}}));
  expect_error(post(service, "/embed", {{"inputs", "a"}}), 400, {"a model for embed"});
  expect_error(post(service, "/embed_sparse", {{"inputs", golden["texts"]}}), 400,
               {"inputs[3]", "at most 20 tokens"});
  expect_error(post(service, "/embed_sparse", {{"inputs", "a"}, {"normalize", true}}), 400, {"normalize"});

  // A model of masks alone does both.
  Service masked(serving({"bert_masked", "bert_texts"}));
  EXPECT_EQ(json_of(post(masked, "/embed_sparse", {{"inputs", "a"}})).size(), 1u);
  EXPECT_EQ(json_of(post(masked, "/embed", {{"inputs", "a"}})).size(), 1u);
  Service without(serving({"bert_texts"}));
  expect_error(post(without, "/embed_sparse", {{"inputs", "a"}}), 400, {"a model for embed-sparse"});
}

TEST(TextEmbeddingsInference, RerankersOrderTexts) {
  const json golden = json::parse(read_file(QKV_TEST_DATA "/pipelines/golden/rerankers.json"));
  const json& one = golden["cases"].back();  // whose modules have no pooling
  const Scratch scratch;
  std::filesystem::copy(golden_folder(one["model"]), scratch / "m");
  for (const auto& [name, content] : one["files"].items()) scratch.write("m/" + name, content.dump());
  ServiceOptions options;
  options.folders = {{"m", scratch / "m"}};
  Service service(options);
  const json request{{"query", golden["query"]}, {"texts", golden["texts"]}};
  expect_error(post(service, "/rerank", request), 400, {"texts", "[3]"});  // too long
  json cut = request;
  cut.update({{"truncate", true}, {"return_text", true}});
  const json ranked = json_of(post(service, "/rerank", cut));
  ASSERT_EQ(ranked.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const size_t index = ranked[i]["index"];
    EXPECT_NEAR(ranked[i]["score"].get<float>(), one["scores"][index].get<float>(), 5e-6);
    EXPECT_EQ(ranked[i]["text"], golden["texts"][index]);
    EXPECT_LE(ranked[i]["score"], ranked[i == 0 ? 0 : i - 1]["score"]);
  }
  cut["raw_scores"] = true;
  EXPECT_LT(json_of(post(service, "/rerank", cut))[0]["score"], 0);
  const json documents = json_of(
      post(service, "/v1/rerank",
           {{"model", "m"}, {"query", golden["query"]}, {"documents", golden["texts"]}, {"top_n", 2}}));
  EXPECT_EQ(documents["model"], "m");
  ASSERT_EQ(documents["results"].size(), 2u);
  EXPECT_EQ(documents["results"][1]["index"], ranked[1]["index"]);
  EXPECT_EQ(documents["results"][1]["relevance_score"], ranked[1]["score"]);
}

TEST(TextEmbeddingsInference, PromptsHaveNames) {
  const Scratch scratch;
  std::filesystem::copy(golden_folder("bert_texts"), scratch / "m");
  scratch.write("m/config_sentence_transformers.json", R"({"prompts": {"query": "one small "}})");
  ServiceOptions options;
  options.folders = {{"m", scratch / "m"}, {"bert_texts", golden_folder("bert_texts")}};
  Service service(options);
  const json plain = json_of(post(service, "/embed", {{"inputs", "house"}}));
  const json with_prompt = json_of(post(service, "/embed", {{"inputs", "house"}, {"prompt_name", "query"}}));
  EXPECT_NE(with_prompt, plain);
  EXPECT_EQ(with_prompt, json_of(post(service, "/embed", {{"inputs", "one small house"}})));
  EXPECT_EQ(json_of(post(service, "/tokenize", {{"inputs", "house"}, {"prompt_name", "query"}})),
            json_of(post(service, "/tokenize", {{"inputs", "one small house"}})));
  expect_error(post(service, "/embed", {{"inputs", "house"}, {"prompt_name", "passage"}}), 400, {"passage"});
  Service without(serving({"bert_texts"}));
  expect_error(post(without, "/embed", {{"inputs", "house"}, {"prompt_name", "query"}}), 400, {"prompts"});
}

}  // namespace
