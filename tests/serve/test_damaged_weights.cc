// Weights that are not numbers, and weights that are overwritten under a server.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/data/image.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::HttpResponse;
using serve::Service;

// The file's tensors: what follows its header.
size_t begin_of_tensors(const std::string& safetensors) {
  uint64_t header = 0;
  std::memcpy(&header, safetensors.data(), sizeof header);
  return sizeof header + header;
}

// A copy of a folder whose weights are all NaN.
std::filesystem::path not_a_number(const Scratch& scratch, const std::string& name) {
  std::filesystem::copy(golden_folder(name), scratch / name);
  std::string bytes = read_file(scratch / name / "model.safetensors");
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin_of_tensors(bytes)), bytes.end(), '\xff');
  scratch.write(name + "/model.safetensors", bytes);
  return scratch / name;
}

struct Asked {
  const char* model;
  const char* path;
  json body;
};

TEST(DamagedWeights, NaNIsRefusedByEveryRoute) {
  const Scratch scratch;
  serve::ServiceOptions options;
  for (const char* const name :
       {"bert_texts", "bert_tokens", "bert_masked", "bert_spans", "llama", "marian", "vit_images"})
    options.folders.push_back({name, not_a_number(scratch, name)});
  Service service(options);
  const std::vector<Asked> all{
      {"bert_texts", "/v1/classify", {{"text", "a red dog"}}},
      {"bert_tokens", "/v1/tag", {{"text", "a red dog"}}},
      {"bert_spans", "/v1/answer", {{"question", "a dog"}, {"text", "a red dog"}}},
      {"bert_masked", "/v1/fill-mask", {{"text", "a red [MASK]"}}},
      {"bert_texts", "/v1/embeddings", {{"input", "a red dog"}}},
      {"llama", "/v1/score", {{"text", "a red dog"}}},
      {"llama", "/v1/completions", {{"prompt", "a red"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}}},
      {"llama", "/v1/completions", {{"prompt", "a"}}},
      {"marian", "/v1/score", {{"source", "forty"}, {"target", "vierzig"}}},
      {"marian", "/v1/translate", {{"text", "forty"}}}};
  for (const auto& [model, path, body] : all) {
    json request = body;
    request["model"] = model;
    const HttpResponse response = post(service, path, request);
    EXPECT_NE(response.body.find(": expected finite "), std::string::npos) << path << " " << response.body;
  }
  for (const char* const path : {"/embed", "/embed_sparse", "/predict"})
    expect_error(post(service, path, {{"inputs", "a red dog"}}), 400, {"expected finite"});
  const std::string image =
      data::encode_png({.height = 20, .width = 30, .pixels = std::vector<uint8_t>(1800)});
  for (const char* const path : {"/v1/images/classify", "/v1/images/embed"}) {
    const HttpResponse response =
        ask(service,
            {.path = path,
             .body = "--X\r\nContent-Disposition: form-data; name=image\r\n\r\n" + image + "\r\n--X--\r\n",
             .headers = {{"Content-Type", "multipart/form-data; boundary=X"}}});
    EXPECT_NE(response.body.find("expected finite"), std::string::npos) << path << " " << response.body;
  }
}

// Pooling by maxima would hide a NaN.
TEST(DamagedWeights, NaNIsAnErrorOfEachText) {
  const Scratch scratch;
  const auto folder = not_a_number(scratch, "bert_texts");
  const std::vector<std::string> texts{"a red dog", "one"};
  const pipelines::TextEmbedder embedder(folder);
  for (const auto pooling : {pipelines::Pooling::mean, pipelines::Pooling::cls, pipelines::Pooling::max}) {
    pipelines::TextEmbedOptions options;
    options.vector = {.pooling = pooling, .normalize = true};
    for (const pipelines::Embedded& one : embedder(texts, options)) {
      EXPECT_TRUE(one.values.empty());
      EXPECT_NE(one.error.find("expected finite hidden states, found NaN"), std::string::npos) << one.error;
    }
  }
  for (const pipelines::Classified& one : pipelines::TextClassifier(folder)(texts))
    EXPECT_NE(one.error.find("expected finite logits"), std::string::npos) << one.error;
}

TEST(DamagedWeights, OverwrittenInPlaceAreNotUsed) {
  const Scratch scratch;
  std::filesystem::copy(golden_folder("llama"), scratch / "m");
  serve::ServiceOptions options;
  options.folders = {{"m", scratch / "m"}};
  Service service(options);
  const auto answer = [&](const std::string& path = "/v1/completions") {
    return post(service, path,
                path == "/v1/score" ? json{{"text", "a red dog"}}
                                    : json{{"prompt", "a red dog"}, {"temperature", 0}});
  };
  const json before = json_of(answer())["choices"];
  const std::string file = scratch / "m/model.safetensors";
  const std::string old = read_file(file);
  std::string other = old;
  for (size_t i = begin_of_tensors(old); i < old.size(); i += 4) other[i + 3] ^= '\x80';  // signs
  // Renamed over: the open model stays as it is.
  write_file_atomically(file, other);
  EXPECT_EQ(json_of(answer())["choices"], before);
  EXPECT_EQ(ask(service, {.path = "/v1/reload"}).status, 200);
  EXPECT_NE(json_of(answer())["choices"], before);
  // Written in place.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the resolution of a file's time
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << old;
  for (const char* const path : {"/v1/completions", "/v1/score"})
    expect_error(answer(path), 503, {"model 'm'", file, "by renaming", "model_changed"});
  EXPECT_EQ(ask(service, {.path = "/v1/reload"}).status, 200);
  EXPECT_EQ(json_of(answer())["choices"], before);
}

}  // namespace
