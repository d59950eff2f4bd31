// Jobs that receive made-up outputs of their requests: the order of windows, attempts and prompts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "qkv/base/error.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "tests/pipelines/speech/talk.h"

namespace qkv::pipelines {
namespace {

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

// An engine may call a request whose job has gone.
TEST(TranscriptionJob, RequestsOutliveTheirJob) {
  std::optional<search::Request> request;
  {
    TranscriptionJob job = tiny().start(part_of_talk(0, 1), german());
    request = job.next();
  }
  const std::vector<float> scores(422, -6);
  request->on_prefix(0, scores);
  EXPECT_EQ(request->rows.values.shape(), (Shape{100, 16}));
}

}  // namespace
}  // namespace qkv::pipelines
