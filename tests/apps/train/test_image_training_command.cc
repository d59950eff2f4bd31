// qkv train image and qkv evaluate image, run as by a user.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"
#include "tests/support/image_files.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class ImageTrainingCommand : public ::testing::Test {
 protected:
  ImageTrainingCommand() {
    write_bars(scratch_, "train", 96, 8);
    write_bars(scratch_, "valid", 30, 8);
  }

  // A small training; `more` replaces options.
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    const std::vector<std::pair<std::string, std::string>> common{{"--train", path("train-images")},
                                                                  {"--labels", path("train-labels")},
                                                                  {"--valid", path("valid-images")},
                                                                  {"--valid-labels", path("valid-labels")},
                                                                  {"--out", path(out)},
                                                                  {"--set", "model.layers=1"},
                                                                  {"--set", "model.d_model=16"},
                                                                  {"--set", "model.heads=2"},
                                                                  {"--set", "model.d_ff=32"},
                                                                  {"--batch-images", "16"},
                                                                  {"--crop-padding", "1"},
                                                                  {"--warmup-steps", "5"},
                                                                  {"--learning-rate", "0.01"}};
    std::vector<std::string> all{"train", "image", "--quiet", "--json"};
    for (const auto& [option, value] : common) {
      if (std::ranges::find(more, option) == more.end()) all.insert(all.end(), {option, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json run(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }

  Scratch scratch_;
};

TEST_F(ImageTrainingCommand, TrainsEvaluatesAndClassifies) {
  scratch_.write("names", "lying\nstanding\n");
  const json trained =
      run(training("out", {"--max-steps", "150", "--validate-every", "50", "--label-names", path("names")}));
  EXPECT_EQ(trained["steps"], 150);
  EXPECT_EQ(trained["best"]["by"], "accuracy");
  EXPECT_GT(trained["best"]["accuracy"], 0.9);
  EXPECT_LE(trained["validation"]["accuracy"], 1);
  EXPECT_LT(trained["validation"]["loss"], 0.6);

  const std::vector<std::string> evaluation{
      "evaluate",           "image",         path("out"),         "--test",
      path("valid-images"), "--test-labels", path("valid-labels")};
  std::vector<std::string> as_json = evaluation;
  as_json.emplace_back("--json");
  const json scores = run(as_json);
  EXPECT_EQ(scores["images"], 30);
  EXPECT_EQ(scores["accuracy"], trained["best"]["accuracy"]);
  EXPECT_NEAR(scores["loss"].get<double>(), trained["best"]["loss"].get<double>(), 1e-6);
  EXPECT_EQ(scores["classes"], (json{"lying", "standing"}));
  int64_t counted = 0;
  for (const json& row : scores["confusion"]) {
    for (const json& count : row) counted += count.get<int64_t>();
  }
  EXPECT_EQ(counted, 30);
  const Outcome text = run_qkv(evaluation);
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part :
       {"accuracy  ", "loss", "lying", "standing", "recall", "precision", "true \\ predicted"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in:\n" << text.out;
  EXPECT_EQ(text.out.find("top-5"), std::string::npos) << "two classes are always among five";
  EXPECT_NE(text.err.find("30 images in"), std::string::npos) << text.err;

  // The same images as PNG files: their most likely classes are the columns of the confusion matrix.
  const Bars some = bars(30, 8);
  std::string lines;
  for (size_t i = 0; i < 30; ++i) {
    data::Image image{.height = 8, .width = 8};
    for (size_t p = 0; p < 64; ++p)
      image.pixels.insert(image.pixels.end(), 3, static_cast<uint8_t>(some.pixels[64 * i + p]));
    const std::string folder = some.labels[i] == 0 ? "png/lying" : "png/standing";
    lines += scratch_.write(concat(folder, "/", i, ".png"), data::encode_png(image)).string() + "\n";
  }
  const Outcome classified = run_qkv({"classify", path("out"), "--json"}, {.input = lines});
  EXPECT_EQ(classified.status, 0) << classified.err;
  int64_t lying = 0;
  for (const json& one : json_lines(classified.out)) lying += one["labels"][0]["label"] == "lying" ? 1 : 0;
  EXPECT_EQ(lying, scores["confusion"][0][0].get<int64_t>() + scores["confusion"][1][0].get<int64_t>());
  const json of_folder = run({"evaluate", "image", path("out"), "--test", path("png"), "--json"});
  EXPECT_EQ(of_folder["accuracy"], scores["accuracy"]);
  EXPECT_EQ(of_folder["confusion"], scores["confusion"]);
  scratch_.write("png/flying/1.png", "x");
  expect_failure(run_qkv({"evaluate", "image", path("out"), "--test", path("png")}), 1,
                 {"flying: expected one of the known classes (lying, standing), found 'flying'"});
}

TEST_F(ImageTrainingCommand, KilledAndResumedEndsInTheSameBits) {
  const std::vector<std::string> options{
      "--max-steps", "240", "--validate-every",   "40", "--mixup",   "0.2", "--erase", "0.3",
      "--dropout",   "0.1", "--checkpoint-every", "5",  "--threads", "1"};
  run(training("whole", options));
  std::string command = concat(quoted(QKV_PROGRAM));
  for (const std::string& argument : training("part", options)) command += concat(" ", quoted(argument));
  // Killed as soon as the second checkpoint is there.
  const std::string script = concat(
      command, " >/dev/null 2>&1 & run=$!; while [ ! -e ",
      quoted(path("part/checkpoints/step-000000010.safetensors")),
      " ] && kill -0 $run 2>/dev/null; do sleep 0.001; done; kill -KILL $run; wait $run; test $? = 137");
  ASSERT_EQ(std::system(script.c_str()), 0) << "the run ended before it was killed";
  EXPECT_FALSE(std::filesystem::exists(path("part/checkpoints/step-000000240.safetensors")));
  const json resumed = run({"train", "--resume", path("part"), "--quiet", "--json", "--threads", "2"});
  EXPECT_EQ(resumed["steps"], 240);
  for (const char* name : {"model.safetensors", "config.json", "preprocessor_config.json", "log.jsonl"})
    EXPECT_EQ(read_file(scratch_ / "part" / name), read_file(scratch_ / "whole" / name)) << name;
}

TEST_F(ImageTrainingCommand, ReadsFoldersOfPhotos) {
  for (int i = 0; i < 12; ++i) {
    const auto shade = static_cast<uint8_t>(20 * i);
    scratch_.write(concat("photos/warm/", i, ".png"), data::encode_png(plain(10 + i, 16, 200, shade, 30)));
    scratch_.write(concat("photos/cold/", i, ".jpg"), data::encode_jpeg(plain(16, 10 + i, 30, shade, 200)));
  }
  const std::vector<std::string> common{"train",       "image",  "--train",        path("photos"),
                                        "--max-steps", "20",     "--warmup-steps", "2",
                                        "--quiet",     "--json", "--out"};
  const auto with = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.push_back(path(out));
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_failure(run_qkv(with("none", {})), 1,
                 {"photos/cold/1.jpg: expected 16 x 10 pixels", "found 16 x 11"});
  const json trained = run(with("out", {"--resize", "12", "--hold-out", "6"}));
  EXPECT_EQ(trained["validation"]["accuracy"], 1) << "the colours differ";
  const json config = json::parse(read_file(scratch_ / "out/config.json"));
  EXPECT_EQ(config["num_channels"], 3);
  EXPECT_EQ(config["image_size"], 12);
  EXPECT_EQ(config["id2label"], (json{{"0", "cold"}, {"1", "warm"}}));
  const json processor = json::parse(read_file(scratch_ / "out/preprocessor_config.json"));
  EXPECT_EQ(processor["image_mean"].size(), 3u);
  EXPECT_EQ(processor["size"], (json{{"height", 12}, {"width", 12}}));
  EXPECT_EQ(run({"evaluate", "image", path("out"), "--test", path("photos"), "--json"})["accuracy"], 1);

  scratch_.write("photos/warm/broken.png", "\x89PNG\r\n\x1A\n and nothing");
  expect_failure(run_qkv(with("two", {"--resize", "12"})), 1, {"broken.png: expected a complete PNG file"});
  const Outcome skipped = run_qkv(with("three", {"--resize", "12", "--skip-unreadable"}));
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("1 of 25 image files cannot be read and were left out"), std::string::npos)
      << skipped.err;
}

TEST_F(ImageTrainingCommand, SpeaksOfItsOwnOptions) {
  const auto failing = [&](const std::vector<std::string>& more, int status,
                           const std::vector<std::string>& parts) {
    expect_failure(run_qkv(training("out", more)), status, parts);
  };
  failing({"--batch-images", "0"}, 2, {"--batch-images: expected 1 or more, found 0"});
  failing({"--flip", "2"}, 2, {"--flip: expected 0 to 1, found 2"});
  failing({"--patch-dropout", "1"}, 2, {"--patch-dropout: expected 0 to below 1, found 1"});
  failing({"--crop-fill", "blue"}, 2, {"--crop-fill", "blue"});
  failing({"--resize", "30"}, 2, {"--resize: expected a multiple of the patches' 4, found 30"});
  failing({"--hold-out", "5"}, 2, {"--hold-out: expected 0 with validation images"});
  failing({"--labels", path("valid-labels"), "--max-steps", "9"}, 1, {"valid-labels: expected 96 labels"});
  failing({"--train", path("train-labels"), "--max-steps", "9"}, 1, {"train-labels"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out"));
  run(training("out", {"--max-steps", "8"}));
  expect_failure(
      run_qkv({"train", "image", "--resume", "--out", path("out"), "--max-steps", "9", "--flip", "0"}), 2,
      {"--flip: expected 0.5 as in the checkpoint, found 0"});
  const std::string help = run_qkv({"train", "image", "--help"}).out;
  for (const char* part : {"--patch PIXELS=4", "--flip SHARE=0.5", "--label-smoothing SHARE=0.1",
                           "--preset mini|tiny|small|base=mini", "--mixup ALPHA=0", "0: none"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
}

}  // namespace
}  // namespace qkv::testing
