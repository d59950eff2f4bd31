// The protocol of Hugging Face's Text Embeddings Inference: /embed, /embed_sparse, /predict, /rerank,
// /tokenize, /info; and /v1/rerank.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/models/hub/weights.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

std::string tei_error(const HttpError& error) {
  const char* type = error.status == 429   ? "Overloaded"
                     : error.status == 503 ? "Unhealthy"
                     : error.status < 500  ? "Validation"
                                           : "Backend";
  return concat(R"({"error":)", json_string(error.what()), R"(,"error_type":")", type, R"("})");
}

// Fields that qkv has in one form only: "truncate", which then cuts on the right.
bool truncates(Fields& fields) {
  const bool truncate = fields.boolean("truncate");
  const std::string direction = fields.text("truncation_direction");
  if (truncate && !direction.empty() && direction != "Right" && direction != "right")
    throw HttpError(400, concat("truncation_direction: expected \"Right\", found ", quoted_json(direction)));
  return truncate;
}

// Of a text: nothing unless it may be cut. own: the folder's.
std::optional<int64_t> max_length(Fields& fields, const ServedModel& model, std::optional<int64_t> own) {
  if (!truncates(fields)) return std::nullopt;
  return own ? own : model.max_input_tokens();
}

// "truncate", "truncation_direction" and "prompt_name", of TextEmbedOptions or SparseEmbedOptions.
template <class Options>
void read_text_fields(Fields& fields, const ServedModel& model, Options& options) {
  options.max_length = max_length(fields, model, options.max_length);
  if (const std::string name = fields.text("prompt_name"); !name.empty())
    options.prompt = pipelines::named_prompt(model.folder(), name);
}

void embed_tei(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find("", "embed");
  const Pipelines& pipelines = model->pipelines();
  bool is_list = false;
  const std::vector<std::string> texts = fields.texts("inputs", &is_list);
  pipelines::TextEmbedOptions options = pipelines.embed_options;
  options.vector.normalize = fields.boolean("normalize");
  options.vector.dimensions = fields.integer("dimensions");
  read_text_fields(fields, *model, options);
  fields.done();
  encode<pipelines::Embedded>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return pipelines.embedder->prepare(texts[i], options); },
      [&pipelines](const pipelines::EmbedRequest& request, const Tensor& hidden) {
        return pipelines.embedder->finish(request, hidden);
      },
      [exchange, is_list](const std::vector<pipelines::Embedded>& results, const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          std::vector<std::string> vectors;
          for (size_t i = 0; i < results.size(); ++i) {
            require_result(results[i].error, "inputs", i, is_list);
            vectors.push_back(json_floats(results[i].values));
          }
          exchange->send_json(json_list(vectors));
        });
      });
}

// The weights of a text in the order of the vocabulary, as TEI has them.
struct SparseVector {
  std::string json;
  std::string error;
};

SparseVector sparse_vector(pipelines::SparseEmbedded embedded) {
  std::ranges::sort(embedded.weights, {}, &pipelines::TokenWeight::id);
  ResponseJson list = ResponseJson::array();
  for (const pipelines::TokenWeight& one : embedded.weights)
    list.push_back({{"index", one.id}, {"value", decimal(one.weight)}});
  return {dump(list), embedded.error};
}

void embed_sparse(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find("", "embed-sparse");
  const pipelines::SparseEmbedder& embedder = *model->pipelines().sparse_embedder;
  bool is_list = false;
  const std::vector<std::string> texts = fields.texts("inputs", &is_list);
  pipelines::SparseEmbedOptions options = model->pipelines().sparse_embed_options;
  read_text_fields(fields, *model, options);
  fields.done();
  // A model that was not trained for it may weigh its whole vocabulary. The worker finishes text by text.
  const auto bytes = std::make_shared<size_t>(0);
  encode<SparseVector>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return embedder.prepare(texts[i], options); },
      [&embedder, bytes](const pipelines::SparseEmbedRequest& request, const Tensor& hidden) {
        SparseVector vector = sparse_vector(embedder.finish(request, hidden));
        add_bytes(*bytes, vector.json.size());
        return vector;
      },
      [exchange, is_list](const std::vector<SparseVector>& results, const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          std::vector<std::string> vectors;
          for (size_t i = 0; i < results.size(); ++i) {
            require_result(results[i].error, "inputs", i, is_list);
            vectors.push_back(results[i].json);
          }
          exchange->send_json(json_list(vectors));
        });
      });
}

ResponseJson labels_json(const pipelines::Classified& classified, size_t top) {
  ResponseJson labels = ResponseJson::array();
  for (const pipelines::LabelProbability& one : classified.labels) {
    if (labels.size() == top) break;
    labels.push_back({{"label", one.label}, {"score", decimal(one.probability)}});
  }
  return labels;
}

struct ClassifierInput {
  std::string text;
  std::optional<std::string> second = {};
};

// As TEI reads them: "a" and ["a"] are a text, ["a", "b"] is a pair, [["a"], ["b", "c"]] is a list of such.
std::vector<ClassifierInput> predict_inputs(const JsonValue& value, bool& is_list) {
  const auto one = [](const JsonValue& item) -> ClassifierInput {
    if (item.is_string()) return {item.string()};
    const std::vector<JsonValue> parts = item.items();
    if (parts.size() == 1) return {parts[0].string()};
    if (parts.size() != 2) item.fail("one text or two");
    return {parts[0].string(), parts[1].string()};
  };
  if (value.is_string()) return {one(value)};
  if (!value.is_array() || value.size() == 0)
    value.fail("a text, a pair of texts [a, b], or a list of lists of one or two texts");
  if (value.size() > Fields::kMaxTexts) value.fail(concat("at most ", Fields::kMaxTexts, " inputs"));
  const std::vector<JsonValue> items = value.items();
  is_list = items.front().is_array();
  if (!is_list) return {one(value)};
  std::vector<ClassifierInput> inputs;
  for (const JsonValue& item : items) {
    if (!item.is_array()) item.fail("a list of one or two texts, as the first input is");
    inputs.push_back(one(item));
  }
  return inputs;
}

// Of "parameters", which huggingface_hub's clients send: {"top_k", "function_to_apply"}. The function is the
// model's own.
size_t top_labels(Fields& fields, models::ProblemType problem) {
  const char* const own = problem == models::ProblemType::single_label  ? "softmax"
                          : problem == models::ProblemType::multi_label ? "sigmoid"
                                                                        : "none";
  size_t top = SIZE_MAX;
  const auto parameters = fields.find("parameters");
  if (!parameters) return top;
  parameters->members([&](std::string_view name, const JsonValue& value) {
    if (value.is_null()) return;
    if (name == "top_k") {
      top = static_cast<size_t>(value.integer(1, INT32_MAX));
    } else if (name != "function_to_apply") {
      value.fail("none, as it is not supported");
    } else if (value.string() != own) {
      value.fail(concat(quoted_json(own), ", the model's function, or none"));
    }
  });
  return top;
}

void predict(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find("", "classify");
  bool is_list = false;
  const std::vector<ClassifierInput> inputs = predict_inputs(fields.required("inputs"), is_list);
  const size_t top = top_labels(fields, model->pipelines().classifier->model().config().problem);
  if (fields.boolean("raw_scores"))
    throw HttpError(400, "raw_scores: expected false, as it is not supported, found true");
  if (truncates(fields))
    throw HttpError(400, "truncate: expected false, as it is not supported for pairs and labels, found true");
  fields.done();
  const pipelines::TextClassifier& classifier = *model->pipelines().classifier;
  encode<pipelines::Classified>(
      *model->text_encoder(), exchange->call(model), inputs.size(),
      [&](size_t i) {
        const ClassifierInput& one = inputs[i];
        return one.second ? classifier.prepare(one.text, *one.second) : classifier.prepare(one.text);
      },
      [&classifier](const pipelines::EncoderRequest& request, const Tensor& hidden) {
        return classifier.finish(request, hidden);
      },
      [exchange, is_list, top](const std::vector<pipelines::Classified>& results,
                               const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          ResponseJson all = ResponseJson::array();
          for (size_t i = 0; i < results.size(); ++i) {
            require_result(results[i].error, "inputs", i, is_list);
            all.push_back(labels_json(results[i], top));
          }
          exchange->send_json(dump(is_list ? all : all.at(0)));
        });
      });
}

// Scores the texts of `field` and sends what answer(results, order) makes of them.
template <class Answer>
void rank(const ModelHandle& model, const ExchangeHandle& exchange, const std::string& query,
          const char* field, const std::vector<std::string>& texts, const pipelines::RerankOptions& options,
          const Answer& answer) {
  require_short("query", query, texts.size());
  const pipelines::Reranker& reranker = *model->pipelines().reranker;
  encode<pipelines::Reranked>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return reranker.prepare(query, texts[i], options); },
      [&reranker](const pipelines::RerankRequest& request, const Tensor& hidden) {
        return reranker.finish(request, hidden);
      },
      [exchange, field, answer](const std::vector<pipelines::Reranked>& results,
                                const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          for (size_t i = 0; i < results.size(); ++i) require_result(results[i].error, field, i, true);
          exchange->send_json(dump(answer(results, pipelines::by_score(results))));
        });
      });
}

using Results = std::vector<pipelines::Reranked>;
using Order = std::vector<size_t>;

void rerank(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find("", "rerank");
  const std::string query = fields.required("query").string();
  const std::vector<std::string> texts = fields.texts("texts");
  const bool return_text = fields.boolean("return_text");
  pipelines::RerankOptions options = model->pipelines().rerank_options;
  options.raw = fields.boolean("raw_scores");
  options.max_length = max_length(fields, *model, options.max_length);
  fields.done();
  rank(model, exchange, query, "texts", texts, options,
       [texts, return_text](const Results& results, const Order& order) {
         ResponseJson list = ResponseJson::array();
         for (const size_t i : order) {
           ResponseJson one{{"index", i}, {"score", decimal(results[i].score)}};
           if (return_text) one["text"] = texts[i];
           list.push_back(std::move(one));
         }
         return list;
       });
}

// The form of Jina's and Cohere's services: the best top_n documents, cut to the model's length.
void rerank_documents(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "rerank");
  const std::string query = fields.required("query").string();
  const std::vector<std::string> texts = fields.texts("documents");
  const bool return_text = fields.boolean("return_documents");
  const auto top = static_cast<size_t>(fields.integer("top_n").value_or(INT32_MAX));
  fields.done();
  pipelines::RerankOptions options = model->pipelines().rerank_options;
  options.raw = false;
  if (!options.max_length) options.max_length = model->max_input_tokens();
  rank(model, exchange, query, "documents", texts, options,
       [texts, return_text, top, name = model->name()](const Results& results, const Order& order) {
         ResponseJson list = ResponseJson::array();
         for (const size_t i : std::span(order).first(std::min(top, order.size()))) {
           ResponseJson one{{"index", i}, {"relevance_score", decimal(results[i].score)}};
           if (return_text) one["document"] = {{"text", texts[i]}};
           list.push_back(std::move(one));
         }
         return ResponseJson{{"model", name}, {"results", std::move(list)}};
       });
}

// Null if there is none.
ModelHandle first_text_encoder(Service& service) {
  for (const ModelHandle& model : service.models().all()) {
    if (model->pipelines().embedder) return model;
  }
  return nullptr;
}

// Whether the folder's sentence-transformers files say that its embeddings are sparse.
bool is_splade(const ServedModel& model) { return model.has("embed-sparse") && !model.has("embed"); }

// The root route of TEI: what the first text encoder is for.
void predict_or_embed(Service& service, const ExchangeHandle& exchange) {
  const ModelHandle model = first_text_encoder(service);
  if (model && model->pipelines().classifier) return predict(service, exchange);
  return model && is_splade(*model) ? embed_sparse(service, exchange) : embed_tei(service, exchange);
}

// Of the model of that name, or the first that reads text.
ModelHandle with_tokenizer(Service& service, const std::string& name) {
  if (!name.empty()) {
    ModelHandle model = service.models().named(name);
    if (model->tokenizer()) return model;
    throw HttpError(400,
                    concat("model '", name, "': expected a text encoder or language model, found another"));
  }
  for (const ModelHandle& one : service.models().all()) {
    if (one->tokenizer()) return one;
  }
  throw HttpError(400, "tokenize: expected a text encoder or language model, found none");
}

// Limit of a response of /tokenize; each token takes about 70 bytes.
constexpr size_t kMaxTokens = 1 << 20;

// The tokens of a text: the text of each is its part of the input, offsets are bytes. A special token has the
// text of the vocabulary, and no place.
std::string tokens_json(const text::Tokenizer& tokenizer, const text::Encoding& encoding,
                        const std::string& text) {
  std::string result = "[";
  for (size_t t = 0; t < encoding.size(); ++t) {
    const bool own = encoding.special_mask[t] == 0;
    const auto [begin, end] = encoding.offsets[t];
    const std::string shown = own ? text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))
                                  : std::string(tokenizer.token(encoding.ids[t]).value_or(""));
    result += concat(t > 0 ? "," : "", R"({"id":)", encoding.ids[t], R"(,"text":)", quoted_json(shown),
                     R"(,"special":)", own ? "false" : "true", R"(,"start":)", own ? concat(begin) : "null",
                     R"(,"stop":)", own ? concat(end) : "null", "}");
  }
  return result + "]";
}

void tokenize(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const std::string name = fields.text("model");
  const std::vector<std::string> texts = fields.texts("inputs");
  const bool special = fields.boolean("add_special_tokens");
  const std::string prompt_name = fields.text("prompt_name");
  fields.done();
  const ModelHandle model = with_tokenizer(service, name);
  const std::string prompt =
      prompt_name.empty() ? std::string() : pipelines::named_prompt(model->folder(), prompt_name);
  const CallHandle call = exchange->call(model);
  std::vector<std::string> all;
  size_t tokens = 0;
  for (const std::string& text : texts) {
    call->require_wanted();
    const std::string whole = prompt + text;
    require_result(pipelines::text_error(whole), "inputs", all.size(), true);
    const text::Encoding encoding =
        model->tokenizer()->encode(whole, {.special_tokens = special, .truncation = {}});
    tokens += encoding.size();
    if (tokens > kMaxTokens)
      throw HttpError(400, concat("inputs: expected at most ", kMaxTokens, " tokens in all, found more"));
    all.push_back(tokens_json(*model->tokenizer(), encoding, whole));
  }
  exchange->send_json(json_list(all));
}

void info(Service& service, const ExchangeHandle& exchange) {
  ModelHandle model = first_text_encoder(service);
  if (!model) model = service.models().all().front();
  ResponseJson type = ResponseJson::object();
  if (model->pipelines().classifier) {
    type["classifier"] = ResponseJson::object();
  } else if (is_splade(*model)) {
    type["embedding"] = {{"pooling", "splade"}};
  } else if (model->has("embed")) {
    constexpr std::array kNames{"mean",       "cls",           "max",          "pooler",
                                "last_token", "weighted_mean", "mean_sqrt_len"};
    type["embedding"] = {
        {"pooling", kNames[static_cast<size_t>(model->pipelines().embed_options.vector.pooling)]}};
  }
  const auto tokens = model->max_input_tokens();
  exchange->send_json(dump({{"model_id", model->name()},
                            {"model_sha", nullptr},
                            {"model_dtype", models::config_dtype(model->weight_dtype())},
                            {"model_type", type},
                            {"max_input_length", tokens ? ResponseJson(*tokens) : ResponseJson(nullptr)},
                            {"max_client_batch_size", Fields::kMaxTexts},
                            {"version", QKV_VERSION}}));
}

}  // namespace

std::vector<Route> tei_routes() {
  const RequestField inputs = required("inputs", kTexts),
                     pairs = required("inputs", "string | Pair | [Pair](1..2048)"),
                     normalize = flag("normalize", "", "true"), truncate = flag("truncate"),
                     whole_text = optional("truncate", "false"), unscaled = optional("raw_scores", "false"),
                     dimensions = whole("dimensions", between(1, INT32_MAX), "The first numbers of a vector"),
                     direction = optional("truncation_direction", R"("Right" | "right")",
                                          "The side on which a text is cut"),
                     prompt = optional("prompt_name", "string",
                                       "A prompt of config_sentence_transformers.json, put before each text"),
                     parameters = optional("parameters",
                                           R"({top_k?: integer(1..2147483647) | null,
  function_to_apply?: "softmax" | "sigmoid" | "none" | null})");
  const std::string label = "{label: string, score: number}",
                    labels = concat("[", label, " | [", label, "]]"), vectors = "[[number]]",
                    sparse = "[[{index: integer(0..), value: number}]]";
  std::vector<Route> routes{
      post("/", predict_or_embed,
           "As /predict if the first text encoder is a classifier, as /embed_sparse if a SPLADE, else as "
           "/embed.",
           {pairs, normalize, truncate, direction, prompt, dimensions, parameters, unscaled},
           concat(labels, " | ", vectors, " | ", sparse)),
      post("/embed", embed_tei, "Embed texts.", {inputs, normalize, truncate, direction, prompt, dimensions},
           vectors),
      post("/embed_sparse", embed_sparse,
           "Weigh the tokens of the vocabulary in texts, by a model with a masked-language head (SPLADE).",
           {inputs, truncate, direction, prompt}, sparse),
      post("/predict", predict, "Classify a text, texts, or pairs of texts.",
           {pairs, parameters, unscaled, whole_text, direction}, labels),
      post("/rerank", rerank, "Order texts by a model of one label.",
           {required("query", "string"), required("texts", kTexts), flag("return_text"),
            flag("raw_scores", "The logits, not their sigmoids"), truncate, direction},
           "[{index: integer(0..), score: number, text?: string}]"),
      post("/v1/rerank", rerank_documents, "Order documents by a model of one label, as Jina and Cohere do.",
           {model_field(), required("query", "string"), required("documents", kTexts),
            whole("top_n", between(1, INT32_MAX), "The best documents; all by default"),
            flag("return_documents")},
           "{model: string, results: [{index: integer(0..), relevance_score: number,"
           " document?: {text: string}}]}"),
      post(
          "/tokenize", tokenize, "Tokenize texts.",
          {inputs, model_field(), flag("add_special_tokens", "", "true"), prompt},
          R"([[{id: integer(0..), text: string 'Its part of the input; of a special token, the text of the vocabulary.',
  special: boolean, start: integer | null, stop: integer | null}]])"),
      get("/info", info, "Describe the first text encoder.",
          "{model_id: string, model_sha?: string | null, model_dtype?: string, model_type?: object,"
          " max_input_length: integer | null, max_client_batch_size: integer(1..), version?: string}")};
  for (Route& route : routes) {
    route.tag = "TEI";
    route.error_shape = tei_error;
    route.error = "TeiError";
  }
  return routes;
}

}  // namespace qkv::serve
