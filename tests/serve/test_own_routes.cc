// qkv's own routes: the same results as the pipelines'.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "qkv/base/files.h"
#include "qkv/data/image.h"
#include "qkv/pipelines/json.h"
#include "tests/serve/answers.h"
#include "tests/serve/fake_reply.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;

TEST(OwnRoutes, EqualThePipelines) {
  Service service(serving({"bert_texts", "bert_tokens", "bert_masked", "bert_spans", "llama", "marian"}));
  const std::vector<std::string> texts{"a red dog", "one small house"};
  const auto classified = pipelines::TextClassifier(golden_folder("bert_texts"))(texts);
  const auto tagged = pipelines::TokenTagger(golden_folder("bert_tokens"))(texts);
  const auto filled =
      pipelines::MaskFiller(golden_folder("bert_masked"))(std::vector<std::string>{"a red [MASK]"});
  const auto scored = pipelines::TextScorer(golden_folder("llama"))(texts);
  const json labels = json_of(post(service, "/v1/classify", {{"text", texts}})),
             tags = json_of(post(service, "/v1/tag", {{"text", texts}})),
             words = json_of(post(service, "/v1/tag", {{"text", texts}, {"words", true}})),
             masks = json_of(post(service, "/v1/fill-mask", {{"text", "a red [MASK]"}})),
             scores = json_of(post(service, "/v1/score", {{"model", "llama"}, {"text", texts}}));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(labels["results"][i], json::parse(to_json(classified[i])));
    EXPECT_EQ(tags["results"][i], json::parse(to_json(tagged[i])));
    EXPECT_EQ(words["results"][i], json::parse(to_json(words_of(texts[i], tagged[i]))));
    EXPECT_EQ(scores["results"][i], json::parse(to_json(scored[i])));
  }
  EXPECT_EQ(masks["results"][0], json::parse(to_json(filled[0])));
  const auto pair =
      pipelines::PairScorer(golden_folder("marian"))(std::vector<pipelines::TextPair>{{"forty", "vierzig"}});
  EXPECT_EQ(json_of(post(service, "/v1/score",
                         {{"model", "marian"}, {"source", "forty"}, {"target", "vierzig"}}))["results"][0],
            json::parse(to_json(pair[0])));
  expect_error(post(service, "/v1/score", {{"model", "marian"}, {"source", {"a", "b"}}, {"target", "c"}}),
               400, {"target", "expected 2"});
}

TEST(OwnRoutes, TakeNeutralValues) {
  Service service(serving({"marian"}));
  const json plain = json_of(post(service, "/v1/translate", {{"text", "forty"}}));
  EXPECT_EQ(json_of(post(service, "/v1/translate", {{"text", "forty"}, {"alternatives", 0}})), plain);
  EXPECT_EQ(json_of(post(service, "/v1/translate", {{"text", "forty"}, {"alternatives", 2}, {"nbest", 1}})),
            json_of(post(service, "/v1/translate", {{"text", "forty"}, {"alternatives", 2}})));
  expect_error(post(service, "/v1/translate", {{"text", "forty"}, {"alternatives", 2}, {"nbest", 2}}), 400,
               {"alternatives"});
  expect_error(post(service, "/v1/translate", {{"text", "forty"}, {"beam", 1}, {"nbest", 3}}), 400,
               {"nbest: expected at most the beam's size of 1, found 3"});
  EXPECT_EQ(json_of(post(service, "/v1/attention", {{"text", "forty"}, {"tile", 0}, {"text_pair", ""}})),
            json_of(post(service, "/v1/attention", {{"text", "forty"}})));
}

// Texts in several windows, texts with errors, and empty answers.
TEST(OwnRoutes, AnswersEqualThePipeline) {
  Service service(serving({"bert_spans"}));
  std::string longer = "the man and a red dog";
  for (int i = 0; i < 12; ++i) longer += concat(" sleeps in the ", i % 2 == 0 ? "red" : "blue", " house,");
  const std::vector<std::string> texts{"a red dog", " ", longer, "one \xe2\x80\x93 house"};
  std::vector<pipelines::QuestionedText> items;
  for (const std::string& text : texts) items.push_back({.question = "the dog?", .text = text});
  const pipelines::QuestionAnswerer answerer(golden_folder("bert_spans"));
  EXPECT_GT(answerer.prepare("the dog?", longer).size(), 5u);
  for (const bool unanswerable : {false, true}) {
    const auto answered = answerer(items, {.top = 4, .unanswerable = unanswerable, .shared = 2});
    EXPECT_FALSE(answered[1].error.empty());
    EXPECT_EQ(answered[2].answers.size(), 4u);
    const json found = json_of(post(service, "/v1/answer",
                                    {{"question", "the dog?"},
                                     {"text", texts},
                                     {"top", 4},
                                     {"unanswerable", unanswerable},
                                     {"shared", 2}}));
    ASSERT_EQ(found["results"].size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(found["results"][i], json::parse(to_json(answered[i])));
  }
  expect_error(post(service, "/v1/answer", {{"text", "a"}}), 400, {"question"});
  expect_error(post(service, "/v1/answer", {{"question", "a"}, {"text", "a"}, {"top", 101}}), 400,
               {"top", "101"});
  expect_error(post(service, "/v1/answer", {{"question", "a"}, {"text", "a"}, {"max_answer_tokens", 101}}),
               400, {"max_answer_tokens", "101"});
  expect_error(post(service, "/v1/answer",
                    {{"question", "a"}, {"text", std::string(100'000, ' ') + "a"}, {"top", 100}}),
               400, {"response", "bytes"});
  std::string many;
  while (many.size() < (size_t{1} << 20) - 4) many += "a ";
  expect_error(post(service, "/v1/answer", {{"question", "a"}, {"text", {many, many}}, {"window", 8}}), 400,
               {"text: expected at most 1048576 tokens in all"});
}

TEST(OwnRoutes, LabelsEqualThePipeline) {
  const std::filesystem::path nli =
      std::filesystem::path(QKV_TEST_DATA) / "apps/golden/hub/nli-deberta-v3-small";
  serve::ServiceOptions options = serving({"bert_texts"});
  options.folders.push_back({"nli", nli});
  Service service(options);
  const std::vector<std::string> texts{"a red dog", " ", "the man"}, labels{"red", "a man", "house"};
  const pipelines::ZeroShotOptions how{.hypothesis = "It is {}", .multi_label = true};
  const auto expected = pipelines::ZeroShotClassifier(nli)(texts, labels, how);
  const json body{{"model", "nli"},           {"text", texts},       {"labels", labels},
                  {"hypothesis", "It is {}"}, {"multi_label", true}, {"top", 2}};
  const json found = json_of(post(service, "/v1/classify", body));
  ASSERT_EQ(found["results"].size(), 3U);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(found["results"][i], json::parse(to_json(expected[i], 2)));
  const auto refused = [&](json change, const std::vector<std::string>& parts) {
    json other = body;
    other.update(change);
    expect_error(post(service, "/v1/classify", other), 400, parts);
  };
  refused({{"labels", nullptr}}, {"hypothesis, multi_label: expected labels"});
  refused({{"model", "bert_texts"}},
          {"labels: expected a model of natural language inference", "bert_texts"});
  refused({{"pairs", true}}, {"pairs: expected none with labels"});
  refused({{"labels", {"a", "a"}}}, {"labels: expected different ones"});
  refused({{"labels", std::vector<std::string>(101, "a")}}, {"labels: expected at most 100, found 101"});
  refused({{"hypothesis", "no"}}, {"hypothesis: expected a sentence"});
}

// Whatever the route, a text that is too long is refused before it is tokenized.
TEST(OwnRoutes, LimitTheBytesOfATextAndOfAResponse) {
  Service service(serving({"marian", "llama", "bert_texts", "bert_tokens", "bert_masked", "bert_spans"}));
  const std::string text((1 << 20) + 1, 'a');
  const std::vector<std::pair<std::string, json>> requests{
      {"/v1/translate", {{"text", text}}},
      {"/v1/translate", {{"text", "forty"}, {"prefix", text}}},
      {"/v1/score", {{"model", "llama"}, {"text", text}}},
      {"/v1/score", {{"model", "marian"}, {"source", "forty"}, {"target", text}}},
      {"/v1/classify", {{"text", text}}},
      {"/v1/classify", {{"text", "a\t" + text}, {"pairs", true}}},
      {"/v1/tag", {{"text", text}}},
      {"/v1/answer", {{"question", "a"}, {"text", text}}},
      {"/v1/answer", {{"question", text}, {"text", "a"}}},
      {"/v1/fill-mask", {{"text", "[MASK]" + text}}},
      {"/v1/attention", {{"model", "llama"}, {"text", text}}},
      {"/v1/attention", {{"model", "bert_texts"}, {"text", "a"}, {"text_pair", text}, {"tile", 8}}},
      {"/v1/embeddings", {{"input", text}}},
      {"/v1/completions", {{"prompt", text}}},
      {"/translate", {{"q", text}, {"source", "en"}, {"target", "de"}}},
      {"/embed", {{"inputs", text}, {"truncate", true}}},
      {"/predict", {{"inputs", text}}},
      {"/tokenize", {{"inputs", text}}}};
  for (const auto& [path, body] : requests)
    EXPECT_NE(post(service, path, body).body.find("expected at most 1048576 bytes, found 10485"),
              std::string::npos)
        << path;
  // Texts that are read again for each of many others.
  const std::vector<std::string> many(2000, "a");
  expect_error(post(service, "/v1/translate", {{"text", many}, {"prefix", std::string(5000, 'a')}}), 400,
               {"prefix: expected at most 4194 bytes with 2000 texts, found 5000"});
  // Each prediction has the whole text, and each candidate its hypothesis.
  std::string masks(100'000, ' ');
  for (int i = 0; i < 10; ++i) masks += " [MASK]";
  expect_error(post(service, "/v1/fill-mask", {{"text", masks}, {"count", 100}}), 400, {"response", "bytes"});
  EXPECT_EQ(post(service, "/v1/fill-mask", {{"text", masks}, {"count", 2}}).status, 200);
  json traced{
      {"text", std::vector<std::string>(12, "forty forty forty forty forty")}, {"beam", 64}, {"trace", true}};
  expect_error(post(service, "/v1/translate", traced), 400, {"response", "bytes"});
  traced["text"] = "forty";
  EXPECT_EQ(post(service, "/v1/translate", traced).status, 200);
}

TEST(OwnRoutes, AttentionOfChosenLayersAndHeads) {
  Service service(serving({"marian", "llama"}));
  const json all = json_of(post(service, "/v1/attention", {{"model", "marian"}, {"text", "forty"}}));
  EXPECT_FALSE(all["source_tokens"].empty());
  const json one =
      json_of(post(service, "/v1/attention",
                   {{"model", "marian"}, {"text", "forty"}, {"part", "cross"}, {"layer", 0}, {"head", 1}}));
  ASSERT_EQ(one["layers"].size(), 1U);
  ASSERT_EQ(one["layers"][0]["heads"].size(), 1U);
  for (const json& layer : all["layers"]) {
    if (layer["part"] != "cross" || layer["layer"] != 0) continue;
    EXPECT_EQ(one["layers"][0]["heads"][0], layer["heads"][1]);
  }
  EXPECT_FALSE(
      json_of(post(service, "/v1/attention", {{"model", "llama"}, {"text", "a red dog"}}))["layers"].empty());
  expect_error(post(service, "/v1/attention", {{"text", "forty"}, {"layer", 99}}), 400, {"layer"});
  expect_error(post(service, "/v1/attention", {{"text", "forty"}, {"head", 99}}), 400, {"head"});
  expect_error(post(service, "/v1/attention", {{"text", "forty"}, {"part", "left"}}), 400, {"part"});
}

TEST(OwnRoutes, AttentionOfAPairOfTexts) {
  Service service(serving({"bert_texts", "llama", "marian"}));
  const json one = json_of(post(service, "/v1/attention", {{"text", "a red dog"}}));
  EXPECT_FALSE(one.contains("second_text"));
  const json pair =
      json_of(post(service, "/v1/attention", {{"text", "a red dog"}, {"text_pair", "one small house"}}));
  const size_t first_tokens = one["source_tokens"].size(), tokens = pair["source_tokens"].size();
  EXPECT_EQ(pair["second_text"], first_tokens);  // after [CLS] and the first text with its [SEP]
  ASSERT_GT(tokens, first_tokens);
  for (const json& layer : pair["layers"]) {
    for (size_t head = 0; head < layer["heads"].size(); ++head) {
      double across = 0;
      for (size_t query = 0; query < tokens; ++query) {
        const json& row = layer["heads"][head][query];
        for (size_t key = 0; key < tokens; ++key) {
          if ((key < first_tokens) != (query < first_tokens)) across += row[key].get<double>();
        }
      }
      EXPECT_NEAR(layer["statistics"][head]["across"].get<double>(), across / static_cast<double>(tokens),
                  1e-4);
    }
  }
  const json tiles =
      json_of(post(service, "/v1/attention", {{"text", "a red dog"}, {"tile", 2}, {"head", 1}}));
  EXPECT_EQ(tiles["tile"], 2);
  EXPECT_EQ(tiles["source_tokens"].size(), (first_tokens + 1) / 2);
  EXPECT_EQ(tiles["layers"][0]["statistics"], json::array({one["layers"][0]["statistics"][1]}));
  expect_error(post(service, "/v1/attention", {{"model", "marian"}, {"text", "a"}, {"tile", 2}}), 400,
               {"tile"});
  for (const char* model : {"llama", "marian"}) {
    expect_error(post(service, "/v1/attention", {{"model", model}, {"text", "a"}, {"text_pair", "b"}}), 400,
                 {"text_pair", model});
  }
}

using FormFields = std::vector<std::pair<std::string, std::string>>;

std::string image_form(const std::string& file, const std::string& model = "vit_images",
                       const FormFields& more = {}) {
  std::string form;
  FormFields fields{{"model", model}};
  fields.insert(fields.end(), more.begin(), more.end());
  for (const auto& [name, value] : fields)
    form += concat("--XX\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", value, "\r\n");
  return form +
         "--XX\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n"
         "Content-Type: image/png\r\n\r\n" +
         file + "\r\n--XX--\r\n";
}

Sent image_request(const std::string& path, const std::string& body) {
  return {.path = path, .body = body, .headers = {{"Content-Type", "multipart/form-data; boundary=XX"}}};
}

std::string image_file(int step) {
  data::Image image{.height = 20, .width = 30, .pixels = std::vector<uint8_t>(1800)};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>(i * static_cast<size_t>(step) % 251);
  return data::encode_png(image);
}

// Images of several clients are run in batches; each answer is that of the image alone.
TEST(OwnRoutes, ImagesComeAsForms) {
  Service service(serving({"vit_images"}));
  const pipelines::ImageClassifier classifier(golden_folder("vit_images"));
  const pipelines::ImageEmbedder embedder(golden_folder("vit_images"));
  std::vector<std::string> files;
  std::vector<std::shared_ptr<FakeReply>> classified, embedded;
  for (int i = 0; i < 12; ++i) {
    files.push_back(image_file(37 + i));
    classified.push_back(start(service, image_request("/v1/images/classify", image_form(files.back()))));
    embedded.push_back(start(service, image_request("/v1/images/embed", image_form(files.back()))));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const pipelines::ImageEmbedRequest request = embedder.prepare(data::decode_image(files[i], "image"));
    const pipelines::ImageRequest* const requests[] = {&request};
    json label, vector;
    embedder.encode(requests, [&](size_t, const Tensor& hidden) {
      label = json::parse(to_json(classifier.finish(request, hidden)));
      vector = json::parse(to_json(embedder.finish(request, hidden)));
    });
    EXPECT_EQ(json_of(classified[i]->wait())["results"], json::array({label})) << i;
    EXPECT_EQ(json_of(embedded[i]->wait())["results"], json::array({vector})) << i;
  }

  const auto send = [&](const std::string& path, const std::string& body) {
    return ask(service, image_request(path, body));
  };
  EXPECT_FALSE(json_of(send("/v1/images/attention", image_form(files[0])))["rollout"].empty());
  expect_error(send("/v1/images/classify", image_form("no image")), 400, {"image"});
  expect_error(send("/v1/images/classify", "--XX\r\n"), 400, {"form"});
  expect_error(post(service, "/v1/images/classify", {{"image", "a"}}), 400, {"multipart/form-data"});
  for (const char* field : {"labels", "hypothesis"}) {
    expect_error(send("/v1/images/classify", image_form(files[0], "vit_images", {{field, "a"}})), 400,
                 {"labels", "vit_images"});
    expect_error(send("/v1/images/embed", image_form(files[0], "vit_images", {{field, "a"}})), 400, {field});
  }
}

// A model of images and texts embeds both, and classifies images by the labels of a request.
TEST(OwnRoutes, ImagesAndTextsOfOneModel) {
  const std::string name = "clip";
  const std::filesystem::path folder = QKV_TEST_DATA "/apps/golden/hub/clip-vit-base-patch32";
  ServiceOptions options;
  options.folders.push_back({name, folder});
  Service service(options);
  const pipelines::ImageZeroShotClassifier classifier(folder);
  const pipelines::ImageEmbedder embedder(classifier.encoder());
  const std::vector<std::string> labels{"a cat", "a dog"};
  const pipelines::LabelVectors vectors = classifier.label_vectors(labels, {.hypothesis = "the {} sleeps"});
  const FormFields fields{{"labels", "a cat,a dog "}, {"hypothesis", "the {} sleeps"}};
  std::vector<std::string> files;
  std::vector<std::shared_ptr<FakeReply>> classified, embedded;
  for (int i = 0; i < 8; ++i) {
    files.push_back(image_file(37 + i));
    classified.push_back(
        start(service, image_request("/v1/images/classify", image_form(files.back(), name, fields))));
    embedded.push_back(start(service, image_request("/v1/images/embed", image_form(files.back(), name))));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const pipelines::ImageEmbedRequest request =
        embedder.prepare(data::decode_image(files[i], "image"), embedder.default_options());
    const pipelines::ImageRequest* const requests[] = {&request};
    json label, vector;
    embedder.encode(requests, [&](size_t, const Tensor& hidden) {
      label = json::parse(to_json(classifier.finish(request, hidden, vectors)));
      vector = json::parse(to_json(embedder.finish(request, hidden)));
    });
    EXPECT_EQ(json_of(classified[i]->wait())["results"], json::array({label})) << i;
    EXPECT_EQ(json_of(embedded[i]->wait())["results"], json::array({vector})) << i;
    EXPECT_EQ(vector["vector"].size(), 12u);
  }
  const json texts =
      json_of(post(service, "/v1/embeddings", {{"model", name}, {"input", "a photo of a cat"}}));
  const std::vector<std::string> text{"a photo of a cat"};
  const auto own = classifier.texts()(text, classifier.texts().default_options());
  EXPECT_EQ(texts["data"][0]["embedding"].get<std::vector<float>>(), own.front().values);
  EXPECT_FALSE(json_of(post(service, "/v1/attention", {{"model", name}, {"text", "a"}}))["layers"].empty());

  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/v1/models"}))["data"][0]["kind"], "image-text");
  expect_error(post(service, "/v1/attention", {{"model", name}, {"text", "a"}, {"text_pair", "b"}}), 400,
               {"second text"});
  // TEI's routes take the first model that embeds texts.
  EXPECT_EQ(json_of(ask(service, {.method = "GET", .path = "/info"}))["max_input_length"], 20);
  EXPECT_EQ(
      json_of(post(service, "/embed", {{"inputs", text}, {"normalize", false}}))[0].get<std::vector<float>>(),
      own.front().values);

  const auto refused = [&](const FormFields& more, const std::string& file) {
    return ask(service, image_request("/v1/images/classify", image_form(file, name, more)));
  };
  expect_error(refused({}, files[0]), 400, {"labels"});
  expect_error(refused({{"labels", "a, a"}}, files[0]), 400, {"labels", "twice"});
  expect_error(refused({{"labels", "a"}, {"hypothesis", "none"}}, files[0]), 400, {"hypothesis"});
  expect_error(refused({{"labels", "a\xff"}}, files[0]), 400, {"labels", "UTF-8"});
  expect_error(refused({{"labels", "a"}}, "no image"), 400, {"image"});
  std::string many = "0";
  for (int i = 1; i < 101; ++i) many += concat(",", i);
  expect_error(refused({{"labels", many}}, files[0]), 400, {"labels", "at most 100"});
  expect_error(post(service, "/v1/classify", {{"model", name}, {"text", "a"}}), 400, {name});
}

}  // namespace
