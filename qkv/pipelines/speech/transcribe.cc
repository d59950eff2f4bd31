#include "qkv/pipelines/speech/transcribe.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "qkv/base/error.h"
#include "qkv/data/audio/log_mel.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/pipelines/speech/languages.h"
#include "qkv/pipelines/speech/segments.h"
#include "qkv/pipelines/speech/timestamp_rules.h"
#include "qkv/pipelines/speech/word_times.h"
#include "qkv/search/transformer.h"
#include "qkv/tensor/storage.h"
#include "qkv/text/compression.h"
#include "qkv/text/lines.h"

namespace qkv::pipelines {
namespace {

using models::SpeechModel;
using models::SpeechTokens;

// Later windows do not continue text of a higher temperature.
constexpr double kMaxTrustedTemperature = 0.5;

std::vector<int32_t> prompt_ids(const SpeechModel& model, const std::string& prompt) {
  if (text::is_blank(prompt)) return {};
  text::EncodeOptions options;
  options.special_tokens = false;
  return model.tokenizer.encode(concat(" ", text::trimmed(prompt)), options).ids;
}

// The id of a language that is given.
int32_t language_id(const SpeechModel& model, const std::string& language) {
  const std::string code = language_code(language);
  std::string known;
  for (const auto& [name, id] : model.tokens.languages) {
    if (name == code) return id;
    known += concat(known.empty() ? "" : ", ", name);
  }
  throw UsageError(concat("language: expected one of ", known, ", found '", language, "'"));
}

// The output of a window at one temperature.
struct Attempt {
  std::vector<int32_t> ids = {};  // without prefix and end token
  std::vector<float> log_probabilities = {};
  std::string text = {};
  double temperature = 0, log_probability = 0, compression = 0;
};

}  // namespace

void TranscribeOptions::validate() const {
  require_ranges(*this);
  search.validate();
  if (search.sampling || search.alternatives || search.nbest != 1)
    throw UsageError("search: expected one output of a search, found sampling or several outputs");
  if (temperatures.empty()) throw UsageError("temperatures: expected at least one, found none");
  for (const double temperature : temperatures) {
    if (!(temperature >= 0 && temperature < 100))
      throw UsageError(concat("temperatures: expected 0 to below 100, found ", temperature));
  }
  if (words && no_timestamps) throw UsageError("words: expected timestamps, found none");
  require_text("prompt", prompt);
}

// The features of the whole audio, and the window that is being decoded.
struct TranscriptionJob::State {
  std::shared_ptr<const SpeechModel> model;
  TranscribeOptions options;
  uint64_t key = 0;
  Tensor features = {};  // [frames, mel_bins]
  int64_t frames = 0;    // of the audio; padding follows
  int64_t begin = 0;     // of the window, in frames
  int64_t windows = 0;   // before it
  Tensor encoded = {};   // [positions, d_model] of the window; undefined: not encoded yet
  size_t attempt = 0;    // of options.temperatures
  std::optional<int32_t> language = {};
  std::shared_ptr<LanguageChoice> choice = {};  // while the language is being detected
  std::shared_ptr<double> no_speech = {};       // of the window; its requests write it
  std::vector<int32_t> prompt = {}, previous = {};
  std::vector<int32_t> start = {};  // of the window's output: <|startoftranscript|>, language, task
  size_t prefix_size = 0;           // of the window's request
  Transcription result = {};

  int64_t window_frames() const { return 2 * model->config.source_positions; }
  int64_t length() const { return std::min(window_frames(), frames - begin); }
  bool done() const { return !result.error.empty() || begin >= frames; }
  double seconds_of(int64_t frame) const {
    return static_cast<double>(frame * model->audio.features.hop) /
           static_cast<double>(model->audio.features.rate);
  }

  void encode();
  search::Request request_of(int64_t start_tokens) const;
  search::Request language_request();
  search::Request window_request();
  void accept_language();
  Attempt best_attempt(const search::Decoded& decoded) const;
  std::string text_of(std::span<const int32_t> ids) const;
  std::vector<int32_t> texts_of(std::span<const int32_t> ids) const;
  bool is_silent(const Attempt& one) const;
  bool is_unlikely(const Attempt& one) const;
  void take(const Attempt& one);
  void add_words(const std::vector<size_t>& places, const Attempt& one);
  void next_window(int64_t advance);
};

void TranscriptionJob::State::encode() {
  const InferenceMemory inference;
  const int64_t bins = model->config.mel_bins, whole = window_frames();
  Tensor window = features.slice_rows(begin, std::min(whole, features.rows() - begin));
  if (window.rows() < whole) {
    Tensor padded = Tensor::zeros({whole, bins});
    padded.slice_rows(0, window.rows()).copy_from(window);
    window = padded;
  }
  nn::ForwardContext context;
  no_speech = std::make_shared<double>(0);
  encoded = model->transformer->encode_audio(window, Offsets::uniform(1, whole), context).values.value();
}

search::Request TranscriptionJob::State::request_of(int64_t start_tokens) const {
  search::Request request;
  request.source.assign(static_cast<size_t>(encoded.rows()), -1);
  request.rows = {.values = encoded};
  request.options = options.search;
  request.options.max_source_factor = 0;
  request.options.max_new_tokens = static_cast<int>(std::min<int64_t>(
      options.search.max_new_tokens, std::max<int64_t>(1, model->config.max_positions - start_tokens)));
  request.key = (key << 32) + static_cast<uint64_t>(windows) * 64 + attempt;
  return request;
}

search::Request TranscriptionJob::State::language_request() {
  choice = std::make_shared<LanguageChoice>(model->tokens);
  search::Request request = request_of(1);
  request.options = {.beam = 1, .max_new_tokens = 1, .max_source_factor = 0, .constraints = {choice}};
  return request;
}

search::Request TranscriptionJob::State::window_request() {
  const SpeechTokens& tokens = model->tokens;
  std::vector<int32_t> prefix;
  // <|startofprev|> prompt, previous text, <|startoftranscript|>: of at most half of the positions.
  const int64_t most = model->config.max_positions / 2 - 1;
  std::vector<int32_t> before = prompt;
  if (std::ssize(before) > most) before.erase(before.begin(), before.end() - most);
  if (options.previous_text) {
    const int64_t count = std::min(most - std::ssize(before), std::ssize(previous));
    before.insert(before.end(), previous.end() - count, previous.end());
  }
  if (!before.empty()) {
    prefix = before;
    prefix.push_back(tokens.start);
  }
  const int64_t place_of_start = std::ssize(prefix);
  start = {tokens.start};
  if (language) {
    start.push_back(*language);
    start.push_back(options.translate ? tokens.translate : tokens.transcribe);
  }
  prefix.insert(prefix.end(), start.begin() + 1, start.end());
  if (options.no_timestamps) prefix.push_back(tokens.no_timestamps);
  search::Request request = request_of(1 + std::ssize(prefix));
  if (!before.empty()) request.start = tokens.previous;
  prefix_size = prefix.size();
  request.prefix = std::move(prefix);
  if (!options.no_timestamps) {
    request.options.constraints.push_back(
        std::make_shared<TimestampRules>(tokens, model->max_first_timestamp));
  }
  if (const double temperature = options.temperatures[attempt]; temperature > 0) {
    request.options.beam = 1;
    request.options.nbest = options.samples;
    request.options.sampling = models::Sampling{.temperature = temperature, .seed = options.seed};
  }
  // An engine may call it after the job has gone.
  request.on_prefix = [place_of_start, probability = no_speech,
                       token = static_cast<size_t>(tokens.no_speech)](
                          int64_t place, std::span<const float> log_probabilities) {
    if (place == place_of_start) *probability = std::exp(static_cast<double>(log_probabilities[token]));
  };
  return search::fitting({model->transformer}, std::move(request));
}

void TranscriptionJob::State::accept_language() {
  const std::vector<float>& probabilities = choice->probabilities();
  const auto best = std::ranges::max_element(probabilities);
  const auto& [code, id] = model->tokens.languages[static_cast<size_t>(best - probabilities.begin())];
  language = id;
  result.language = code;
  result.language_probability = *best;
  choice.reset();
}

Attempt TranscriptionJob::State::best_attempt(const search::Decoded& decoded) const {
  std::optional<Attempt> best;
  for (const search::Hypothesis& hypothesis : decoded.hypotheses) {
    const auto skipped = static_cast<std::ptrdiff_t>(prefix_size);
    if (std::ssize(hypothesis.ids) <= skipped ||
        hypothesis.token_log_probabilities.size() != hypothesis.ids.size())
      throw UsageError("accept: expected an output of the last request, found another");
    Attempt one{.ids = {hypothesis.ids.begin() + skipped, hypothesis.ids.end() - 1},
                .log_probabilities = {hypothesis.token_log_probabilities.begin() + skipped,
                                      hypothesis.token_log_probabilities.end()},
                .temperature = options.temperatures[attempt]};
    if (!hypothesis.complete) one.log_probabilities.pop_back();  // of a forced end
    double sum = 0;
    for (const float log_probability : one.log_probabilities) sum += log_probability;
    one.log_probability = sum / std::max<double>(1, static_cast<double>(one.log_probabilities.size()));
    if (!best || one.log_probability > best->log_probability) best = std::move(one);
  }
  if (!best) throw DataError("search: expected an output, found none");
  best->text = text_of(best->ids);
  best->compression = text::compression_ratio(best->text);
  return std::move(*best);
}

// Of tokens without timestamps.
std::string TranscriptionJob::State::text_of(std::span<const int32_t> ids) const {
  return model->tokenizer.decode(texts_of(ids));
}

std::vector<int32_t> TranscriptionJob::State::texts_of(std::span<const int32_t> ids) const {
  std::vector<int32_t> texts(ids.begin(), ids.end());
  std::erase_if(texts, [&](int32_t id) { return id >= model->tokens.eos; });
  return texts;
}

bool TranscriptionJob::State::is_silent(const Attempt& one) const {
  return *no_speech > options.no_speech && one.log_probability < options.min_log_probability;
}

bool TranscriptionJob::State::is_unlikely(const Attempt& one) const {
  return one.compression > options.max_compression || one.log_probability < options.min_log_probability;
}

void TranscriptionJob::State::take(const Attempt& one) {
  const int64_t steps = length() / 2;  // of timestamps
  WindowSegments found = options.no_timestamps
                             ? WindowSegments{{{.begin = 0, .end = steps, .ids = one.ids}}, steps}
                             : split_segments(one.ids, model->tokens, steps);
  std::vector<size_t> places;  // of the segments' first tokens among the window's
  size_t place = 0;
  for (TokenSegment& segment : found.segments) {
    std::string text = text_of(segment.ids);
    previous.insert(previous.end(), segment.ids.begin(), segment.ids.end());
    const size_t first = std::exchange(place, place + segment.ids.size());
    if (text.find_first_not_of(" \n") == text.npos) continue;
    places.push_back(first);
    result.text += text;
    result.segments.push_back({.begin = seconds_of(begin + 2 * std::min(segment.begin, steps)),
                               .end = seconds_of(begin + 2 * std::min(segment.end, steps)),
                               .text = std::move(text),
                               .ids = std::move(segment.ids),
                               .window = seconds_of(begin),
                               .temperature = one.temperature,
                               .log_probability = one.log_probability,
                               .compression = one.compression,
                               .no_speech = *no_speech});
  }
  if (options.words) add_words(places, one);
  if (one.temperature > kMaxTrustedTemperature) previous.clear();
  // Half a step at the end of an audio is not a window of its own.
  next_window(found.advance >= steps ? length() : 2 * found.advance);
}

// The words of the window's segments, the last ones, whose first tokens have these places in it.
void TranscriptionJob::State::add_words(const std::vector<size_t>& places, const Attempt& one) {
  const std::span<TranscribedSegment> segments = std::span(result.segments).last(places.size());
  std::vector<int32_t> ids;
  std::vector<float> log_probabilities;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (size_t i = 0; i < segments[s].ids.size(); ++i) {
      if (segments[s].ids[i] >= model->tokens.eos) continue;
      ids.push_back(segments[s].ids[i]);
      log_probabilities.push_back(one.log_probabilities[places[s] + i]);
    }
  }
  if (ids.empty()) return;
  const std::vector<int64_t> times =
      token_times(*model, encoded, std::max<int64_t>(1, length() / 2), ids, start);
  const auto seconds = [&](int64_t place) {
    return seconds_of(begin + 2 * times[static_cast<size_t>(place)]);
  };
  int64_t place = 0;  // among all tokens of text
  for (TranscribedSegment& segment : segments) {
    for (const WordTokens& word : split_words(model->tokenizer, texts_of(segment.ids), result.language)) {
      double sum = 0;
      for (int64_t i = word.begin; i < word.end; ++i)
        sum += std::exp(static_cast<double>(log_probabilities[static_cast<size_t>(place + i)]));
      segment.words.push_back({.begin = seconds(place + word.begin),
                               .end = seconds(place + word.end),
                               .text = word.text,
                               .probability = sum / static_cast<double>(word.end - word.begin)});
    }
    place += std::ssize(texts_of(segment.ids));
  }
}

void TranscriptionJob::State::next_window(int64_t advance) {
  begin += std::clamp<int64_t>(advance, 1, length());
  ++windows;
  attempt = 0;
  encoded = {};
}

TranscriptionJob::TranscriptionJob(std::unique_ptr<State> state) : state_(std::move(state)) {}
TranscriptionJob::~TranscriptionJob() = default;
TranscriptionJob::TranscriptionJob(TranscriptionJob&&) noexcept = default;

std::optional<search::Request> TranscriptionJob::next() {
  State& state = *state_;
  if (state.done()) return std::nullopt;
  if (!state.encoded.defined()) state.encode();
  const bool names_language = !state.model->tokens.languages.empty();
  return names_language && !state.language ? state.language_request() : state.window_request();
}

void TranscriptionJob::accept(const search::Decoded& decoded) {
  State& state = *state_;
  if (!state.encoded.defined()) throw UsageError("accept: expected the result of a request, found none made");
  if (decoded.cancelled) return fail("cancelled");
  if (decoded.error) return fail(message_of(decoded.error));
  for (const search::Hypothesis& hypothesis : decoded.hypotheses)
    state.result.tokens += std::ssize(hypothesis.ids);
  if (state.choice) return state.accept_language();
  const Attempt one = state.best_attempt(decoded);
  if (state.is_silent(one)) return state.next_window(state.length());
  if (state.is_unlikely(one) && state.attempt + 1 < state.options.temperatures.size()) {
    ++state.attempt;
  } else {
    state.take(one);
  }
}

void TranscriptionJob::fail(std::string error) { state_->result.error = std::move(error); }

double TranscriptionJob::seconds() const { return state_->result.seconds; }
double TranscriptionJob::seconds_done() const {
  return std::min(state_->seconds_of(state_->begin), state_->result.seconds);
}
const Transcription& TranscriptionJob::transcription() const { return state_->result; }

TranscribeOptions Transcriber::default_options() const {
  TranscribeOptions options{.search = search_defaults(model_->generation, model_->tokens.eos),
                            .language = model_->language,
                            .translate = model_->translates};
  options.search.nbest = 1;
  options.search.max_new_tokens = static_cast<int>(model_->config.max_positions);
  return options;
}

void Transcriber::check(const TranscribeOptions& options) const {
  options.validate();
  if (!model_->tokens.languages.empty()) {
    if (!options.language.empty()) language_id(*model_, options.language);
    return;
  }
  if (!options.language.empty() && language_code(options.language) != "en")
    throw UsageError(
        concat("language: expected en, which the model transcribes alone, found '", options.language, "'"));
  if (options.translate)
    throw UsageError("translate: expected a model of several languages, found one of English alone");
}

search::Engine Transcriber::make_engine(const search::EngineOptions& options,
                                        const search::StepModelOptions& step_model) const {
  search::EngineOptions wide = options;
  if (wide.batch_tokens > 0)
    wide.batch_tokens = std::max(wide.batch_tokens, kWindowsTogether * model_->config.source_positions);
  const search::ModelList models{model_->transformer};
  return {search::make_step_model(models, step_model), search::special_ids(models), wide};
}

TranscriptionJob Transcriber::start(const data::Audio& audio, const TranscribeOptions& options,
                                    uint64_t key) const {
  check(options);
  auto state = std::make_unique<TranscriptionJob::State>();
  state->model = model_;
  state->options = options;
  state->key = key;
  state->result.language = "en";
  if (!model_->tokens.languages.empty() && !options.language.empty()) {
    state->language = language_id(*model_, options.language);
    state->result.language = language_code(options.language);
  }
  state->prompt = prompt_ids(*model_, options.prompt);
  const models::AudioProcessorConfig& config = model_->audio;
  data::Audio resampled = data::resample(audio, config.features.rate);
  state->result.seconds =
      static_cast<double>(resampled.samples.size()) / static_cast<double>(config.features.rate);
  state->frames = std::ssize(resampled.samples) / config.features.hop;
  const auto window = static_cast<size_t>(config.chunk_samples());
  // A short audio is followed by silence; of a long one, the last window is padded behind its features, as
  // transformers do.
  if (resampled.samples.size() < window) resampled.samples.resize(window);
  state->features = data::LogMel(config.features)(resampled.samples);
  return TranscriptionJob(std::move(state));
}

std::vector<Transcription> Transcriber::operator()(std::span<const data::Audio> audios,
                                                   const TranscribeOptions& options,
                                                   const TranscribeRun& run) const {
  return (*this)(
      audios.size(), [&](size_t i) { return audios[i]; }, options, run);
}

std::vector<Transcription> Transcriber::operator()(size_t count,
                                                   const std::function<data::Audio(size_t)>& audio,
                                                   const TranscribeOptions& options,
                                                   const TranscribeRun& run) const {
  check(options);
  search::Engine engine = make_engine(run.engine, run.step_model);
  std::vector<Transcription> results(count);
  struct Running {
    size_t audio;
    TranscriptionJob job;
  };
  std::map<uint64_t, Running> running;  // by the engine's id
  const auto end = [&](size_t at, Transcription result) {
    results[at] = std::move(result);
    if (run.on_done) run.on_done(at, results[at]);
  };
  // Submits the next window, or ends the audio.
  const auto go_on = [&](Running one) {
    while (true) {
      try {
        auto request = one.job.next();
        if (!request) break;
        const uint64_t id = engine.submit(std::move(*request));
        running.emplace(id, std::move(one));
        return;
      } catch (const Error& error) {
        one.job.fail(error.what());
      }
    }
    if (run.on_progress) run.on_progress(one.audio, one.job);
    end(one.audio, one.job.transcription());
  };
  size_t started = 0;
  while (started < count || !running.empty()) {
    for (; started < count && std::ssize(running) < kWindowsTogether; ++started) {
      std::optional<TranscriptionJob> job;
      try {
        job.emplace(start(audio(started), options));
      } catch (const Error& error) {
        end(started, {.error = error.what()});
        continue;
      }
      go_on({started, std::move(*job)});
    }
    for (const search::Decoded& decoded : engine.step()) {
      Running one = std::move(running.extract(decoded.request_id).mapped());
      one.job.accept(decoded);
      if (run.on_progress) run.on_progress(one.audio, one.job);
      go_on(std::move(one));
    }
  }
  return results;
}

}  // namespace qkv::pipelines
