// OpenAI's routes of audio.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/data/audio/audio.h"
#include "qkv/pipelines/speech/transcript.h"
#include "tests/serve/answers.h"
#include "tests/serve/folders.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::Service;

constexpr const char* kTranscriptions = "/v1/audio/transcriptions";
constexpr const char* kTranslations = "/v1/audio/translations";
const std::string kFolder = QKV_TEST_DATA "/apps/golden/hub/whisper-tiny";

using FormFields = std::vector<std::pair<std::string, std::string>>;

std::string talk() { return read_file(QKV_TEST_DATA "/apps/golden/audio/talk.flac"); }

Sent form(const std::string& path, const std::string& file, const FormFields& fields = {}) {
  std::string body;
  for (const auto& [name, value] : fields)
    body += concat("--XX\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", value, "\r\n");
  body += "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.flac\"\r\n\r\n" + file +
          "\r\n--XX--\r\n";
  return {.path = path, .body = body, .headers = {{"Content-Type", "multipart/form-data; boundary=XX"}}};
}

serve::ServiceOptions hearing(size_t queue = 1024) {
  serve::ServiceOptions options;
  options.folders = {{"hears", kFolder}, {"reads", golden_folder("llama")}};
  options.work.queue = queue;
  return options;
}

pipelines::Transcription expected(const std::string& language, bool words = false) {
  const pipelines::Transcriber transcriber(kFolder);
  pipelines::TranscribeOptions options = transcriber.default_options();
  options.language = language;
  options.words = words;
  const std::vector audios{data::decode_audio(talk(), "talk")};
  return transcriber(audios, options).front();
}

std::string whole(const pipelines::Transcription& found) {
  return found.text.substr(found.text.find_first_not_of(' '));
}

TEST(Transcriptions, HaveOpenAIsForms) {
  Service service(hearing());
  const pipelines::Transcription found = expected("de", true);
  ASSERT_GT(found.segments.size(), 2U);
  const auto send = [&](const FormFields& fields) {
    return ask(service, form(kTranscriptions, talk(), fields));
  };
  EXPECT_EQ(json_of(send({{"language", "German"}})),
            (json{{"text", whole(found)}, {"usage", {{"type", "duration"}, {"seconds", 6}}}}));
  EXPECT_EQ(send({{"language", "de"}, {"response_format", "text"}}).body, whole(found) + "\n");
  for (const auto& [name, format] :
       {std::pair{"srt", pipelines::TranscriptFormat::srt}, {"vtt", pipelines::TranscriptFormat::vtt}}) {
    const serve::HttpResponse response = send({{"language", "de"}, {"response_format", name}});
    EXPECT_EQ(response.body, pipelines::transcript(found, format));
    EXPECT_TRUE(response.content_type.starts_with("text/")) << response.content_type;
  }
  const json all = json_of(send({{"language", "de"},
                                 {"response_format", "verbose_json"},
                                 {"timestamp_granularities[]", "word"},
                                 {"timestamp_granularities[]", "segment"}}));
  EXPECT_EQ(all["task"], "transcribe");
  EXPECT_EQ(all["language"], "german");
  EXPECT_EQ(all["duration"], 5.3);
  ASSERT_EQ(all["segments"].size(), found.segments.size());
  size_t words = 0;
  for (size_t i = 0; i < found.segments.size(); ++i) {
    const pipelines::TranscribedSegment& segment = found.segments[i];
    const json& one = all["segments"][i];
    EXPECT_EQ(one["id"], i);
    EXPECT_EQ(one["text"], segment.text);
    EXPECT_EQ(one["tokens"], segment.ids);
    EXPECT_NEAR(one["start"].get<double>(), segment.begin, 1e-9);
    EXPECT_NEAR(one["seek"].get<double>() / 100, segment.window, 1e-9);
    EXPECT_EQ(one["avg_logprob"], segment.log_probability);
    for (const pipelines::TranscribedWord& word : segment.words) {
      const json& other = all["words"][words++];
      EXPECT_EQ(other["word"], word.text);
      EXPECT_NEAR(other["end"].get<double>(), word.end, 1e-9);
    }
  }
  EXPECT_EQ(all["words"].size(), words);
  const FormFields verbose{{"language", "de"}, {"response_format", "verbose_json"}};
  EXPECT_FALSE(json_of(send(verbose)).contains("words"));
  FormFields words_alone = verbose;
  words_alone.emplace_back("timestamp_granularities[]", "word");
  EXPECT_FALSE(json_of(send(words_alone)).contains("segments"));

  EXPECT_EQ(json_of(send({{"model", "hears"}}))["text"], whole(expected("")));
  const json translated = json_of(
      ask(service, form(kTranslations, talk(), {{"language", "de"}, {"response_format", "verbose_json"}})));
  EXPECT_EQ(translated["task"], "translate");
  EXPECT_NE(translated["text"], whole(found));
  const json sampled =
      json_of(send({{"language", "de"}, {"temperature", "0.7"}, {"response_format", "verbose_json"}}));
  EXPECT_EQ(sampled["segments"][0]["temperature"], 0.7);
  EXPECT_NE(json_of(send({{"language", "de"}, {"beam", "3"}, {"prompt", "dog"}}))["text"], whole(found));
}

TEST(Transcriptions, AreStreamed) {
  Service service(hearing());
  const auto reply = start(service, form(kTranscriptions, talk(), {{"language", "de"}, {"stream", "true"}}));
  std::vector<json> events;
  std::vector<std::string> lines = events_of(reply->wait().body);
  ASSERT_EQ(lines.back(), "[DONE]");
  lines.pop_back();
  for (const std::string& line : lines) events.push_back(json::parse(line));
  ASSERT_GT(events.size(), 2U);
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["type"], "transcript.text.delta");
    text += events[i]["delta"];
  }
  EXPECT_EQ(events.back()["type"], "transcript.text.done");
  EXPECT_EQ(events.back()["text"], text);
  EXPECT_EQ(text, whole(expected("de")));
}

// Also by a queue that has room for one request: windows are not refused.
TEST(Transcriptions, OfSeveralClientsAreThoseOfEachAlone) {
  Service service(hearing());
  std::vector<std::shared_ptr<FakeReply>> replies;
  const std::vector<std::string> languages{"de", "en", "fr", "yue", "", "de", "en", "fr"};
  for (const std::string& language : languages)
    replies.push_back(start(service, form(kTranscriptions, talk(), {{"language", language}})));
  replies[5]->leave();
  for (size_t i = 0; i < languages.size(); ++i) {
    if (i != 5) {
      EXPECT_EQ(json_of(replies[i]->wait())["text"], whole(expected(languages[i]))) << languages[i];
    }
  }
  Service narrow(hearing(1));
  EXPECT_EQ(json_of(ask(narrow, form(kTranscriptions, talk(), {{"language", "fr"}})))["text"],
            whole(expected("fr")));
}

// More than have begun at a time, of clients that leave at any moment: no place is lost.
TEST(Transcriptions, ManyWaitForAPlace) {
  Service service(hearing());
  const std::string text = whole(expected("de"));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<FakeReply>> replies;
    for (int i = 0; i < 40; ++i)
      replies.push_back(start(service, form(kTranscriptions, talk(), {{"language", "de"}})));
    for (size_t i = 0; i < replies.size(); ++i) {
      if (i % 4 != 3) replies[i]->leave();
      if (i % 10 == 5) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (size_t i = 3; i < replies.size(); i += 4) EXPECT_EQ(json_of(replies[i]->wait())["text"], text) << i;
  }
  // Files that cannot be read give their places back, too.
  for (int i = 0; i < 20; ++i)
    expect_error(ask(service, form(kTranscriptions, "RIFF, but no sound")), 400, {"file"});
  EXPECT_EQ(json_of(ask(service, form(kTranscriptions, talk(), {{"language", "de"}})))["text"], text);
}

TEST(Transcriptions, RefuseWhatTheyCannotRead) {
  Service service(hearing());
  const auto refuse = [&](const FormFields& fields, const std::vector<std::string>& parts) {
    expect_error(ask(service, form(kTranscriptions, talk(), fields)), 400, parts);
  };
  refuse({{"language", "klingon"}}, {"language: expected one of en, de, fr, yue, found 'klingon'"});
  refuse({{"response_format", "yaml"}}, {"response_format", "yaml"});
  refuse({{"temperature", "hot"}}, {"temperature", "hot"});
  refuse({{"temperature", "-1"}}, {"temperature"});
  refuse({{"beam", "0"}}, {"beam"});
  refuse({{"stream", "yes"}}, {"stream"});
  refuse({{"stream", "true"}, {"response_format", "srt"}}, {"stream", "srt"});
  refuse({{"speaker", "x"}}, {"unknown field", "speaker"});
  refuse({{"timestamp_granularities[]", "word"}}, {"timestamp_granularities[]", "verbose_json"});
  refuse({{"timestamp_granularities[]", "phone"}, {"response_format", "verbose_json"}}, {"phone"});
  refuse({{"prompt", "a\xFF"}}, {"prompt", "UTF-8"});
  refuse({{"model", "reads"}}, {"reads"});
  expect_error(ask(service, form(kTranslations, talk(), {{"timestamp_granularities[]", "word"}})), 400,
               {"unknown field"});
  const auto of_file = [&](const std::string& file) { return ask(service, form(kTranscriptions, file)); };
  expect_error(of_file(""), 400, {"file", "found none"});
  expect_error(of_file("RIFF, but no sound"), 400, {"file"});
  expect_error(of_file(talk().substr(0, 3000)), 400, {"file"});
  expect_error(post(service, kTranscriptions, {{"file", "a"}}), 400, {"multipart/form-data"});
  serve::ServiceOptions options = hearing();
  options.work.audio_seconds = 5;
  Service brief(options);
  expect_error(ask(brief, form(kTranscriptions, talk())), 400, {"file", "5", "seconds"});
  serve::ServiceOptions deaf;
  deaf.folders = {{"reads", golden_folder("llama")}};
  Service other(deaf);
  EXPECT_EQ(ask(other, form(kTranscriptions, talk())).status, 400);
}

TEST(Transcriptions, TheDocumentHasTheKindOfModel) {
  Service service(hearing());
  const json models = json_of(ask(service, {.method = "GET", .path = "/v1/models"}))["data"];
  EXPECT_EQ(models[0]["kind"], "speech");
  EXPECT_EQ(models[0]["tasks"], json::array({"transcribe"}));
  const json document = json_of(ask(service, {.method = "GET", .path = "/openapi.json"}));
  const json kinds = document["components"]["schemas"]["Model"]["properties"]["kind"]["enum"];
  for (const json& model : models) EXPECT_NE(std::ranges::find(kinds, model["kind"]), kinds.end());
}

// A second of silence is no text, and no error.
TEST(Transcriptions, SilenceIsShort) {
  Service service(hearing());
  const std::string file = data::encode_wav({.rate = 16000, .samples = std::vector<float>(100)});
  EXPECT_EQ(json_of(ask(service, form(kTranscriptions, file)))["text"], "");
}

}  // namespace
