// Translations, and the probabilities of texts and translations.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/own.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

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

}  // namespace

std::vector<Route> writing_routes() {
  return {
      post(
          "/v1/translate", translate_own, "Translate texts: n-best, alternatives, prefix, scores, trace.",
          translate_fields(),
          R"({model: string, seed?: integer(0..) 'Of sampling.', translations: [Failed | {translation: string,
  truncated?: boolean, source_tokens?: [string], hypotheses: [{text: string, score: number, tokens?: [string],
    log_probability?: number, complete?: boolean, token_log_probabilities?: [number], alignment?: [integer(0..)]}],
  trace?: {steps: [[object]]}}]})",
          {.streams = true}),
      post("/v1/score", score, "Log-probabilities of texts, or of translations.",
           {model_field(), optional("text", kTexts, "For language models"),
            optional("source", kTexts, "For translation models"), optional("target", kTexts)},
           results_type("{log_probability: number, perplexity: number | null, tokens: [string], "
                        "token_log_probabilities: [number]}"))};
}

}  // namespace qkv::serve
