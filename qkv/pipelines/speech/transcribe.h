#pragma once
// Transcription of audio of any length, window by window (Whisper, Radford et al. 2022).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/base/option_field.h"
#include "qkv/data/audio/audio.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/search/engine/engine.h"

namespace qkv::pipelines {

struct TranscribeOptions {
  // Of the first temperature, 0. Sampling follows from the temperatures.
  search::SearchOptions search = {};
  std::string language = {};   // a code ("en") or a name ("English"); empty: detected
  bool translate = false;      // to English
  bool no_timestamps = false;  // windows are read whole, and segments have their times
  bool words = false;          // segments have words with times
  // Text that each window's output continues, such as names and terms in their spelling.
  std::string prompt = {};
  bool previous_text = false;  // a window continues the text of earlier windows, after the prompt
  // A window is decoded again at the next temperature while its output repeats itself or is unlikely: the
  // first by the search, others by sampling. Thresholds: of the ratio of the text's bytes to those after
  // compression, and of the mean log-probability of the tokens (section 4.5).
  std::vector<double> temperatures = {0, 0.2, 0.4, 0.6, 0.8, 1};
  int samples = 5;  // at temperatures above 0; the most likely one is taken
  uint64_t seed = 1;
  double max_compression = 2.4, min_log_probability = -1;
  // A window has no speech if that is more probable, and its output less likely than min_log_probability.
  double no_speech = 0.6;

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"language", "LANGUAGE", "Language of the audio, such as en or English (default: detected)"},
          self.language);
    visit({"translate", "", "Translate to English"}, self.translate);
    visit({"no_timestamps", "", "Read each window of 30 seconds whole, for models that write no timestamps"},
          self.no_timestamps);
    visit({"words", "", "Find the times of words"}, self.words);
    visit({"prompt", "TEXT",
           "Text that the output continues, such as names and terms in their spelling (default: none)"},
          self.prompt);
    visit({"previous_text", "", "A window continues the text of earlier windows"}, self.previous_text);
    visit({"samples", "N", "Samples at temperatures above 0; the most likely one is taken", between(1, 1024)},
          self.samples);
    visit({"seed", "N", "Random seed of the samples, 0 or more", at_least(0)}, self.seed);
    visit({"max_compression", "RATIO",
           "A window whose text compresses more is decoded again at the next temperature", above(0)},
          self.max_compression);
    visit({"min_log_probability", "LOGPROB",
           "Likewise one whose tokens have a lower log-probability on average", any_number()},
          self.min_log_probability);
    visit({"no_speech", "P",
           "A window is silent if this is more probable, and its output less likely than "
           "min_log_probability; 0 to 1",
           between(0, 1)},
          self.no_speech);
  }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Times are in seconds from the beginning of the audio.
struct TranscribedWord {
  double begin = 0, end = 0;
  std::string text = {};  // with the space before it
  double probability = 0;
};

struct TranscribedSegment {
  double begin = 0, end = 0;
  std::string text = {};
  std::vector<int32_t> ids = {};  // timestamps included
  // Of the segment's window.
  double window = 0;  // its beginning
  double temperature = 0;
  double log_probability = 0;  // mean of the tokens
  double compression = 0;
  double no_speech = 0;  // probability
  std::vector<TranscribedWord> words = {};
};

struct Transcription {
  std::string text = {};            // of all segments
  std::string language = {};        // code
  double language_probability = 1;  // if it was detected
  double seconds = 0;               // of audio
  std::vector<TranscribedSegment> segments = {};
  int64_t tokens = 0;      // decoded, those of discarded attempts included
  std::string error = {};  // why it ends early; empty on success
};

// An audio that is being transcribed: a request for each window, one after the other.
class TranscriptionJob {
 public:
  ~TranscriptionJob();
  TranscriptionJob(TranscriptionJob&&) noexcept;

  // Encodes the next window if need be. The request to decode next; nothing when the audio is done.
  std::optional<search::Request> next();
  // The result of the last request. Throws UsageError if there was none, or for the output of another.
  void accept(const search::Decoded& decoded);
  // Ends the audio with an error.
  void fail(std::string error);

  double seconds() const;       // of the audio
  double seconds_done() const;  // of them
  // All segments so far, in order.
  const Transcription& transcription() const;

 private:
  friend class Transcriber;
  struct State;
  explicit TranscriptionJob(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Windows of several audios that are decoded together.
inline constexpr int64_t kWindowsTogether = 8;

// How several audios are transcribed.
struct TranscribeRun {
  search::EngineOptions engine = {};
  search::StepModelOptions step_model = {};
  // Called after each step of an audio, whose segments so far the job has, and at its end.
  std::function<void(size_t audio, const TranscriptionJob& job)> on_progress = {};
  // Called with each result as soon as there is one, in any order.
  std::function<void(size_t audio, const Transcription& result)> on_done = {};
};

// Const: safe to use from several threads.
class Transcriber {
 public:
  // Throws UsageError for a null handle.
  explicit Transcriber(std::shared_ptr<const models::SpeechModel> model)
      : model_(required(std::move(model))) {}
  // Throws the errors of open_speech_model().
  explicit Transcriber(const std::filesystem::path& folder, const models::LoadOptions& options = {})
      : Transcriber(open_speech_model(folder, options)) {}

  const models::SpeechModel& model() const { return *model_; }
  // The search, language and task recommended by the folder's generation_config.json. Throws the errors of
  // search_defaults() (search_defaults.h).
  TranscribeOptions default_options() const;
  // Throws UsageError for bad options, such as a language that the model lacks.
  void check(const TranscribeOptions& options) const;

  // An engine for requests of jobs of the same model. It decodes at least kWindowsTogether windows together,
  // whatever batch_tokens is. An engine serves one thread at a time.
  search::Engine make_engine(const search::EngineOptions& options = {},
                             const search::StepModelOptions& step_model = {}) const;

  // Throws the errors of check(). Resamples the audio and computes its features. key: with the seed,
  // determines all random numbers. The handle keeps the model.
  TranscriptionJob start(const data::Audio& audio, const TranscribeOptions& options, uint64_t key = 0) const;

  // One transcription each, in order; windows of several are decoded together. A transcription depends on
  // its audio and options alone.
  std::vector<Transcription> operator()(std::span<const data::Audio> audios, const TranscribeOptions& options,
                                        const TranscribeRun& run = {}) const;
  // Likewise of `count` audios, which audio(i) returns when their turn comes; an Error that it throws is that
  // of the transcription.
  std::vector<Transcription> operator()(size_t count, const std::function<data::Audio(size_t)>& audio,
                                        const TranscribeOptions& options,
                                        const TranscribeRun& run = {}) const;

 private:
  std::shared_ptr<const models::SpeechModel> model_;
};

}  // namespace qkv::pipelines
