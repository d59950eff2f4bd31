// OpenAI's protocol: /v1/models, /v1/completions, /v1/embeddings.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/serve/protocols/completion.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

ResponseJson model_json(const ServedModel& model) {
  ResponseJson one{{"id", model.name()}, {"object", "model"},    {"created", model.created()},
                   {"owned_by", "qkv"},  {"kind", model.kind()}, {"tasks", model.tasks()}};
  if (const auto& filler = model.pipelines().mask_filler) one["mask_token"] = filler->mask_token();
  // Its files say how to compute the vector of a sentence.
  if (model.pipelines().embedder && std::filesystem::exists(model.folder() / "modules.json"))
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

// Fields that change nothing at their neutral value, and are refused at any other.
void require_neutral(Fields& fields, const char* name, double neutral) {
  if (const auto value = fields.find(name); value && value->number() != neutral) {
    throw HttpError(400, concat(name, ": expected ", neutral, " or none, as it is not supported, found ",
                                value->excerpt()));
  }
}

void require_absent(Fields& fields, const char* name) {
  const auto value = fields.find(name);
  const bool empty =
      !value || (value->is_object() && value->size() == 0) || (value->is_string() && value->string().empty());
  if (!empty)
    throw HttpError(400, concat(name, ": expected none, as it is not supported, found ", value->excerpt()));
}

constexpr const char* kUnsupported = "Not supported: neutral or missing";
constexpr const char* kPrompt =
    "string | [string](1..2048) | [integer(0..2147483647)](1..) | [[integer(0..2147483647)](1..)](1..2048) "
    "'A text, texts, token ids, or lists of token ids.'";

OptionsInRequest completion_names() {
  static const std::vector<OptionInRequest> kNames = request_limits(
      {{"max_new_tokens",
        {.name = "max_tokens",
         .help = "0: nothing is generated",
         .otherwise = "16",
         .range = between(0, 1 << 20)}},
       {"min_new_tokens", {.name = "min_tokens", .otherwise = "0", .range = between(0, 1 << 20)}},
       {"temperature", {.help = "0: greedy search", .range = between(0, 100)}}});
  return kNames;
}

RequestFields completion_fields() {
  const auto neutral = [](const char* name) {
    return RequestField{.name = name, .type = "number", .help = kUnsupported, .range = between(0, 0)};
  };
  RequestFields fields{
      model_field(),
      required("prompt", kPrompt),
      whole("n", between(1, 128), "", "1"),
      whole("best_of", between(1, 128), "Equal to n"),
      optional("stop", "string | [string](..16)"),
      whole("logprobs", between(0, 5)),
      flag("echo"),
      flag("stream"),
      optional("stream_options", "{include_usage?: boolean | null, include_obfuscation?: false | null}"),
      neutral("presence_penalty"),
      neutral("frequency_penalty"),
      optional("logit_bias", "{}", kUnsupported),
      optional("suffix", "string(..0)", kUnsupported),
      optional("user", "any")};
  add_option_fields<search::SearchOptions>(fields, {""}, completion_names(), true);
  add_option_fields<search::Sampling>(fields, {"", search::Sampling::kSeed}, completion_names(), false);
  return fields;
}

search::SearchOptions completion_options(Fields& fields, const pipelines::TextGenerator& generator) {
  search::SearchOptions options = generator.default_options().search;
  options.beam = 1;
  options.nbest = 1;
  options.forced_eos = false;
  fields.read(options, completion_names());
  if (options.min_new_tokens > options.max_new_tokens) {
    throw HttpError(400, concat("min_tokens: expected at most max_tokens = ", options.max_new_tokens,
                                ", found ", options.min_new_tokens));
  }
  search::Sampling sampling;
  fields.read(sampling, completion_names());
  sampling.top_k = std::max(sampling.top_k, 0);  // -1, as vLLM's clients send: none
  sampling.seed = fields.seed();
  if (sampling.temperature > 0) options.sampling = sampling;
  require_neutral(fields, "presence_penalty", 0);
  require_neutral(fields, "frequency_penalty", 0);
  require_absent(fields, "logit_bias");
  require_absent(fields, "suffix");
  fields.find("user");
  return options;
}

// A text, a list of texts, a list of token ids, or a list of such lists.
std::vector<pipelines::Prompt> prompts_of(const JsonValue& value) {
  const auto ids_of = [](const JsonValue& list) {
    if (list.size() == 0) list.fail("at least one token id");
    std::vector<int32_t> ids;
    for (const JsonValue& item : list.items())
      ids.push_back(static_cast<int32_t>(item.integer(0, INT32_MAX)));
    return pipelines::Prompt{.ids = std::move(ids)};
  };
  if (value.is_string()) return {{.text = value.string()}};
  if (!value.is_array() || value.size() == 0)
    value.fail("a text, a list of texts, a list of token ids or a list of such lists");
  if (value.size() > Fields::kMaxTexts && !value.items().front().is_integer())
    value.fail(concat("at most ", Fields::kMaxTexts, " prompts"));
  const std::vector<JsonValue> items = value.items();
  if (items.front().is_integer()) return {ids_of(value)};
  std::vector<pipelines::Prompt> prompts;
  for (const JsonValue& item : items) {
    if (item.is_array()) {
      prompts.push_back(ids_of(item));
    } else {
      prompts.push_back({.text = item.string()});
    }
  }
  return prompts;
}

std::vector<std::string> stops_of(Fields& fields) {
  if (!fields.find("stop")) return {};
  std::vector<std::string> stops = fields.texts("stop");
  std::erase(stops, "");
  if (stops.size() > 16)
    throw HttpError(400, concat("stop: expected at most 16 texts, found ", stops.size()));
  return stops;
}

void complete(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "generate");
  const pipelines::TextGenerator& generator = *model->pipelines().generator;
  CompletionOptions options;
  options.model = model->name();
  options.generate.search = completion_options(fields, generator);
  options.choices = static_cast<size_t>(*fields.integer("n"));
  const std::vector<pipelines::Prompt> given = prompts_of(fields.required("prompt"));
  if (given.size() * options.choices > Fields::kMaxTexts) {
    throw HttpError(400, concat("n: expected at most ", Fields::kMaxTexts, " choices in all, found ",
                                given.size(), " prompts with ", options.choices, " each"));
  }
  options.echo = fields.boolean("echo");
  options.stream = fields.boolean("stream");
  if (const auto logprobs = fields.integer("logprobs")) {
    options.logprobs = true;
    options.top_logprobs = static_cast<int>(*logprobs);
  }
  options.stops = stops_of(fields);
  if (const auto best_of = fields.integer("best_of");
      best_of && *best_of != static_cast<int64_t>(options.choices)) {
    throw HttpError(400, concat("best_of: expected n or none, as it is not supported, found ", *best_of));
  }
  if (const auto stream_options = fields.find("stream_options")) {
    stream_options->members([&](std::string_view name, const JsonValue& value) {
      if (value.is_null()) return;
      const bool on = value.boolean();
      if (name == "include_usage") {
        options.stream_usage = on;
      } else if (name != "include_obfuscation" || on) {
        value.fail("none, as it is not supported");
      }
    });
  }
  fields.done();
  if (options.generate.search.max_new_tokens == 0) {
    options.prompt_only = true;
    options.generate.search.max_new_tokens = 1;  // the least of a search
  }
  complete(model, exchange, given, std::move(options));
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
  const int64_t width = pipelines.embedder->model().config().encoder.d_model();
  if (const auto dimensions = fields.integer("dimensions"); dimensions && *dimensions != width)
    throw HttpError(400, concat("dimensions: expected ", width, ", the model's, found ", *dimensions));
  fields.find("user");
  fields.done();

  const auto tokens = std::make_shared<std::atomic<int64_t>>(0);
  encode<pipelines::Embedded>(
      *model->text_encoder(), exchange->call(model), inputs.size(),
      [&](size_t i) {
        const pipelines::Prompt& one = inputs[i];
        auto request = one.ids.empty() ? pipelines.embedder->prepare(one.text, pipelines.embed_options)
                                       : pipelines.embedder->prepare(one.ids, pipelines.embed_options);
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

void refuse_chat(Service& /*service*/, const ExchangeHandle& /*exchange*/) {
  throw HttpError(400,
                  "chat templates are not supported yet: put the conversation into a prompt and use "
                  "/v1/completions",
                  "invalid_request_error", "unsupported");
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
      post(
          "/v1/completions", complete, "Continue prompts.", completion_fields(),
          R"({id: string, object: "text_completion", created: integer, model: string, seed?: integer(0..) 'Of sampling.',
  choices: [{text: string, index: integer(0..), finish_reason: "stop" | "length",
    logprobs: {tokens: [string], token_logprobs: [number | null], text_offset: [integer(0..)],
      top_logprobs: [{*: number} | null]} | null}],
  usage: Usage})",
          {.streams = true}),
      post(
          "/v1/embeddings", embed, "Embed texts.",
          {model_field(), required("input", kPrompt),
           optional("encoding_format", R"("float" | "base64")", "", R"("float")"),
           whole("dimensions", between(1, INT32_MAX), "The model's own"), optional("user", "any")},
          R"({object: "list", data: [{object: "embedding", index: integer(0..), embedding: [number] | string}],
  model: string, usage: Usage})"),
      post("/v1/chat/completions", refuse_chat, "Not supported yet: answers 400.", {}, "object")};
  for (Route& route : routes) route.tag = "OpenAI";
  return routes;
}

}  // namespace qkv::serve
