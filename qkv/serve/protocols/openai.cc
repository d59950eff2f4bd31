// OpenAI's protocol: /v1/models and /v1/embeddings; completions have files of their own.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/protocols/openai_fields.h"
#include "qkv/serve/protocols/speech/transcriptions.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

ResponseJson model_json(const ServedModel& model) {
  ResponseJson one{{"id", model.name()}, {"object", "model"},    {"created", model.created()},
                   {"owned_by", "qkv"},  {"kind", model.kind()}, {"tasks", model.tasks()}};
  if (const auto& filler = model.pipelines().mask_filler) one["mask_token"] = filler->mask_token();
  if (const auto& generator = model.pipelines().generator; generator && generator->model().images)
    one["images"] = true;  // in the messages of chats
  // Its files say how to compute the vector of a sentence.
  if (model.pipelines().embedder && models::read_model_file(model.folder(), "modules.json"))
    one["sentence_transformers"] = true;
  return one;
}

void list_models(Service& service, const ExchangeHandle& exchange) {
  ResponseJson data = ResponseJson::array();
  for (const ModelHandle& model : service.models().all()) data.push_back(model_json(*model));
  exchange->send_json(dump({{"object", "list"}, {"data", std::move(data)}}));
}

constexpr std::string_view kModelPath = "/v1/models/";

// A name may have slashes, as those of Hugging Face's hub.
void retrieve_model(Service& service, const ExchangeHandle& exchange) {
  const std::string name = exchange->request().path.substr(kModelPath.size());
  exchange->send_json(dump(model_json(*service.models().named(name))));
}

void embed(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "embed");
  const Pipelines& pipelines = model->pipelines();
  const JsonValue input = fields.required("input");
  const std::vector<pipelines::Prompt> inputs = prompts_of(input);
  const bool is_list = inputs.size() > 1 || (input.is_array() && inputs[0].ids.empty());
  const std::string format = fields.text("encoding_format");
  if (format != "float" && format != "base64")
    throw HttpError(400,
                    concat("encoding_format: expected \"float\" or \"base64\", found ", quoted_json(format)));
  pipelines::TextEmbedOptions options = pipelines.embed_options;
  options.vector.dimensions = fields.integer("dimensions");
  fields.find("user");
  fields.done();

  const auto tokens = std::make_shared<std::atomic<int64_t>>(0);
  encode<pipelines::Embedded>(
      *model->text_encoder(), exchange->call(model), inputs.size(),
      [&](size_t i) {
        const pipelines::Prompt& one = inputs[i];
        auto request = one.ids.empty() ? pipelines.embedder->prepare(one.text, options)
                                       : pipelines.embedder->prepare(one.ids, options);
        *tokens += std::ssize(request.encoding.ids);
        return request;
      },
      [&pipelines](const pipelines::EmbedRequest& request, const Tensor& hidden) {
        return pipelines.embedder->finish(request, hidden);
      },
      [exchange, model, format, tokens, is_list](const std::vector<pipelines::Embedded>& results,
                                                 const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          std::vector<std::string> data;
          for (size_t i = 0; i < results.size(); ++i) {
            require_result(results[i].error, "input", i, is_list);
            const std::string vector = format == "float" ? json_floats(results[i].values)
                                                         : quoted_json(base64_floats(results[i].values));
            data.push_back(concat(R"({"object":"embedding","index":)", i, R"(,"embedding":)", vector, "}"));
          }
          exchange->send_json(concat(R"({"object":"list","data":)", json_list(data), R"(,"model":)",
                                     quoted_json(model->name()), R"(,"usage":{"prompt_tokens":)", *tokens,
                                     R"(,"total_tokens":)", *tokens, "}}"));
        });
      });
}

}  // namespace

std::string openai_error(const HttpError& error) {
  return concat(R"({"error":{"message":)", json_string(error.what()), R"(,"type":)", json_string(error.type),
                R"(,"param":null,"code":)", error.code.empty() ? "null" : json_string(error.code), "}}");
}

std::vector<Route> openai_routes() {
  std::vector<Route> routes{
      get("/v1/models", list_models, "List the models.", R"({object: "list", data: [Model]})"),
      get("/v1/models/*", retrieve_model, "Describe a model.", "Model", {.errors = {404}}),
      text_completions_route(), chat_completions_route(),
      post(
          "/v1/embeddings", embed, "Embed texts.",
          {model_field(), required("input", kPrompt),
           optional("encoding_format", R"("float" | "base64")", "", R"("float")"),
           whole("dimensions", between(1, INT32_MAX), "The first numbers of each vector; all by default"),
           optional("user", "any")},
          R"({object: "list", data: [{object: "embedding", index: integer(0..), embedding: [number] | string}],
  model: string, usage: Usage})")};
  for (Route& route : audio_routes()) routes.push_back(std::move(route));
  for (Route& route : routes) route.tag = "OpenAI";
  return routes;
}

}  // namespace qkv::serve
