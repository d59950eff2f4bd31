// Transcription of audio in windows: jobs that are told what their requests gave, and whole runs of small
// models. Texts and times are compared with transformers' by tests/apps/test_hub_folders.cc.

#include "qkv/pipelines/speech/transcribe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/audio/log_mel.h"
#include "qkv/pipelines/speech/transcript.h"
#include "tests/support/devices.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using testing::expect_throw;

namespace fs = std::filesystem;

const fs::path kAppData = fs::path(QKV_TEST_DATA) / "apps/golden";
// Ids of the hub folder whisper-tiny; windows have 200 frames, 2 seconds, and outputs 40 positions.
constexpr int32_t kEos = 309, kStart = 310, kGerman = 312, kTranslate = 315, kTranscribe = 316,
                  kPrevious = 318, kNoSpeech = 319, kNoTimestamps = 320, kZero = 321;
constexpr int32_t kDog = 265, kHouse = 270, kBlue = 285;

const Transcriber& tiny() {
  static const Transcriber transcriber(kAppData / "hub/whisper-tiny");
  return transcriber;
}
const Transcriber& tiny_english() {
  static const Transcriber transcriber(kAppData / "hub/whisper-tiny.en");
  return transcriber;
}
const data::Audio& talk() {
  static const data::Audio audio = data::read_audio(kAppData / "audio/talk.flac");
  return audio;
}

data::Audio part_of_talk(double begin, double seconds) {
  const auto at = [](double time) { return std::llround(time * 16000); };
  const auto first = talk().samples.begin() + at(begin);
  return {.rate = 16000, .samples = {first, first + at(seconds)}};
}

TranscribeOptions german(const std::vector<double>& temperatures = {0}) {
  TranscribeOptions options = tiny().default_options();
  options.language = "de";
  options.temperatures = temperatures;
  return options;
}

search::Hypothesis hypothesis_of(const search::Request& request, const std::vector<int32_t>& ids,
                                 float log_probability) {
  search::Hypothesis one;
  one.ids = request.prefix;
  one.ids.insert(one.ids.end(), ids.begin(), ids.end());
  one.ids.push_back(kEos);
  one.token_log_probabilities.resize(one.ids.size(), log_probability);
  std::fill_n(one.token_log_probabilities.begin(), request.prefix.size(), 0.0f);
  return one;
}

// The next request of a job, which must have one, gives this output.
search::Request tell(TranscriptionJob& job, const std::vector<int32_t>& ids, float log_probability = -0.1f) {
  std::optional<search::Request> request = job.next();
  EXPECT_TRUE(request);
  if (!request) return {};
  search::Decoded decoded;
  decoded.hypotheses = {hypothesis_of(*request, ids, log_probability)};
  job.accept(decoded);
  return std::move(*request);
}

TEST(TranscriptionJob, RequestsBeginWithLanguageAndTask) {
  const auto request_with = [](const auto& change, const Transcriber& transcriber = tiny()) {
    TranscribeOptions options = transcriber.default_options();
    change(options);
    TranscriptionJob job = transcriber.start(part_of_talk(0, 1), options);
    return *job.next();
  };
  const auto none = [](TranscribeOptions&) {};
  const search::Request plain = request_with([](TranscribeOptions& options) { options.language = "German"; });
  EXPECT_EQ(plain.source, std::vector<int32_t>(100, -1));
  EXPECT_EQ(plain.rows.values.shape(), (Shape{100, 16}));
  EXPECT_EQ(plain.start, std::nullopt);
  EXPECT_EQ(plain.prefix, (std::vector<int32_t>{kGerman, kTranscribe}));
  EXPECT_EQ(plain.options.constraints.size(), 1u);
  EXPECT_EQ(plain.options.max_new_tokens, 40 - 3);
  EXPECT_FALSE(plain.options.sampling);
  const search::Request whole = request_with([](TranscribeOptions& options) {
    options.language = "de";
    options.translate = true;
    options.no_timestamps = true;
    options.search.max_new_tokens = 5;
  });
  EXPECT_EQ(whole.prefix, (std::vector<int32_t>{kGerman, kTranslate, kNoTimestamps}));
  EXPECT_TRUE(whole.options.constraints.empty());
  EXPECT_EQ(whole.options.max_new_tokens, 5);
  const search::Request prompted = request_with([](TranscribeOptions& options) {
    options.language = "de";
    options.prompt = "  dog house\n";
  });
  EXPECT_EQ(prompted.start, kPrevious);
  EXPECT_EQ(prompted.prefix, (std::vector<int32_t>{kDog, kHouse, kStart, kGerman, kTranscribe}));
  // English alone: no language, no task. Without a language: one token, which names it.
  EXPECT_TRUE(request_with(none, tiny_english()).prefix.empty());
  const search::Request detection = request_with(none);
  EXPECT_TRUE(detection.prefix.empty());
  EXPECT_EQ(detection.options.max_new_tokens, 1);
  EXPECT_EQ(detection.options.constraints.size(), 1u);
}

TEST(TranscriptionJob, LongPromptsAreCut) {
  TranscribeOptions options = german();
  for (int i = 0; i < 30; ++i) options.prompt += i == 20 ? " dog" : " house";
  TranscriptionJob job = tiny().start(part_of_talk(0, 1), options);
  const search::Request request = *job.next();
  // Half of the positions, less the start token: the last words.
  ASSERT_EQ(request.prefix.size(), 19u + 3);
  EXPECT_EQ(request.prefix[19], kStart);
  EXPECT_EQ(std::ranges::find(request.prefix, kDog) - request.prefix.begin(), 9);
  EXPECT_EQ(request.options.max_new_tokens, 40 - 23);
}

TEST(TranscriptionJob, WindowsFollowTheLastPair) {
  TranscriptionJob job = tiny().start(part_of_talk(0, 5), german());
  EXPECT_EQ(job.seconds(), 5);
  tell(job, {kZero, kDog, kZero + 40, kZero + 45, kHouse});
  EXPECT_DOUBLE_EQ(job.seconds_done(), 0.8);
  tell(job, {kZero + 10, kBlue, kZero + 50, kZero + 60, kDog, kZero + 90});  // ends in a single one
  EXPECT_DOUBLE_EQ(job.seconds_done(), 2.8);
  tell(job, {kZero, kHouse});
  EXPECT_DOUBLE_EQ(job.seconds_done(), 4.8);
  tell(job, {kZero, kDog, kZero + 80, kZero + 80});  // the audio ends after 0.2 seconds
  EXPECT_FALSE(job.next());
  EXPECT_EQ(job.seconds_done(), 5);
  const Transcription& result = job.transcription();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.language, "de");
  EXPECT_EQ(result.text, " dog blue dog house dog");
  const std::vector<std::tuple<double, double, std::string>> expected{
      {0, 0.8, " dog"}, {1.0, 1.8, " blue"}, {2.0, 2.6, " dog"}, {2.8, 4.8, " house"}, {4.8, 5, " dog"}};
  ASSERT_EQ(result.segments.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(result.segments[i].begin, std::get<0>(expected[i])) << i;
    EXPECT_DOUBLE_EQ(result.segments[i].end, std::get<1>(expected[i])) << i;
    EXPECT_EQ(result.segments[i].text, std::get<2>(expected[i])) << i;
    EXPECT_NEAR(result.segments[i].log_probability, -0.1, 1e-6);
  }
  EXPECT_EQ(result.segments[1].ids, (std::vector<int32_t>{kZero + 10, kBlue, kZero + 50}));
}

// How many windows an audio has whose outputs have no pair.
int windows_of(int64_t samples, bool no_timestamps = false) {
  TranscribeOptions options = german();
  options.no_timestamps = no_timestamps;
  const data::Audio audio{.rate = 16000,
                          .samples = {talk().samples.begin(), talk().samples.begin() + samples}};
  TranscriptionJob job = tiny().start(audio, options);
  int windows = 0;
  double end = 0;
  for (; job.next(); ++windows) {
    if (no_timestamps) {
      tell(job, {kDog});
    } else {
      tell(job, {kZero, kDog});
    }
    const std::vector<TranscribedSegment>& segments = job.transcription().segments;
    EXPECT_EQ(std::ssize(segments), windows + 1);
    EXPECT_LE(segments.back().begin, segments.back().end);
    EXPECT_EQ(segments.back().begin, end);
    end = segments.back().end;
  }
  EXPECT_NEAR(end, static_cast<double>(samples) / 16000, 0.03);
  EXPECT_NEAR(job.seconds(), static_cast<double>(samples) / 16000, 1e-9);
  return windows;
}

TEST(TranscriptionJob, AnAudioOfAnyLengthHasItsWindows) {
  EXPECT_EQ(windows_of(0), 0);
  EXPECT_EQ(windows_of(1), 0) << "less than a frame";
  EXPECT_EQ(windows_of(159), 0);
  EXPECT_EQ(windows_of(160), 1);
  EXPECT_EQ(windows_of(3 * 160), 1);
  for (const bool no_timestamps : {false, true}) {
    EXPECT_EQ(windows_of(51 * 160, no_timestamps), 1) << "an odd number of frames";
    EXPECT_EQ(windows_of(199 * 160, no_timestamps), 1);
    EXPECT_EQ(windows_of(200 * 160, no_timestamps), 1);
    EXPECT_EQ(windows_of(200 * 160 + 159, no_timestamps), 1);
    EXPECT_EQ(windows_of(201 * 160, no_timestamps), 2);
    EXPECT_EQ(windows_of(475 * 160, no_timestamps), 3);
  }
}

TEST(TranscriptionJob, TemperaturesAreTriedInOrder) {
  TranscribeOptions options = german({0, 0.3, 0.7});
  options.samples = 3;
  options.seed = 8;
  options.search.beam = 4;
  const auto sampling_of = [](const search::Request& request) {
    EXPECT_EQ(request.options.sampling.has_value(), request.options.beam == 1);
    return request.options.sampling ? request.options.sampling->temperature : 0;
  };
  TranscriptionJob job = tiny().start(part_of_talk(0, 5), options, 6);
  const std::vector<int32_t> good{kZero, kDog, kZero + 50, kZero + 50};
  std::vector<uint64_t> keys;
  const auto next = [&](const std::vector<int32_t>& ids, float log_probability) {
    const search::Request request = tell(job, ids, log_probability);
    keys.push_back(request.key);
    if (request.options.sampling) {
      EXPECT_EQ(request.options.nbest, 3);
      EXPECT_EQ(request.options.sampling->seed, 8u);
    }
    return sampling_of(request);
  };
  EXPECT_EQ(next(good, -1.5f), 0);
  EXPECT_EQ(next(good, -0.9f), 0.3);  // good enough
  EXPECT_EQ(job.transcription().segments.back().temperature, 0.3);
  EXPECT_DOUBLE_EQ(job.seconds_done(), 1);
  // A text that repeats itself; the last temperature counts whatever it gives.
  std::vector<int32_t> repeated(30, kDog);
  repeated.insert(repeated.begin(), kZero);
  EXPECT_EQ(next(repeated, -0.1f), 0);
  EXPECT_EQ(next(good, -2), 0.3);
  EXPECT_EQ(next(repeated, -3), 0.7);
  EXPECT_EQ(job.transcription().segments.size(), 2u);
  const TranscribedSegment& last = job.transcription().segments.back();
  EXPECT_EQ(last.temperature, 0.7);
  EXPECT_NEAR(last.log_probability, -3, 1e-6);
  EXPECT_GT(last.compression, 2.4);
  EXPECT_EQ(next(good, -0.5f), 0) << "the next window begins again";
  // Each has random numbers of its own.
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
  EXPECT_EQ(job.transcription().tokens, 2 * 7 + 2 * (2 + 31 + 1) + 2 * 7);
}

// By the mean of the tokens; the end counts unless it was forced.
TEST(TranscriptionJob, TheMostLikelySampleIsTaken) {
  TranscriptionJob job = tiny().start(part_of_talk(0, 1), german({0.8}));
  const search::Request request = *job.next();
  search::Decoded decoded;
  decoded.hypotheses = {hypothesis_of(request, {kZero, kDog}, -0.6f),
                        hypothesis_of(request, {kZero, kHouse, kHouse, kHouse}, -0.5f),
                        hypothesis_of(request, {kZero, kBlue}, -0.45f)};
  decoded.hypotheses[2].token_log_probabilities.back() = -0.9f;  // mean -0.6
  decoded.hypotheses[0].token_log_probabilities.back() = 0;      // mean -0.4, unless it was forced
  TranscriptionJob other = tiny().start(part_of_talk(0, 1), german({0.8}));
  other.next();
  other.accept(decoded);
  EXPECT_EQ(other.transcription().text, " dog");
  EXPECT_NEAR(other.transcription().segments.at(0).log_probability, -0.4, 1e-6);
  decoded.hypotheses[0].complete = false;
  job.accept(decoded);
  EXPECT_EQ(job.transcription().text, " house house house");
  EXPECT_NEAR(job.transcription().segments.at(0).log_probability, -0.5, 1e-6);
}

TEST(TranscriptionJob, SilentWindowsAreSkipped) {
  const auto with_no_speech = [](double probability, float log_probability) {
    TranscriptionJob job = tiny().start(part_of_talk(0, 5), german({0, 1}));
    std::optional<search::Request> request = job.next();
    std::vector<float> scores(422, -30);
    scores[kNoSpeech] = static_cast<float>(std::log(probability));
    request->on_prefix(0, scores);
    scores[kNoSpeech] = 0;
    for (const int64_t place : {1, 2}) request->on_prefix(place, scores);  // not behind the start token
    search::Decoded decoded;
    decoded.hypotheses = {hypothesis_of(*request, {kZero, kDog, kZero + 50, kZero + 50}, log_probability)};
    job.accept(decoded);
    return job;
  };
  const TranscriptionJob silent = with_no_speech(0.7, -1.1f);
  EXPECT_TRUE(silent.transcription().segments.empty());
  EXPECT_EQ(silent.seconds_done(), 2) << "the whole window";
  const TranscriptionJob likely = with_no_speech(0.7, -0.9f);
  ASSERT_EQ(likely.transcription().segments.size(), 1u);
  EXPECT_NEAR(likely.transcription().segments[0].no_speech, 0.7, 1e-6);
  EXPECT_EQ(likely.seconds_done(), 1);
  EXPECT_EQ(with_no_speech(0.5, -1.1f).seconds_done(), 0) << "another attempt";
}

TEST(TranscriptionJob, WindowsContinueThePreviousText) {
  TranscribeOptions options = german({0, 0.5, 0.6});
  options.previous_text = true;
  options.prompt = "house";
  TranscriptionJob job = tiny().start(part_of_talk(0, 5.2), options);
  const std::vector<int32_t> spoken{kZero, kDog, kZero + 50, kZero + 50};
  const std::vector<int32_t> start{kStart, kGerman, kTranscribe};
  const auto expect_before = [&](const search::Request& request, std::vector<int32_t> before) {
    before.insert(before.end(), start.begin(), start.end());
    EXPECT_EQ(request.prefix, before);
    EXPECT_EQ(request.start, kPrevious);
  };
  expect_before(tell(job, spoken), {kHouse});
  const std::vector<int32_t> told{kHouse, kZero, kDog, kZero + 50};
  expect_before(tell(job, spoken, -2), told);
  expect_before(tell(job, spoken), told);  // at 0.5
  std::vector<int32_t> twice = told;
  twice.insert(twice.end(), told.begin() + 1, told.end());
  expect_before(tell(job, spoken, -2), twice);
  expect_before(tell(job, spoken, -2), twice);
  expect_before(tell(job, spoken), twice);  // at 0.6, which is not to be trusted
  expect_before(tell(job, {kZero, kBlue, kZero + 1, kZero + 1}), {kHouse});
  for (int i = 0; i < 4; ++i) tell(job, {kZero, kDog, kBlue, kDog, kZero + 1, kZero + 1});
  // The last of it, in half of the positions.
  const search::Request request = *job.next();
  EXPECT_EQ(request.prefix.size(), 19 + start.size());
  EXPECT_EQ(request.prefix.front(), kHouse);
  EXPECT_EQ((std::vector<int32_t>(request.prefix.begin() + 14, request.prefix.begin() + 20)),
            (std::vector<int32_t>{kZero, kDog, kBlue, kDog, kZero + 1, kStart}));
}

TEST(TranscriptionJob, EndsEarlyWithAnError) {
  search::Decoded cancelled, failed;
  cancelled.cancelled = true;
  failed.error = std::make_exception_ptr(DataError("a bad window"));
  for (const auto& [decoded, error] :
       {std::pair{cancelled, "cancelled"}, std::pair{failed, "a bad window"}}) {
    TranscriptionJob job = tiny().start(part_of_talk(0, 5), german());
    tell(job, {kZero, kDog, kZero + 50, kZero + 50});
    job.next();
    job.accept(decoded);
    EXPECT_FALSE(job.next());
    EXPECT_EQ(job.transcription().error, error);
    EXPECT_EQ(job.transcription().text, " dog") << "what was known";
    EXPECT_LT(job.seconds_done(), job.seconds());
  }
}

TEST(TranscriptionJob, EmptySegmentsAreDropped) {
  TranscriptionJob job = tiny().start(part_of_talk(0, 2), german());
  tell(job, {kZero, 220, kZero + 10, kZero + 10, kDog, kZero + 20});  // a space alone
  ASSERT_EQ(job.transcription().segments.size(), 1u);
  EXPECT_EQ(job.transcription().segments[0].text, " dog");
  EXPECT_FALSE(job.next());
}

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
  std::vector<size_t> told(12);
  TranscribeRun run;
  run.on_progress = [&](size_t audio, const TranscriptionJob& job) {
    ++told[audio];
    EXPECT_LE(job.seconds_done(), job.seconds());
  };
  const std::vector<Transcription> found = tiny()(
      12,
      [](size_t i) {
        if (i % 5 == 1) throw DataError(concat("audio ", i, " is damaged"));
        return part_of_talk(0, 3);
      },
      options, run);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i % 5 == 1) {
      EXPECT_EQ(found[i].error, concat("audio ", i, " is damaged"));
      EXPECT_EQ(told[i], 0u);
    } else {
      expect_same_result(found[i], expected, concat("audio ", i));
      EXPECT_GE(told[i], 2u);
    }
  }
  // Of the engine: each says why.
  run.on_progress = {};
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
