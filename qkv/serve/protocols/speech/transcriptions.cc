#include "qkv/serve/protocols/speech/transcriptions.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "qkv/base/field_text.h"
#include "qkv/base/json.h"
#include "qkv/pipelines/speech/languages.h"
#include "qkv/pipelines/speech/transcript.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/transcribe.h"

namespace qkv::serve {
namespace {

using pipelines::TranscribedSegment;
using pipelines::TranscribedWord;
using pipelines::Transcription;

constexpr const char* kFormats[] = {"json", "text", "srt", "verbose_json", "vtt"};
constexpr const char* kGranularities = "timestamp_granularities[]";

// The fields of a form. Every field must be read.
class Form {
 public:
  explicit Form(const HttpRequest& request) : fields_(parse_form(request)) {}

  std::string take(const char* name, const char* otherwise = "") {
    const auto found = fields_.find(name);
    if (found == fields_.end()) return otherwise;
    std::string value = std::move(found->second);
    fields_.erase(found);
    return value;
  }
  template <class Value>
  void read(const char* name, Value& value) {
    if (const std::string text = take(name); !text.empty()) parse_field(name, text, value);
  }
  void done() const {
    if (!fields_.empty())
      throw HttpError(400, concat("form: unknown field ", quoted_json(fields_.begin()->first)));
  }

 private:
  std::map<std::string, std::string, std::less<>> fields_;
};

struct Wanted {
  ModelHandle model;
  std::string file, format;
  pipelines::TranscribeOptions options;
  bool stream = false, segments = true;  // of verbose_json
};

void read_granularities(const std::string& list, Wanted& wanted) {
  if (list.empty()) return;
  wanted.segments = false;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string one = list.substr(begin, end - begin);
    if (one == "word") {
      wanted.options.words = true;
    } else if (one == "segment") {
      wanted.segments = true;
    } else {
      throw HttpError(400,
                      concat(kGranularities, ": expected \"word\" or \"segment\", found ", quoted_json(one)));
    }
    begin = end + 1;
  }
  if (wanted.format != "verbose_json")
    throw HttpError(400, concat(kGranularities, ": expected a response_format of \"verbose_json\", found ",
                                quoted_json(wanted.format)));
}

Wanted wanted_of(Service& service, const ExchangeHandle& exchange, bool translate) {
  Form form(exchange->request());
  Wanted wanted{.model = service.models().find(form.take("model"), "transcribe"),
                .file = form.take("file"),
                .format = form.take("response_format", "json"),
                .options = {}};
  pipelines::TranscribeOptions& options = wanted.options;
  options = wanted.model->pipelines().transcriber->default_options();
  if (wanted.file.empty()) throw HttpError(400, "form: expected a file \"file\", found none");
  if (std::ranges::count(kFormats, wanted.format) == 0) {
    throw HttpError(400, concat("response_format: expected \"json\", \"text\", \"srt\", \"verbose_json\" or "
                                "\"vtt\", found ",
                                quoted_json(wanted.format)));
  }
  options.translate = translate || options.translate;
  form.read("language", options.language);
  form.read("prompt", options.prompt);
  // At 0, temperatures rise where outputs are unlikely, as in OpenAI's service.
  double temperature = 0;
  form.read("temperature", temperature);
  if (temperature != 0) options.temperatures = {temperature};
  form.read("beam", options.search.beam);
  form.read("no_timestamps", options.no_timestamps);
  form.read("previous_text", options.previous_text);
  form.read("stream", wanted.stream);
  if (!translate) read_granularities(form.take(kGranularities), wanted);
  form.done();
  if (wanted.stream && wanted.format != "json" && wanted.format != "text")
    throw HttpError(400, concat("stream: expected a response_format of \"json\" or \"text\", found ",
                                quoted_json(wanted.format)));
  return wanted;
}

ResponseJson segments_json(const Transcription& found) {
  ResponseJson segments = ResponseJson::array();
  for (const TranscribedSegment& one : found.segments) {
    segments.push_back({{"id", segments.size()},
                        {"seek", std::llround(one.window * 100)},
                        {"start", pipelines::milliseconds(one.begin)},
                        {"end", pipelines::milliseconds(one.end)},
                        {"text", one.text},
                        {"tokens", one.ids},
                        {"temperature", one.temperature},
                        {"avg_logprob", one.log_probability},
                        {"compression_ratio", one.compression},
                        {"no_speech_prob", one.no_speech}});
  }
  return segments;
}

ResponseJson words_json(const Transcription& found) {
  ResponseJson words = ResponseJson::array();
  for (const TranscribedSegment& segment : found.segments) {
    for (const TranscribedWord& word : segment.words)
      words.push_back({{"word", word.text},
                       {"start", pipelines::milliseconds(word.begin)},
                       {"end", pipelines::milliseconds(word.end)},
                       {"probability", word.probability}});
  }
  return words;
}

// Without the space before its first word.
std::string whole_text(const Transcription& found) {
  return found.text.substr(std::min(found.text.find_first_not_of(' '), found.text.size()));
}

ResponseJson usage_json(const Transcription& found) {
  return {{"type", "duration"}, {"seconds", std::llround(std::ceil(found.seconds))}};
}

void send(const ExchangeHandle& exchange, const Wanted& wanted, const Transcription& found) {
  using pipelines::TranscriptFormat;
  const auto send_text = [&](TranscriptFormat format, const char* type) {
    exchange->send({.content_type = type, .body = pipelines::transcript(found, format)});
  };
  if (wanted.format == "text")
    return exchange->send({.content_type = "text/plain; charset=utf-8", .body = whole_text(found) + "\n"});
  if (wanted.format == "srt") return send_text(TranscriptFormat::srt, "text/plain; charset=utf-8");
  if (wanted.format == "vtt") return send_text(TranscriptFormat::vtt, "text/vtt; charset=utf-8");
  if (wanted.format == "json")
    return exchange->send_json(dump({{"text", whole_text(found)}, {"usage", usage_json(found)}}));
  ResponseJson all{{"task", wanted.options.translate ? "translate" : "transcribe"},
                   {"language", pipelines::language_name(found.language)},
                   {"duration", pipelines::milliseconds(found.seconds)},
                   {"text", whole_text(found)}};
  if (wanted.segments) all["segments"] = segments_json(found);
  if (wanted.options.words) all["words"] = words_json(found);
  all["usage"] = usage_json(found);
  exchange->send_json(dump(all));
}

void run(Service& service, const ExchangeHandle& exchange, bool translate) {
  auto wanted = std::make_shared<Wanted>(wanted_of(service, exchange, translate));
  std::string file = std::exchange(wanted->file, {});
  const auto sent = std::make_shared<size_t>(0);  // bytes of the text
  const auto send_delta = [exchange, sent](const Transcription& so_far) {
    const std::string text = whole_text(so_far);
    if (text.size() <= *sent) return;
    exchange->event(
        dump({{"type", "transcript.text.delta"}, {"delta", text.substr(std::exchange(*sent, text.size()))}}));
  };
  transcribe(
      *wanted->model, exchange->call(wanted->model), std::move(file), wanted->options,
      [exchange, wanted, send_delta](const Transcription& so_far) {
        if (wanted->stream) exchange->answer(nullptr, [&] { send_delta(so_far); });
      },
      [exchange, wanted, send_delta](const Transcription& found, const std::exception_ptr& error) {
        exchange->answer(error, [&] {
          if (!found.error.empty()) throw HttpError(400, concat("file: ", found.error));
          if (!wanted->stream) return send(exchange, *wanted, found);
          send_delta(found);
          exchange->event(dump(
              {{"type", "transcript.text.done"}, {"text", whole_text(found)}, {"usage", usage_json(found)}}));
          exchange->event("[DONE]");
          exchange->end_events();
        });
      });
}

void transcribe_file(Service& service, const ExchangeHandle& exchange) { run(service, exchange, false); }
void translate_file(Service& service, const ExchangeHandle& exchange) { run(service, exchange, true); }

RequestFields fields(bool translate) {
  RequestFields all{
      model_field(),
      required("file", "file", "A sound file: WAV, FLAC, MP3, Ogg or AIFF"),
      optional("response_format", R"("json" | "text" | "srt" | "verbose_json" | "vtt")", "", R"("json")"),
      optional("language", "string", "A code (en) or a name (English); detected by default"),
      optional("prompt", "string", "Text that the output continues, such as names in their spelling"),
      optional("temperature", "number(0..)",
               "Above 0: each window is sampled; 0: searched, and sampled where its output is unlikely", "0"),
      whole("beam", between(1, 1024), "Hypotheses kept at each step; 1: greedy search"),
      flag("no_timestamps", "Read each window whole, for models that write no timestamps"),
      flag("previous_text", "A window continues the text of earlier windows"),
      flag("stream", "Events of type transcript.text.delta and transcript.text.done")};
  if (!translate) {
    all.push_back(optional(kGranularities, R"(["word" | "segment"])",
                           "Of verbose_json, whose \"segments\" and \"words\" they are", R"(["segment"])"));
  }
  return all;
}

}  // namespace

std::vector<Route> audio_routes() {
  const std::string answer = R"({task?: string, language?: string, duration?: number, text: string,
  segments?: [{id: integer(0..), seek: integer(0..), start: number, end: number, text: string, tokens: [integer(0..)],
    temperature: number, avg_logprob: number, compression_ratio: number, no_speech_prob: number}],
  words?: [{word: string, start: number, end: number, probability: number}], usage: {type: string, seconds: integer(0..)}} | string)";
  const RouteTraits traits{.body = Body::form, .streams = true};
  return {post("/v1/audio/transcriptions", transcribe_file, "Transcribe a sound file.", fields(false), answer,
               traits),
          post("/v1/audio/translations", translate_file, "Translate a sound file to English.", fields(true),
               answer, traits)};
}

}  // namespace qkv::serve
