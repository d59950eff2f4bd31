// Labels of texts, words and masks, and the spans that answer questions.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "qkv/pipelines/json.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/own.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

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
  require_few_labels(labels);
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

}  // namespace

std::vector<Route> label_routes() {
  const RequestField model = model_field(), text = required("text", kTexts);
  const auto tagged = [](const char* units) {
    return concat(
        "{", units,
        ": [{text: string, begin: integer(0..), end: integer(0..), label: string, probability: number}]}");
  };
  return {
      post("/v1/fill-mask", fill_mask, "Predict masked tokens.",
           {model, text, whole("count", between(1, 1000), "", "5")},
           results_type("{masks: [[{token: string, id: integer(0..), probability: number, text: string}]]}")),
      post("/v1/classify", classify, "Classify texts, by the labels of the model or by given ones.",
           classify_fields(), results_type("{labels: Labels}")),
      post(
          "/v1/tag", tag, "Label the tokens or words of texts.",
          {model, text,
           flag(
               "words",
               "Words, which spaces separate, instead of tokens; a word's label is that of its first token")},
          results_type(concat(tagged("tokens"), " | ", tagged("words")))),
      post("/v1/answer", answer, "Answer a question from texts.", answer_fields(),
           results_type(
               "{answers: [{text: string, begin: integer(0..), end: integer(0..), probability: number}]}"))};
}

}  // namespace qkv::serve
