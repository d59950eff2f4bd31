// Whole runs of small models. Texts and times are compared with transformers' by
// tests/apps/test_hub_folders.cc.

#include "qkv/pipelines/speech/transcribe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/audio/log_mel.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/speech/transcript.h"
#include "tests/pipelines/speech/talk.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using testing::expect_throw;

void expect_same_result(const Transcription& found, const Transcription& expected, const std::string& what) {
  EXPECT_EQ(to_json(found), to_json(expected)) << what;
  EXPECT_EQ(found.tokens, expected.tokens) << what;
  EXPECT_EQ(found.language_probability, expected.language_probability) << what;
  ASSERT_EQ(found.segments.size(), expected.segments.size()) << what;
  for (size_t i = 0; i < found.segments.size(); ++i) {
    const TranscribedSegment &a = found.segments[i], &b = expected.segments[i];
    EXPECT_EQ(a.ids, b.ids) << what;
    EXPECT_EQ(a.log_probability, b.log_probability) << what;
    EXPECT_EQ(a.no_speech, b.no_speech) << what;
    ASSERT_EQ(a.words.size(), b.words.size()) << what;
    for (size_t w = 0; w < a.words.size(); ++w) EXPECT_EQ(a.words[w].probability, b.words[w].probability);
  }
}

std::vector<data::Audio> several_audios() {
  std::vector<data::Audio> audios{part_of_talk(0, 5.3), part_of_talk(0.7, 2.01), part_of_talk(2, 0.3)};
  audios.push_back(data::resample(part_of_talk(1, 3), 8000));
  audios.push_back({.rate = 16000, .samples = {}});
  audios.push_back({.rate = 500, .samples = {0.5f, 0.25f}});  // refused
  audios.push_back(data::resample(part_of_talk(0.3, 1.5), 44100));
  audios.push_back(part_of_talk(3, 2));
  audios.push_back(part_of_talk(1.5, 2.5));
  return audios;
}

// With all that a window may have: a detected language, attempts, samples, words.
TEST(Transcriber, ResultsDoNotDependOnOtherAudiosOrThreads) {
  const std::vector<data::Audio> audios = several_audios();
  TranscribeOptions options = tiny().default_options();
  options.temperatures = {0, 0.4, 0.9};
  options.samples = 2;
  options.min_log_probability = -0.8;
  options.no_speech = 1;
  options.words = true;
  const int before = threads();
  set_threads(1);
  const std::vector<Transcription> expected = tiny()(audios, options);
  size_t segments = 0;
  for (size_t i = 0; i < audios.size(); ++i) {
    EXPECT_EQ(expected[i].error.empty(), i != 5) << expected[i].error;
    segments += expected[i].segments.size();
  }
  EXPECT_NE(expected[5].error.find("rate"), std::string::npos) << expected[5].error;
  EXPECT_GT(segments, 12u);
  set_threads(2);
  const std::vector<Transcription> threaded = tiny()(audios, options);
  for (size_t i = 0; i < audios.size(); ++i)
    expect_same_result(threaded[i], expected[i], concat("audio ", i));
  set_threads(before);
  // Alone, in an engine of its own.
  for (size_t i = 0; i < audios.size(); ++i) {
    if (i == 5) continue;
    search::Engine engine = tiny().make_engine({.batch_tokens = 1});
    TranscriptionJob job = tiny().start(audios[i], options);
    while (auto request = job.next()) {
      engine.submit(std::move(*request));
      while (!engine.idle())
        for (const search::Decoded& decoded : engine.step()) job.accept(decoded);
    }
    expect_same_result(job.transcription(), expected[i], concat("audio ", i, " alone"));
  }
}

TEST(Transcriber, AttemptsFollowTheThresholds) {
  TranscribeOptions options = german({0, 1});
  options.no_speech = 1;
  options.samples = 3;
  const auto run = [&] { return tiny()(std::vector{talk()}, options).at(0); };
  // Always likely enough.
  options.min_log_probability = -100;
  options.max_compression = 100;
  const Transcription first = run();
  ASSERT_GT(first.segments.size(), 3u);
  std::vector<double> means;
  for (const TranscribedSegment& one : first.segments) {
    EXPECT_EQ(one.temperature, 0);
    means.push_back(one.log_probability);
  }
  // Never.
  options.min_log_probability = 100;
  const Transcription last = run();
  ASSERT_FALSE(last.segments.empty());
  for (const TranscribedSegment& one : last.segments) EXPECT_EQ(one.temperature, 1);
  EXPECT_GT(last.tokens, first.tokens);
  EXPECT_NE(last.text, first.text);
  expect_same_result(run(), last, "the same seed");
  options.seed = 2;
  EXPECT_NE(run().text, last.text);
  // Some windows.
  std::ranges::sort(means);
  options.min_log_probability = (means.front() + means.back()) / 2;
  size_t kept = 0, sampled = 0;
  for (const TranscribedSegment& one : run().segments) {
    ++(one.temperature == 0 ? kept : sampled);
    if (one.temperature == 0) {
      EXPECT_GE(one.log_probability, options.min_log_probability);
    }
  }
  EXPECT_GT(kept, 0u);
  EXPECT_GT(sampled, 0u);
}

// The log-probabilities behind these tokens for the first window of the talk, by one run of the decoder.
std::vector<double> first_log_probabilities(const Transcriber& transcriber,
                                            const std::vector<int32_t>& tokens) {
  const models::SpeechModel& model = transcriber.model();
  const Tensor frames = data::LogMel(model.audio.features)(talk().samples).slice_rows(0, 200);
  nn::ForwardContext context;
  const nn::Memory memory = model.transformer->encode_audio(frames, Offsets::uniform(1, 200), context);
  const Tensor logits =
      model.transformer->logits()(model.transformer->decode(Ragged::from<int32_t>({tokens}), memory, context))
          .value();
  const Tensor last = logits.slice_rows(logits.rows() - 1, 1);
  double sum = 0;
  for (const float x : last.values()) sum += std::exp(double{x});
  std::vector<double> result;
  for (const float x : last.values()) result.push_back(x - std::log(sum));
  return result;
}

TEST(Transcriber, NoSpeechIsItsProbabilityBehindTheStartToken) {
  for (const Transcriber* transcriber : {&tiny(), &tiny_english()}) {
    const models::SpeechTokens& tokens = transcriber->model().tokens;
    const auto no_speech = static_cast<size_t>(tokens.no_speech);
    for (const std::string prompt : {"", "dog house"}) {
      TranscribeOptions options = transcriber->default_options();
      if (!tokens.languages.empty()) options.language = "fr";
      options.temperatures = {0};
      options.prompt = prompt;
      options.no_speech = 1;
      const Transcription found = (*transcriber)(std::vector{talk()}, options).at(0);
      std::vector<int32_t> before{tokens.start};
      if (!prompt.empty()) before = {tokens.previous, kDog, kHouse, tokens.start};
      const double expected = std::exp(first_log_probabilities(*transcriber, before)[no_speech]);
      ASSERT_GT(expected, 1e-5);
      ASSERT_FALSE(found.segments.empty());
      EXPECT_NEAR(found.segments.front().no_speech, expected, 1e-5 * expected + 1e-8);
      // Each window is silent if any probability suffices.
      options.no_speech = 0;
      options.min_log_probability = 100;
      const Transcription silent = (*transcriber)(std::vector{talk()}, options).at(0);
      EXPECT_TRUE(silent.segments.empty());
      EXPECT_EQ(silent.text, "");
      EXPECT_EQ(silent.error, "");
      EXPECT_GT(silent.tokens, 0);
    }
  }
}

TEST(Transcriber, TheLanguageIsTheMostLikelyOne) {
  TranscribeOptions options = tiny().default_options();
  options.temperatures = {0};
  const Transcription found = tiny()(std::vector{talk()}, options).at(0);
  const std::vector<double> all = first_log_probabilities(tiny(), {kStart});
  double sum = 0, best = 0;
  std::string expected;
  for (const auto& [code, id] : tiny().model().tokens.languages) {
    const double probability = std::exp(all[static_cast<size_t>(id)]);
    sum += probability;
    if (probability > best) expected = code, best = probability;
  }
  EXPECT_EQ(found.language, expected);
  EXPECT_NEAR(found.language_probability, best / sum, 1e-5);
  EXPECT_LT(found.language_probability, 0.99);
  // The same as if it had been given.
  options.language = expected;
  const Transcription given = tiny()(std::vector{talk()}, options).at(0);
  EXPECT_EQ(given.text, found.text);
  EXPECT_EQ(given.language_probability, 1);
  EXPECT_EQ(tiny_english()(std::vector{talk()}, tiny_english().default_options()).at(0).language, "en");
}

TEST(Transcriber, OtherRatesAreResampled) {
  const data::Audio slow = data::resample(talk(), 8000);
  const std::vector<Transcription> found = tiny()(std::vector{slow, data::resample(slow, 16000)}, german());
  expect_same_result(found[0], found[1], "8 kHz");
  EXPECT_NEAR(found[0].seconds, 5.3, 1e-4);
  EXPECT_FALSE(found[0].segments.empty());
}

TEST(Transcriber, AnAudioMayFailWithoutTheOthers) {
  const TranscribeOptions options = german();
  const Transcription expected = tiny()(std::vector{part_of_talk(0, 3)}, options).at(0);
  std::vector<size_t> steps(12);
  TranscribeRun run;
  run.on_progress = [&](size_t audio, const TranscriptionJob& job) {
    ++steps[audio];
    EXPECT_LE(job.seconds_done(), job.seconds());
  };
  std::vector<Transcription> done(12);
  run.on_done = [&](size_t audio, const Transcription& result) {
    EXPECT_TRUE(done[audio].text.empty() && done[audio].error.empty()) << "once";
    done[audio] = result;
  };
  const std::vector<Transcription> found = tiny()(
      12,
      [](size_t i) {
        if (i % 5 == 1) throw DataError(concat("audio ", i, " is damaged"));
        return part_of_talk(0, 3);
      },
      options, run);
  for (size_t i = 0; i < found.size(); ++i) {
    expect_same_result(done[i], found[i], concat("audio ", i, ", when it was done"));
    if (i % 5 == 1) {
      EXPECT_EQ(found[i].error, concat("audio ", i, " is damaged"));
      EXPECT_EQ(steps[i], 0u);
    } else {
      expect_same_result(found[i], expected, concat("audio ", i));
      EXPECT_GE(steps[i], 2u);
    }
  }
  // An error of the engine is that of each.
  run.on_progress = {};
  run.on_done = {};
  run.engine.cache_bytes = 100;
  for (const Transcription& one : tiny()(std::vector{talk(), talk()}, options, run)) {
    EXPECT_NE(one.error.find("100"), std::string::npos) << one.error;
    EXPECT_TRUE(one.segments.empty());
  }
}

TEST(Transcriber, OptionsAreChecked) {
  const auto refused = [](const std::string& message, const auto& change,
                          const Transcriber& transcriber = tiny()) {
    TranscribeOptions options = transcriber.default_options();
    transcriber.check(options);
    change(options);
    expect_throw<UsageError>(message, [&] { transcriber.check(options); });
    expect_throw<UsageError>(message, [&] { transcriber.start(talk(), options); });
  };
  using Options = TranscribeOptions;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  refused("temperatures: expected at least one, found none", [](Options& one) { one.temperatures = {}; });
  for (const double bad : {-0.1, 100.0, kNan})
    refused("temperatures: expected 0 to below 100, found", [&](Options& one) {
      one.temperatures = {0, bad};
    });
  refused("samples", [](Options& one) { one.samples = 0; });
  refused("max_compression", [](Options& one) { one.max_compression = 0; });
  refused("max_compression", [](Options& one) { one.max_compression = kNan; });
  refused("min_log_probability", [](Options& one) { one.min_log_probability = kNan; });
  refused("no_speech", [](Options& one) { one.no_speech = 1.5; });
  refused("prompt", [](Options& one) { one.prompt = "a\xFF"; });
  refused("beam", [](Options& one) { one.search.beam = 0; });
  refused("search: expected one output of a search",
          [](Options& one) { one.search.beam = one.search.nbest = 2; });
  refused("search: expected one output of a search", [](Options& one) {
    one.search.beam = 1;
    one.search.sampling = search::Sampling{};
  });
  refused("words: expected timestamps, found none",
          [](Options& one) { one.words = one.no_timestamps = true; });
  refused("language: expected one of en, de, fr, yue, found 'Klingon'",
          [](Options& one) { one.language = "Klingon"; });
  refused(
      "language: expected en, which the model transcribes alone, found 'de'",
      [](Options& one) { one.language = "de"; }, tiny_english());
  refused(
      "translate: expected a model of several languages", [](Options& one) { one.translate = true; },
      tiny_english());
  TranscribeOptions english = tiny_english().default_options();
  english.language = "English";
  tiny_english().check(english);
  expect_throw<UsageError>("pipeline: expected a model of audio, found none",
                           [] { Transcriber(std::shared_ptr<const models::SpeechModel>()); });
}

}  // namespace
}  // namespace qkv::pipelines
