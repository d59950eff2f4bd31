// qkv transcribe, and other commands with a folder that transcribes audio.

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "qkv/data/audio/audio.h"
#include "qkv/io/safetensors.h"
#include "tests/apps/run.h"
#include "tests/support/devices.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

class TranscribeCommand : public CommandTest {
 protected:
  TranscribeCommand() {
    const fs::path talk = QKV_TEST_DATA "/apps/golden/audio/talk.flac";
    fs::copy(talk, scratch_ / "talk.flac");
    data::Audio audio = data::read_audio(talk);
    audio.samples.resize(16000 * 3);
    scratch_.write("short.wav", data::encode_wav(audio));
  }

  // Without sampling, unless `options` say so.
  static constexpr const char* kOptions = " --language de --temperatures 0";
  std::string transcribe(const std::string& rest, const std::string& input = {},
                         const std::string& options = kOptions) const {
    return output(concat("transcribe ", path_of_model(), options, " ", rest), input);
  }
  void expect_transcribe_refused(const std::string& rest, int status, const std::vector<std::string>& parts,
                                 const std::string& input = {}) const {
    expect_refused(concat("transcribe ", path_of_model(), " ", rest), status, parts, input);
  }
  static std::string path_of_model() { return recorded_model("hub/whisper-tiny"); }
  // Recorded from transformers.
  static const nlohmann::json& recorded() {
    static const nlohmann::json all =
        nlohmann::json::parse(read_file(fs::path(path_of_model()) / "text_results.json"))[0]["segments"];
    return all;
  }
};

TEST_F(TranscribeCommand, PrintsALineASegment) {
  std::string lines, timed;
  for (const auto& segment : recorded()) {
    const std::string text = segment["text"].get<std::string>().substr(1);
    const auto time = [&](const char* name) {
      char number[32];
      std::snprintf(number, sizeof number, "00:00:%06.3f", segment[name].get<double>());
      return std::string(number);
    };
    lines += text + "\n";
    timed += concat("[", time("begin"), " --> ", time("end"), "] ", text, "\n");
  }
  EXPECT_GT(count_lines_of(lines), 5u);
  EXPECT_EQ(transcribe("@/talk.flac"), lines);
  EXPECT_EQ(transcribe("@/talk.flac --times"), timed);
  // A name from stdin. Several files: each line with its file's name, in order.
  EXPECT_EQ(transcribe("", path("talk.flac") + "\n"), lines);
  const std::string two = transcribe("@/short.wav @/talk.flac --times");
  EXPECT_EQ(transcribe("--times", concat(path("short.wav"), "\n\n", path("talk.flac"), "\n")), two);
  std::string expected;
  for (const auto& [file, text] :
       {std::pair{path("short.wav"), transcribe("@/short.wav --times")}, {path("talk.flac"), timed}}) {
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) expected += concat(file, "\t", line, "\n");
  }
  EXPECT_EQ(two, expected);
  EXPECT_EQ(transcribe("@/short.wav @/talk.flac --times --threads 2 --batch-tokens 1"), two);
  EXPECT_EQ(transcribe(""), "");
}

TEST_F(TranscribeCommand, PrintsOtherFormats) {
  const std::string srt = transcribe("@/talk.flac --format srt"),
                    vtt = transcribe("@/talk.flac --format vtt"),
                    tsv = transcribe("@/talk.flac --format tsv");
  EXPECT_TRUE(srt.starts_with("1\n00:00:00,280 --> 00:00:01,280\nth\n\n2\n")) << srt;
  EXPECT_TRUE(vtt.starts_with("WEBVTT\n\n00:00:00.280 --> 00:00:01.280\nth\n\n")) << vtt;
  EXPECT_TRUE(tsv.starts_with("begin\tend\ttext\n280\t1280\tth\n")) << tsv;
  EXPECT_EQ(count_lines_of(tsv), 1 + recorded().size());
  const std::string objects = transcribe("@/talk.flac @/short.wav --json");
  EXPECT_EQ(transcribe("@/talk.flac @/short.wav --format json"), objects);
  const std::vector<nlohmann::json> lines = json_lines(objects);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["line"], 1);
  EXPECT_EQ(lines[1]["line"], 2);
  EXPECT_EQ(lines[1]["file"], path("short.wav"));
  EXPECT_EQ(lines[0]["language"], "de");
  EXPECT_EQ(lines[0]["seconds"], 5.3);
  EXPECT_FALSE(lines[0]["segments"][0].contains("words"));
  expect_transcribe_refused("@/talk.flac @/short.wav --format srt", 2, {"--format", "--output DIR"});
  expect_transcribe_refused("@/talk.flac --json --times", 2, {"--times: only for --format text"});
}

TEST_F(TranscribeCommand, WritesAFileForEach) {
  scratch_.write("out/talk.txt", "before");
  EXPECT_EQ(transcribe("@/talk.flac @/short.wav --output @/out"), "");
  EXPECT_EQ(content("out/talk.txt"), transcribe("@/talk.flac"));
  EXPECT_EQ(content("out/short.txt"), transcribe("@/short.wav"));
  for (const std::string format : {"srt", "vtt", "tsv", "json"}) {
    EXPECT_EQ(transcribe(concat("@/talk.flac --output @/new/folder --format ", format)), "");
    const std::string written = content(concat("new/folder/talk.", format));
    if (format == "json") {
      EXPECT_EQ(nlohmann::json::parse(written)["segments"].size(), recorded().size());
    } else {
      EXPECT_EQ(written, transcribe(concat("@/talk.flac --format ", format)));
    }
  }
  // A file that fails has none; others are written.
  scratch_.write("bad.wav", "RIFF");
  const Outcome outcome =
      run(concat("transcribe ", path_of_model(), kOptions, " @/bad.wav @/short.wav --output @/out2"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  expect_parts(outcome.err, {path("bad.wav"), "1 of 2 files failed"});
  EXPECT_FALSE(fs::exists(scratch_ / "out2/bad.txt"));
  EXPECT_EQ(content("out2/short.txt"), content("out/short.txt"));
}

// With sampling: the random numbers do not depend on the place of a file.
TEST_F(TranscribeCommand, ReadsTheBytesOfStdin) {
  const std::string bytes = read_file(scratch_ / "talk.flac"), options = " --language de --times";
  const std::string expected = transcribe("@/talk.flac", {}, options);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(transcribe("-", bytes, options), expected);
  const std::string both = transcribe("@/short.wav -", bytes, options);
  std::string found;
  std::istringstream lines(both);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("-\t")) found += line.substr(2) + "\n";
  }
  EXPECT_EQ(found, expected);
  transcribe("- --format srt --output @/out", bytes);
  EXPECT_EQ(read_file(scratch_ / "out/stdin.srt"), transcribe("@/talk.flac --format srt"));
  expect_transcribe_refused("-", 1, {"qkv: stdin: expected a WAV"}, "no sound");
}

TEST_F(TranscribeCommand, RefusesFoldersThatItCannotWrite) {
  fs::create_directories(scratch_ / "other");
  fs::copy(scratch_ / "short.wav", scratch_ / "other/talk.wav");
  expect_transcribe_refused("@/talk.flac @/other/talk.wav --output @/out", 2,
                            {"--output: expected files of different names", path("out/talk.txt")});
  EXPECT_FALSE(fs::exists(scratch_ / "out"));
  expect_transcribe_refused("@/talk.flac --output @/short.wav", 1,
                            {"cannot create folder", path("short.wav")});
  expect_transcribe_refused("@/talk.flac --output /proc/none", 1, {"/proc/none"});
}

TEST_F(TranscribeCommand, GoesOnAfterFilesThatAreNoAudio) {
  scratch_.write("notes.txt", "These are notes, and no audio.\n");
  const std::string good = transcribe("@/short.wav");
  const std::string files = concat(path("none.wav"), "\n", path("short.wav"), "\n", path("notes.txt"), "\n");
  const Outcome outcome = run(concat("transcribe ", path_of_model(), kOptions), {.input = files});
  EXPECT_EQ(outcome.status, 1);
  std::string expected;
  std::istringstream all(good);
  for (std::string line; std::getline(all, line);) expected += concat(path("short.wav"), "\t", line, "\n");
  EXPECT_EQ(outcome.out, expected);
  EXPECT_FALSE(expected.empty());
  expect_parts(outcome.err, {concat("qkv: ", path("none.wav"), ": "),
                             concat("qkv: ", path("notes.txt"), ": "), "qkv: 2 of 3 files failed\n"});
  const Outcome objects = run(concat("transcribe ", path_of_model(), kOptions, " --json"), {.input = files});
  EXPECT_EQ(objects.status, 1);
  const std::vector<nlohmann::json> lines = json_lines(objects.out);
  ASSERT_EQ(lines.size(), 3u);
  for (const size_t i : {0, 2}) EXPECT_TRUE(lines[i].contains("error")) << lines[i];
  EXPECT_TRUE(lines[1].contains("segments"));
  // Alone, without the number of files.
  expect_transcribe_refused("@/none.wav", 1, {path("none.wav")});
  expect_transcribe_refused("@/notes.txt --format srt", 1, {path("notes.txt"), "WAV"});
  // A name may be any bytes.
  const Outcome strange =
      run(concat("transcribe ", path_of_model(), kOptions, " --json"), {.input = path("n\xFF.wav") + "\n"});
  EXPECT_EQ(strange.status, 1);
  const std::vector<nlohmann::json> replaced = json_lines(strange.out);
  ASSERT_EQ(replaced.size(), 1u) << strange.err;
  EXPECT_EQ(replaced[0]["file"], path("n\xEF\xBF\xBD.wav"));
}

TEST_F(TranscribeCommand, RefusesBadOptions) {
  for (const char* list : {"x", "0,x", "0,", "0,-1", "nan", "''"})
    expect_transcribe_refused(concat("@/talk.flac --temperatures ", list), 2, {"temperatures"});
  expect_transcribe_refused("@/talk.flac --language klingon", 2,
                            {"language: expected one of en, de, fr, yue, found 'klingon'"});
  expect_transcribe_refused("@/talk.flac --words --no-timestamps", 2, {"words"});
  expect_transcribe_refused("@/talk.flac --format mp3", 2, {"--format", "mp3"});
  expect_transcribe_refused("@/talk.flac --no-speech 2", 2, {"no-speech"});
  const std::string english = recorded_model("hub/whisper-tiny.en");
  expect_refused(concat("transcribe ", english, " @/talk.flac --translate"), 2,
                 {"translate: expected a model of several languages"});
  expect_refused(concat("transcribe ", english, " @/talk.flac --language de"), 2, {"language: expected en"});
}

TEST_F(TranscribeCommand, OptionsChangeTheText) {
  const std::string plain = transcribe("@/talk.flac");
  const std::string whole = transcribe("@/talk.flac --no-timestamps --times");
  EXPECT_EQ(count_lines_of(whole), 3u) << "one a window";
  expect_parts(whole, {"[00:00:00.000 --> 00:00:02.000]", "[00:00:04.000 --> 00:00:05.300]"});
  for (const char* option :
       {"--translate", "--prompt ' the house'", "--previous-text", "--beam 3", "--max-new-tokens 4"})
    EXPECT_NE(transcribe(concat("@/talk.flac --times ", option)), transcribe("@/talk.flac --times"))
        << option;
  EXPECT_EQ(transcribe("@/talk.flac", {}, " --language German --temperatures 0"), plain);
  const std::string sampling = " --language de --temperatures 1 --seed ";
  const std::string sampled = transcribe("@/talk.flac", {}, sampling + "3");
  EXPECT_EQ(transcribe("@/talk.flac --threads 2", {}, sampling + "3"), sampled);
  EXPECT_NE(transcribe("@/talk.flac", {}, sampling + "4"), sampled);
  EXPECT_NE(sampled, plain);
}

TEST_F(TranscribeCommand, ComputesOnADevice) {
  for (const Device one : {Device::reference, Device::cuda}) {
    if (!has_backend(one)) continue;
    const std::string device = name_of(one);
    const std::string options = "@/talk.flac --words --json";
    const auto found = json_lines(transcribe(concat(options, " --device ", device))),
               expected = json_lines(transcribe(options));
    ASSERT_EQ(found.size(), 1u);
    expect_same(found[0], expected[0], device);
  }
}

TEST_F(TranscribeCommand, SmallCopiesGiveNearlyTheSameText) {
  for (const std::string dtype : {"bf16", "int8"}) {
    output(concat("quantize %hub/whisper-tiny --dtype ", dtype, " --out @/", dtype));
  }
  const auto texts = [&](const std::string& model) {
    return output(concat("transcribe ", model, kOptions, " @/talk.flac --times"));
  };
  EXPECT_EQ(texts("@/bf16"), texts(concat(path_of_model(), " --dtype bf16")));
  EXPECT_EQ(texts("@/int8"), texts(concat(path_of_model(), " --dtype int8")));
  EXPECT_GT(count_lines_of(texts("@/int8")), 3u);
  // The proof beside a copy.
  EXPECT_TRUE(fs::exists(scratch_ / "int8/qkv_proof.json"));
  expect_parts(output("self-test @/int8"), {"have the same bits"});
  std::string weights = content("int8/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  scratch_.write("int8/model.safetensors", weights);
  EXPECT_EQ(run("self-test @/int8").status, 1);
}

TEST_F(TranscribeCommand, OtherCommandsNameTheKind) {
  const std::string model = path_of_model();
  expect_refused(concat("transcribe ", recorded_model("hub/bert-base-uncased"), " @/talk.flac"), 1,
                 {"expected an encoder-decoder of audio (whisper)",
                  "a text encoder; open it with qkv fill-mask, classify"});
  expect_refused(
      concat("transcribe ", recorded_model("hub/t5-small"), " @/talk.flac"), 1,
      {"expected an encoder-decoder of audio (whisper)", "an encoder-decoder of texts", "qkv translate"});
  expect_refused(concat("translate ", model), 1,
                 {"expected an encoder-decoder of texts", "an encoder-decoder of audio", "qkv transcribe"},
                 "a\n");
  expect_refused(concat("generate ", model, " --prompt a"), 1,
                 {"an encoder-decoder of audio", "qkv transcribe"});
  expect_refused(concat("attention ", model, " --source a --out @/a.html"), 2,
                 {"expected one of texts or images, found ", ", of audio"});
  expect_refused(concat("export ", model, " --to @/m.gguf"), 2, {"whisper"});
  const auto report = result(concat("inspect ", model));
  int64_t parameters = 0;
  const io::SafetensorsFile weights(fs::path(model) / "model.safetensors");
  for (const std::string& name : weights.names()) parameters += weights.shape(name).numel();
  EXPECT_EQ(report["parameters"], parameters);
  std::map<std::string, int64_t> parts;
  for (const auto& part : report["parts"]) parts[part["name"]] = part["parameters"];
  EXPECT_EQ(parts["encoder.convolutions"], 3 * 80 * 16 + 16 + 3 * 16 * 16 + 16);
  EXPECT_EQ(parts["encoder.embeddings"], 100 * 16);
  EXPECT_EQ(parts["decoder.embeddings"], (422 + 40) * 16);
  EXPECT_EQ(parts["decoder.cross_attention"], parts["encoder.self_attention"]);
  EXPECT_EQ(parts.size(), 10u) << report;
}

}  // namespace
}  // namespace qkv::testing
