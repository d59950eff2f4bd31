// qkv's own protocol: what the command line does, with its JSON.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/data/image.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/image_attention.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

// {"model": ..., key: [...]}, a JSON object for each text. more: further members, such as ,"seed":3.
std::string results_json(const ServedModel& model, const char* key, const std::vector<std::string>& results,
                         const std::string& more = {}) {
  return concat(R"({"model":)", quoted_json(model.name()), more, R"(,")", key, R"(":)", json_list(results),
                "}");
}

// Sends the results of all texts, or the error of the call.
template <class Result, class ToJson>
typename Gather<Result>::Done sender(const ExchangeHandle& exchange, const ModelHandle& model,
                                     const char* key, const ToJson& to_text, const std::string& more = {}) {
  return [exchange, model, key, to_text, more](const std::vector<Result>& results,
                                               const std::exception_ptr& error) {
    exchange->answer(error, [&] {
      std::vector<std::string> objects;
      size_t bytes = 0;
      for (const Result& result : results) {
        objects.push_back(to_text(result));
        add_bytes(bytes, objects.back().size());
      }
      exchange->send_json(results_json(*model, key, objects, more));
    });
  };
}

OptionsInRequest option_limits() {
  static const std::vector<OptionInRequest> kLimits = request_limits();
  return kLimits;
}

std::optional<search::Sampling> sampling_of(Fields& fields) {
  search::Sampling sampling;
  if (!fields.read(sampling, option_limits())) return std::nullopt;
  sampling.top_k = std::max(sampling.top_k, 0);
  sampling.seed = fields.seed();
  return sampling;
}

RequestFields translate_fields() {
  using Options = search::SearchOptions;
  RequestFields fields{
      model_field(),
      required("text", kTexts),
      optional("prefix", "string", "The beginning of the translation, in whole words"),
      whole("alternatives", between(0, 64),
            "The most likely next tokens, each with its best completion; not with nbest", "0"),
      flag("truncate"),
      flag("scores"),
      flag("alignment"),
      flag("trace"),
      flag("stream", "For one text with beam 1")};
  add_option_fields<Options>(fields, {"", Options::kBeamSearch}, option_limits(), true);
  add_option_fields<Options>(fields, {Options::kOutputs, Options::kGnmt}, option_limits(), false);
  add_option_fields<search::Sampling>(fields, {"", search::Sampling::kSeed}, option_limits(), false);
  add_option_fields<pipelines::Languages>(fields, {""}, option_limits(), true);
  return fields;
}

pipelines::TranslateOptions translate_options(Fields& fields, const pipelines::Translator& translator,
                                              pipelines::TranslationFields& shown) {
  pipelines::TranslateOptions options = translator.default_options();
  search::SearchOptions& search = options.search;
  fields.read(search, option_limits());
  fields.read(options.languages, option_limits());
  if (const auto alternatives = static_cast<int>(*fields.integer("alternatives")); alternatives > 0) {
    if (search.nbest > 1) throw HttpError(400, "alternatives: expected none with nbest, found both");
    search.alternatives = true;
    search.nbest = alternatives;
  }
  if (!fields.find("min_new_tokens"))
    search.min_new_tokens = std::min(search.min_new_tokens, search.max_new_tokens);
  search.sampling = sampling_of(fields);
  if (search.sampling && !fields.find("beam")) search.beam = 1;
  if (!search.sampling && !search.alternatives && !fields.find("beam"))
    search.beam = std::max(search.beam, search.nbest);
  options.truncate = fields.boolean("truncate");
  options.trace = fields.boolean("trace");
  options.alignment = shown.alignment = fields.boolean("alignment");
  shown.scores = fields.boolean("scores");
  search.validate();
  return options;
}

// The command's object, and the trace if there is one. traced: bytes of the traces so far, estimated.
std::string translation_json(const pipelines::Translation& translation,
                             const pipelines::TranslationFields& shown,
                             const text::TranslationTokenizer& tokenizer, size_t& traced) {
  std::string object = pipelines::to_json(translation, shown);
  if (!translation.trace) return object;
  // Each candidate has the tokens of its hypothesis.
  for (size_t step = 0; step < translation.trace->steps.size(); ++step)
    add_bytes(traced, translation.trace->steps[step].size() * (200 + 12 * step), kMaxRepeatedBytes);
  object.pop_back();
  return concat(object, R"(,"trace":)", pipelines::to_json(*translation.trace, tokenizer), "}");
}

// Streams the words of one text as soon as they are final.
class TranslationStream {
 public:
  TranslationStream(const text::TranslationTokenizer& tokenizer, ExchangeHandle exchange)
      : tokenizer_(tokenizer), exchange_(std::move(exchange)) {}

  bool add(const search::NewToken& token) {
    ids_.push_back(token.id);
    const std::string text = tokenizer_.decode(ids_);
    // The last word, or the last character, may still grow.
    const size_t final = std::min(text.rfind(' '), text.size());
    if (final == text.size() || final <= shown_.size() || !text.starts_with(shown_)) return true;
    send(text.substr(0, final));
    return true;
  }
  void finish(const std::string& text) {
    if (text.size() > shown_.size() && text.starts_with(shown_)) send(text);
  }

 private:
  void send(const std::string& text) {
    exchange_->event(concat(R"({"text":)", quoted_json(text.substr(shown_.size())), "}"));
    shown_ = text;
  }

  const text::TranslationTokenizer& tokenizer_;
  ExchangeHandle exchange_;
  std::vector<int32_t> ids_;
  std::string shown_;
};

void translate_own(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "translate");
  const pipelines::Translator& translator = *model->pipelines().translator;
  bool is_list = false;
  const std::vector<std::string> texts = fields.texts("text", &is_list);
  const std::string prefix = fields.text("prefix");
  require_short("prefix", prefix, texts.size());
  pipelines::TranslationFields shown;
  const pipelines::TranslateOptions options = translate_options(fields, translator, shown);
  const bool streams = fields.boolean("stream");
  fields.done();
  const bool one_at_a_time = options.search.beam == 1 && options.search.nbest == 1;
  if (streams && (texts.size() != 1 || !one_at_a_time || options.search.alternatives)) {
    throw HttpError(400,
                    "stream: expected one text, beam 1 and nbest 1, as the words of other searches are "
                    "final at the end only; found others");
  }
  const text::TranslationTokenizer& tokenizer = *translator.model().tokenizer;
  std::vector<pipelines::Source> sources;
  for (size_t i = 0; i < texts.size(); ++i)
    sources.push_back({.text = texts[i], .prefix = prefix, .key = i + 1});
  const auto to_text = [shown, &tokenizer,
                        traced = std::make_shared<size_t>(0)](const pipelines::Translation& one) {
    return translation_json(one, shown, tokenizer, *traced);
  };
  const auto& sampling = options.search.sampling;
  const std::string seed = sampling ? concat(R"(,"seed":)", sampling->seed) : "";
  if (!streams) {
    return translate(*model, exchange->call(model), sources, options,
                     sender<pipelines::Translation>(exchange, model, "translations", to_text, seed));
  }
  const auto stream = std::make_shared<TranslationStream>(tokenizer, exchange);
  sources[0].on_token = [stream](const search::NewToken& token) { return stream->add(token); };
  translate(*model, exchange->call(model), sources, options,
            [exchange, model, stream, to_text, seed](const std::vector<pipelines::Translation>& results,
                                                     const std::exception_ptr& error) {
              exchange->answer(error, [&] {
                stream->finish(results.at(0).text);
                exchange->event(
                    concat(R"({"done":true)", seed, R"(,"translations":[)", to_text(results.at(0)), "]}"));
                exchange->event("[DONE]");
                exchange->end_events();
              });
            });
}

void fill_mask(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "fill-mask");
  const pipelines::MaskFiller& filler = *model->pipelines().mask_filler;
  const std::vector<std::string> texts = fields.texts("text");
  const pipelines::FillMaskOptions options{.count = *fields.integer("count")};
  fields.done();
  size_t bytes = 0;
  encode<pipelines::FilledText>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) {
        pipelines::FillMaskRequest request = filler.prepare(texts[i], options);
        // Each prediction has the whole text.
        const auto masks = static_cast<size_t>(std::ranges::count(request.encoding.ids, filler.mask_id()));
        add_bytes(bytes, masks * static_cast<size_t>(options.count) * (texts[i].size() + 100),
                  kMaxRepeatedBytes);
        return request;
      },
      [&filler](const pipelines::FillMaskRequest& request, const Tensor& hidden) {
        return filler.finish(request, hidden);
      },
      sender<pipelines::FilledText>(exchange, model, "results",
                                    [](const pipelines::FilledText& one) { return to_json(one); }));
}

constexpr size_t kMaxLabels = 100;

RequestFields classify_fields() {
  RequestFields fields{
      model_field(), required("text", kTexts), flag("pairs", "A tab separates two texts"),
      whole("top", between(1, INT32_MAX)),
      optional("labels", "string | [string](..100)",
               "Labels that the model was not trained on; for models of natural language inference")};
  add_option_fields<pipelines::ZeroShotOptions>(fields, {""}, {}, false);
  return fields;
}

void classify(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "classify");
  const std::vector<std::string> texts = fields.texts("text");
  const pipelines::ClassifyOptions options{.pairs = fields.boolean("pairs")};
  const auto top = static_cast<size_t>(fields.integer("top").value_or(INT32_MAX));
  const std::vector<std::string> labels =
      fields.find("labels") ? fields.texts("labels") : std::vector<std::string>();
  pipelines::ZeroShotOptions how;
  const bool asks = fields.read(how, {});
  fields.done();
  const auto done = sender<pipelines::Classified>(
      exchange, model, "results", [top](const pipelines::Classified& one) { return to_json(one, top); });
  if (labels.empty()) {
    if (asks) throw HttpError(400, "hypothesis, multi_label: expected labels beside them, found none");
    const pipelines::TextClassifier& classifier = *model->pipelines().classifier;
    return encode<pipelines::Classified>(
        *model->text_encoder(), exchange->call(model), texts.size(),
        [&](size_t i) { return classifier.prepare(texts[i], options); },
        [&classifier](const pipelines::EncoderRequest& request, const Tensor& hidden) {
          return classifier.finish(request, hidden);
        },
        done);
  }
  if (options.pairs) throw HttpError(400, "pairs: expected none with labels, found true");
  if (labels.size() > kMaxLabels)
    throw HttpError(400, concat("labels: expected at most ", kMaxLabels, ", found ", labels.size()));
  if (!model->pipelines().zero_shot)
    throw HttpError(
        400, concat("labels: expected a model of natural language inference, with a label entailment, found ",
                    model->name()));
  const pipelines::ZeroShotClassifier& classifier = *model->pipelines().zero_shot;
  require_short("labels", *std::ranges::max_element(labels, {}, &std::string::size),
                texts.size() * labels.size());
  encode_parts<pipelines::Entailment>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return classifier.prepare(texts[i], labels, how); },
      [&classifier](const pipelines::ZeroShotRequest& request, const Tensor& hidden) {
        return classifier.finish(request, hidden);
      },
      [labels, how](std::span<const pipelines::Entailment> parts) {
        return pipelines::ZeroShotClassifier::merged(parts, labels, how);
      },
      done);
}

void tag(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "tag");
  const pipelines::TokenTagger& tagger = *model->pipelines().tagger;
  const std::vector<std::string> texts = fields.texts("text");
  const bool words = fields.boolean("words");
  fields.done();
  encode<pipelines::TaggedText>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return tagger.prepare(texts[i]); },
      [&tagger, words](const pipelines::TagRequest& request, const Tensor& hidden) {
        pipelines::TaggedText tagged = tagger.finish(request, hidden);
        return words ? words_of(request.text, tagged) : tagged;
      },
      sender<pipelines::TaggedText>(exchange, model, "results",
                                    [](const pipelines::TaggedText& one) { return to_json(one); }));
}

OptionsInRequest answer_limits() {
  static const std::vector<OptionInRequest> kLimits{{"top", {.range = between(1, 100)}},
                                                    {"max_answer_tokens", {.range = between(1, 100)}},
                                                    {"window", {.range = between(0, 1 << 20)}},
                                                    {"shared", {.range = between(0, 1 << 20)}}};
  return kLimits;
}

RequestFields answer_fields() {
  RequestFields fields{model_field(), required("question", "string"), required("text", kTexts)};
  add_option_fields<pipelines::AnswerOptions>(fields, {""}, answer_limits(), false);
  return fields;
}

void answer(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "answer");
  const pipelines::QuestionAnswerer& answerer = *model->pipelines().answerer;
  const std::string question = fields.required("question").string();
  const std::vector<std::string> texts = fields.texts("text");
  pipelines::AnswerOptions options;
  fields.read(options, answer_limits());
  fields.done();
  require_short("question", question, texts.size());
  size_t bytes = 0;
  for (const std::string& text : texts)
    add_bytes(bytes, static_cast<size_t>(options.top) * (text.size() + 100), kMaxRepeatedBytes);
  encode_parts<pipelines::AnsweredText>(
      *model->text_encoder(), exchange->call(model), texts.size(),
      [&](size_t i) { return answerer.prepare(question, texts[i], options); },
      [&answerer](const pipelines::AnswerRequest& request, const Tensor& hidden) {
        return answerer.finish(request, hidden);
      },
      [options](std::span<const pipelines::AnsweredText> windows) {
        return pipelines::QuestionAnswerer::merged(windows, options);
      },
      sender<pipelines::AnsweredText>(exchange, model, "results",
                                      [](const pipelines::AnsweredText& one) { return to_json(one); }));
}

// Work for the model's serial worker: `work` returns the answer.
void run_serially(const ModelHandle& model, const ExchangeHandle& exchange,
                  std::function<std::string()> work) {
  model->serial().submit(
      exchange->call(model),
      {.run =
           [exchange, model, work = std::move(work)] {
             std::string answer = work();
             exchange->answer(nullptr, [&] { exchange->send_json(std::move(answer)); });
           },
       .on_failed = [exchange](const std::exception_ptr& error) { exchange->fail(error); }});
}

// Texts between two checks for disconnection and deadline.
constexpr size_t kScoredTogether = 8;

void score(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "score");
  const Pipelines& pipelines = model->pipelines();
  std::vector<std::string> texts, sources, targets;
  if (pipelines.scorer) {
    texts = fields.texts("text");
  } else {
    sources = fields.texts("source");
    targets = fields.texts("target");
    if (sources.size() != targets.size()) {
      throw HttpError(400, concat("target: expected ", sources.size(), " texts, as many as sources, found ",
                                  targets.size()));
    }
  }
  fields.done();
  run_serially(model, exchange, [model, exchange, texts, sources, targets] {
    std::vector<pipelines::TextPair> pairs;
    for (size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
    std::vector<std::string> objects;
    size_t bytes = 0;
    const auto score_in_parts = [&](const auto& scorer, const auto& inputs) {
      const CallHandle call = exchange->call(model);
      for (size_t first = 0; first < inputs.size(); first += kScoredTogether) {
        call->require_wanted();
        const size_t count = std::min(kScoredTogether, inputs.size() - first);
        for (const pipelines::ScoredText& one : scorer(std::span(inputs).subspan(first, count))) {
          objects.push_back(to_json(one));
          add_bytes(bytes, objects.back().size());
        }
      }
    };
    if (model->pipelines().scorer) {
      score_in_parts(*model->pipelines().scorer, texts);
    } else {
      score_in_parts(*model->pipelines().pair_scorer, pairs);
    }
    return results_json(*model, "results", objects);
  });
}

void attention(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const ModelHandle model = service.models().find(fields.text("model"), "attention");
  const std::string text = fields.required("text").string(), target = fields.text("target"),
                    pair = fields.text("text_pair");
  const auto layer = fields.integer("layer"), head = fields.integer("head"), tile = fields.integer("tile");
  const std::string part = fields.text("part");
  if (!part.empty() && part != "encoder" && part != "decoder" && part != "cross") {
    throw HttpError(
        400, concat("part: expected \"encoder\", \"decoder\" or \"cross\", found ", quoted_json(part)));
  }
  fields.done();
  run_serially(model, exchange, [model, text, target, pair, tile, layer, head, part] {
    explain::AttentionReport report = model->attention(text, target, pair, tile);
    std::erase_if(report.layers, [&](const explain::AttentionLayer& one) {
      return (layer && one.index != *layer) || (!part.empty() && part != explain::name_of(one.part));
    });
    if (report.layers.empty())
      throw HttpError(400, "layer, part: expected ones that the model has, found none");
    for (explain::AttentionLayer& one : report.layers) {
      if (!head) break;
      if (*head >= one.weights.dim(0))
        throw HttpError(400, concat("head: expected one below ", one.weights.dim(0), ", found ", *head));
      one.weights = one.weights.slice(0, *head, 1);
      if (!one.statistics.empty()) one.statistics = {one.statistics[static_cast<size_t>(*head)]};
    }
    return to_json(report);
  });
}

// An image request is a form: the file "image", and "model".
struct ImageForm {
  ModelHandle model;
  std::string file;
};

ImageForm image_form(Service& service, const ExchangeHandle& exchange, const char* task) {
  auto form = parse_form(exchange->request());
  const auto take = [&](const char* name) {
    const auto found = form.find(name);
    if (found == form.end()) return std::string();
    std::string value = std::move(found->second);
    form.erase(found);
    return value;
  };
  const std::string name = take("model");
  ImageForm result{service.models().find(name, task), take("image")};
  if (result.file.empty()) throw HttpError(400, "form: expected a file \"image\", found none");
  if (!form.empty()) throw HttpError(400, concat("form: unknown field ", quoted_json(form.begin()->first)));
  return result;
}

// The serial worker decodes the image, so that neither the handlers nor the encoder wait for it, and queues
// it for the encoder's next batch.
template <class Result, class Pipeline>
void encode_image(const ImageForm& form, const ExchangeHandle& exchange, const Pipeline& pipeline) {
  const CallHandle call = exchange->call(form.model);
  const auto run = [form, exchange, call, &pipeline] {
    encode<Result>(
        *form.model->image_encoder(), call, 1,
        [&](size_t) { return pipeline.prepare(data::decode_image(form.file, "image")); },
        [&pipeline](const auto& request, const Tensor& hidden) { return pipeline.finish(request, hidden); },
        sender<Result>(exchange, form.model, "results", [](const Result& one) { return to_json(one); }));
  };
  form.model->serial().submit(call, {.run = run, .on_failed = [exchange](const std::exception_ptr& error) {
                                       exchange->fail(error);
                                     }});
}

void classify_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "classify-image");
  encode_image<pipelines::Classified>(form, exchange, *form.model->pipelines().image_classifier);
}

void embed_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "embed-image");
  encode_image<pipelines::Embedded>(form, exchange, *form.model->pipelines().image_embedder);
}

void attend_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "attention-image");
  run_serially(form.model, exchange, [form] {
    return to_json(
        explain::image_attention_report(pipelines::capture_attention(*form.model->pipelines().image_embedder,
                                                                     data::decode_image(form.file, "image")),
                                        "image", form.model->name()));
  });
}

}  // namespace

std::vector<Route> own_routes() {
  const RequestField model = model_field(), text = required("text", kTexts);
  const Range place = between(0, 1 << 20);
  const RequestFields image{model, required("image", "file", "A PNG or JPEG file")};
  const auto results = [](const std::string& result) {
    return concat("{model: string, results: [Failed | ", result, "]}");
  };
  const auto tagged = [](const char* units) {
    return concat(
        "{", units,
        ": [{text: string, begin: integer(0..), end: integer(0..), label: string, probability: number}]}");
  };
  std::vector<Route> routes{
      post(
          "/v1/translate", translate_own, "Translate texts: n-best, alternatives, prefix, scores, trace.",
          translate_fields(),
          R"({model: string, seed?: integer(0..) 'Of sampling.', translations: [Failed | {translation: string,
  truncated?: boolean, source_tokens?: [string], hypotheses: [{text: string, score: number, tokens?: [string],
    log_probability?: number, complete?: boolean, token_log_probabilities?: [number], alignment?: [integer(0..)]}],
  trace?: {steps: [[object]]}}]})",
          {.streams = true}),
      post("/v1/score", score, "Log-probabilities of texts, or of translations.",
           {model, optional("text", kTexts, "For language models"),
            optional("source", kTexts, "For translation models"), optional("target", kTexts)},
           results("{log_probability: number, perplexity: number | null, tokens: [string], "
                   "token_log_probabilities: [number]}")),
      post("/v1/fill-mask", fill_mask, "Predict masked tokens.",
           {model, text, whole("count", between(1, 1000), "", "5")},
           results("{masks: [[{token: string, id: integer(0..), probability: number, text: string}]]}")),
      post("/v1/classify", classify, "Classify texts, by the labels of the model or by given ones.",
           classify_fields(), results("{labels: Labels}")),
      post(
          "/v1/tag", tag, "Label the tokens or words of texts.",
          {model, text,
           flag(
               "words",
               "Words, which spaces separate, instead of tokens; a word's label is that of its first token")},
          results(concat(tagged("tokens"), " | ", tagged("words")))),
      post("/v1/answer", answer, "Answer a question from texts.", answer_fields(),
           results(
               "{answers: [{text: string, begin: integer(0..), end: integer(0..), probability: number}]}")),
      post(
          "/v1/attention", attention, "Attention weights of a text, or of a text and its translation.",
          {model, required("text", "string"),
           optional("target", "string", "Default: the model's own translation"),
           optional("text_pair", "string", "The second text of a pair; text encoders only"),
           whole("tile", place,
                 "Tokens in a query and key; 0, the default: 1 up to 256 tokens, beyond 128 tiles. At most "
                 "256 tiles. "
                 "Not for translation"),
           optional("part", R"("encoder" | "decoder" | "cross")", "Default: all"), whole("layer", place),
           whole("head", place)},
          R"({title?: string, model?: string, source_tokens: [string], target_tokens: [string], target_inputs?: [string],
  source_special?: [integer(0..1)] '1: a token that the tokenizer added.',
  second_text?: integer(0..) 'The first token of the second text.',
  tile?: integer(2..) 'Tokens in a tile, if queries and keys are tiles.',
  tokens?: integer(1..) 'Of the text, if it has tiles.',
  alignment?: [integer(0..)] 'The source token of each target token.',
  layers: [{part: "encoder" | "decoder" | "cross", layer: integer(0..), heads: [[[number]]], statistics: Statistics}]})"),
      post("/v1/images/classify", classify_image, "Classify an image.", image, results("{labels: Labels}"),
           {.body = Body::form}),
      post("/v1/images/embed", embed_image, "Embed an image.", image, results("{vector: [number]}"),
           {.body = Body::form}),
      post(
          "/v1/images/attention", attend_image, "Attention weights and rollout of an image.", image,
          R"({title?: string, model?: string, own_tokens: [string], patches: {rows: integer(1..), columns: integer(1..)},
  region: {top: number, left: number, height: number, width: number}, labels?: Labels,
  layers: [{layer: integer(0..), heads: [[[number]]], statistics: Statistics}], rollout: [[[number]]]})",
          {.body = Body::form})};
  for (Route& route : routes) route.tag = "qkv";
  return routes;
}

}  // namespace qkv::serve
