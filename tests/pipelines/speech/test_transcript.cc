// Transcriptions as files.

#include "qkv/pipelines/speech/transcript.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace qkv::pipelines {
namespace {

using Format = TranscriptFormat;

Transcription made_transcription() {
  Transcription made{.text = " one\ttwo\nthree ---> four\r", .language = "de", .language_probability = 0.75};
  made.seconds = 3725.5004;
  made.segments = {{.begin = 0.28, .end = 1.5, .text = " one\ttwo\n"},
                   {.begin = 3599.9996, .end = 3725.5, .text = "three ---> four\r", .temperature = 0.5}};
  made.segments[0].log_probability = -0.5;
  made.segments[0].compression = 1.25;
  made.segments[0].no_speech = 0.125;
  return made;
}

TEST(Transcript, IsALineASegment) {
  EXPECT_EQ(transcript(made_transcription(), Format::text), "one two\nthree ---> four\n");
  EXPECT_EQ(transcript({}, Format::text), "");
}

TEST(Transcript, HasMillisecondsBetweenTabs) {
  EXPECT_EQ(transcript(made_transcription(), Format::tsv),
            "begin\tend\ttext\n280\t1500\tone two\n3600000\t3725500\tthree ---> four\n");
}

// No text ends a subtitle or begins another.
TEST(Transcript, IsSubtitles) {
  EXPECT_EQ(transcript(made_transcription(), Format::srt),
            "1\n00:00:00,280 --> 00:00:01,500\none two\n\n"
            "2\n01:00:00,000 --> 01:02:05,500\nthree -> four\n\n");
  EXPECT_EQ(transcript(made_transcription(), Format::vtt),
            "WEBVTT\n\n00:00:00.280 --> 00:00:01.500\none two\n\n"
            "01:00:00.000 --> 01:02:05.500\nthree -> four\n\n");
  EXPECT_EQ(transcript({}, Format::srt), "");
  EXPECT_EQ(transcript({}, Format::vtt), "WEBVTT\n\n");
  for (const auto& [before, after] :
       {std::pair{"a --> b --> c", "a -> b -> c"}, {"------>", "->"}, {"-->-->", "->->"}, {"-- >", "-- >"}}) {
    Transcription made;
    made.segments = {{.begin = 1, .end = 2, .text = before}};
    EXPECT_EQ(transcript(made, Format::srt), concat("1\n00:00:01,000 --> 00:00:02,000\n", after, "\n\n"));
  }
}

TEST(Transcript, TimesMayPassAnHour) {
  EXPECT_EQ(time_text(0), "00:00:00.000");
  EXPECT_EQ(time_text(59.9996), "00:01:00.000");
  EXPECT_EQ(time_text(3661.0625), "01:01:01.063");
  EXPECT_EQ(time_text(359999.999, ','), "99:59:59,999");
  EXPECT_EQ(time_text(360000), "100:00:00.000");
}

TEST(Transcript, IsJsonWithAllNumbers) {
  Transcription made = made_transcription();
  made.segments[1].words = {{.begin = 3600.1234, .end = 3700, .text = " three", .probability = 0.5}};
  const std::string line = transcript(made, Format::json);
  ASSERT_TRUE(line.ends_with("}\n"));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  const auto found = nlohmann::json::parse(line);
  const auto expected = nlohmann::json::parse(R"({
      "text": "one two three ---> four", "language": "de", "language_probability": 0.75, "seconds": 3725.5,
      "segments": [
        {"begin": 0.28, "end": 1.5, "text": " one\ttwo\n", "temperature": 0.0, "log_probability": -0.5,
         "compression": 1.25, "no_speech": 0.125},
        {"begin": 3600.0, "end": 3725.5, "text": "three ---> four\r", "temperature": 0.5,
         "log_probability": 0.0, "compression": 0.0, "no_speech": 0.0,
         "words": [{"text": " three", "begin": 3600.123, "end": 3700.0, "probability": 0.5}]}]})");
  EXPECT_EQ(found, expected);
}

TEST(Transcript, JsonReplacesInvalidUtf8) {
  Transcription made;
  made.text =
      "a\xFF"
      "b";
  made.segments = {{.begin = 0,
                    .end = 1,
                    .text = "a\xFF"
                            "b"}};
  const auto found = nlohmann::json::parse(to_json(made));
  EXPECT_EQ(found["text"],
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(found["segments"][0]["text"],
            "a\xEF\xBF\xBD"
            "b");
  // Names of files may be any bytes.
  made.error = "talk\xFF.wav: expected a file, found none";
  EXPECT_EQ(to_json(made), "{\"error\":\"talk\xEF\xBF\xBD.wav: expected a file, found none\"}");
}

}  // namespace
}  // namespace qkv::pipelines
