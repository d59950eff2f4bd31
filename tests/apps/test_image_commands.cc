// The image commands, compared with transformers on the same files (tests/golden/images.py).

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;

const std::filesystem::path kData = QKV_TEST_DATA;

std::string folder(const std::string& name) { return (kData / "models" / "golden" / name).string(); }
std::string image_file(const std::string& name) {
  return (kData / "data" / "golden" / "images" / name).string();
}

struct ImageCase {
  explicit ImageCase(const std::string& name)
      : expected(json::parse(read_file(folder(name) + "/images.json"))) {
    for (const json& one : expected) input += image_file(one["input"].get<std::string>()) + "\n";
  }
  json expected;
  std::string input;
};

// JPEGs may decode with other last bits than in Pillow.
double tolerance_of(const json& expected) {
  return expected["input"].get<std::string>().ends_with(".jpg") ? 2e-2 : 1e-5;
}

class ImageCommands : public ::testing::TestWithParam<std::string> {};

TEST_P(ImageCommands, ClassifyLabelsAsTransformersDoes) {
  const ImageCase one(GetParam());
  const Outcome outcome =
      run_qkv({"classify", folder(GetParam()), "--json", "--threads", "1"}, {.input = one.input});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto found = json_lines(outcome.out);
  ASSERT_EQ(found.size(), one.expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const json &labels = found[i]["labels"], &wanted = one.expected[i]["labels"];
    ASSERT_EQ(labels.size(), wanted.size());
    for (size_t k = 0; k < labels.size(); ++k) {
      EXPECT_EQ(labels[k]["label"], wanted[k]["label"]);
      EXPECT_NEAR(labels[k]["probability"].get<double>(), wanted[k]["probability"].get<double>(),
                  tolerance_of(one.expected[i]));
    }
  }
  // Neither threads nor batches affect results.
  EXPECT_EQ(run_qkv({"classify", folder(GetParam()), "--json", "--threads", "3", "--chunk-lines", "2"},
                    {.input = one.input})
                .out,
            outcome.out);
}

TEST_P(ImageCommands, EmbedPoolsInEachWay) {
  const ImageCase one(GetParam());
  const auto check = [&](std::vector<std::string> options, const char* name) {
    options.insert(options.begin(), {"embed", folder(GetParam()), "--json"});
    const Outcome outcome = run_qkv(options, {.input = one.input});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto found = json_lines(outcome.out);
    ASSERT_EQ(found.size(), one.expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const json &vector = found[i]["vector"], &wanted = one.expected[i][name];
      ASSERT_EQ(vector.size(), wanted.size());
      for (size_t c = 0; c < vector.size(); ++c) {
        EXPECT_NEAR(vector[c].get<double>(), wanted[c].get<double>(), 2 * tolerance_of(one.expected[i]))
            << name;
      }
    }
  };
  check({}, "mean");
  check({"--pool", "cls"}, "cls");
  check({"--normalize"}, "normalized");
}

INSTANTIATE_TEST_SUITE_P(Families, ImageCommands, ::testing::Values("vit_images", "deit_images"));

TEST(ImageCommand, ClassifyNamesTheLikeliest) {
  const ImageCase one("vit_images");
  const json& labels = one.expected[0]["labels"];
  const std::string input = image_file("rgb.png") + "\n";
  const Outcome best = run_qkv({"classify", folder("vit_images")}, {.input = input});
  EXPECT_TRUE(best.out.starts_with(labels[0]["label"].get<std::string>() + "\t0.")) << best.out;
  EXPECT_EQ(std::ranges::count(best.out, '\t'), 1);
  const Outcome two = run_qkv({"classify", folder("vit_images"), "--top", "2"}, {.input = input});
  EXPECT_NE(two.out.find(concat("\t", labels[1]["label"].get<std::string>(), "\t")), std::string::npos)
      << two.out;
  EXPECT_EQ(std::ranges::count(two.out, '\t'), 3);
}

TEST(ImageCommand, AnotherSizeIsAnotherLook) {
  const std::string input = image_file("rgb.png") + "\n";
  const Outcome own = run_qkv({"classify", folder("vit_images"), "--image-size", "12"}, {.input = input});
  EXPECT_EQ(own.out, run_qkv({"classify", folder("vit_images")}, {.input = input}).out);
  const Outcome large = run_qkv({"classify", folder("vit_images"), "--image-size", "20"}, {.input = input});
  EXPECT_EQ(large.status, 0) << large.err;
  EXPECT_NE(large.out, own.out);
  expect_failure(run_qkv({"classify", folder("vit_images"), "--image-size", "14"}, {.input = input}), 2,
                 {"multiples of the patches' 4", "14 x 14"});
}

TEST(ImageCommand, BadFilesLeaveTheOthersUnharmed) {
  const Scratch scratch;
  const std::string empty = scratch.write("empty.png", "").string();
  const std::string text = scratch.write("text.jpg", "no picture").string();
  const std::string whole = read_file(image_file("whole.jpg"));
  const std::string cut = scratch.write("cut.jpg", whole.substr(0, whole.size() / 2)).string();
  const std::string good = image_file("rgb.png") + "\n";
  const Outcome alone = run_qkv({"classify", folder("vit_images")}, {.input = good});
  const Outcome outcome =
      run_qkv({"classify", folder("vit_images")},
              {.input = empty + "\n" + good + text + "\n/nowhere.png\n\n" + cut + "\n" + good});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "\n" + alone.out + "\n\n\n\n" + alone.out);
  for (const char* part : {"line 1: ", "empty.png: expected a PNG or JPEG file, found an empty file",
                           "line 3: ", "text.jpg", "line 4: ", "nowhere.png", "line 5: ", "line 6: ",
                           "cut.jpg: expected a complete JPEG file", "5 of 7 lines"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
  }
}

TEST(ImageCommand, AttentionIsDrawnOverTheImage) {
  const Scratch scratch;
  const auto draw = [&](const std::string& file) {
    const Outcome outcome =
        run_qkv({"attention", folder("deit_images"), "--image", image_file("turned_6.jpg"), "--out", file});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("written to " + file), std::string::npos) << outcome.err;
    return read_file(file);
  };
  const json report = json::parse(draw((scratch / "a.json").string()));
  EXPECT_EQ(report["own_tokens"], json({"[CLS]", "[DISTILL]"}));
  EXPECT_EQ(report["patches"], json({{"rows", 3}, {"columns", 3}}));
  ASSERT_EQ(report["layers"].size(), 2u);
  for (const json& layer : report["layers"]) {
    for (const json& head : layer["heads"]) {
      ASSERT_EQ(head.size(), 11u);
      for (const json& row : head) {
        double sum = 0;
        for (const json& weight : row) sum += weight.get<double>();
        EXPECT_NEAR(sum, 1, 1e-5);
      }
    }
  }
  EXPECT_EQ(report["labels"].size(), 3u);
  const std::string html = draw((scratch / "a.html").string()), svg = draw((scratch / "a.svg").string());
  EXPECT_NE(html.find("data:image/png;base64,"), std::string::npos);
  EXPECT_EQ(html.find("http:"), std::string::npos);
  EXPECT_NE(svg.find("rollout"), std::string::npos);
}

TEST(ImageCommand, AttentionWantsWhatTheModelReads) {
  const Scratch scratch;
  const std::string out = (scratch / "a.html").string();
  expect_failure(run_qkv({"attention", folder("vit_images"), "--source", "a", "--out", out}), 2, {"--image"});
  expect_failure(run_qkv({"attention", folder("bert_texts"), "--image", image_file("rgb.png"), "--out", out}),
                 2, {"--image", "only for image models"});
  expect_failure(run_qkv({"attention", folder("bert_texts"), "--out", out}), 2, {"--source"});
  expect_failure(run_qkv({"attention", folder("vit_images"), "--image", "/nowhere.png", "--out", out}), 1,
                 {"/nowhere.png"});
  expect_failure(
      run_qkv({"attention", folder("vit_images"), "--image", image_file("rgb.png"), "--out", "a.pdf"}), 2,
      {".html, .json or .svg"});
}

TEST(ImageCommand, RefusesWhatDoesNotFit) {
  const RunOptions line{.input = image_file("rgb.png") + "\n"};
  expect_failure(run_qkv({"classify", folder("vit_images"), "--pairs"}, line), 2,
                 {"--pairs: only for text models"});
  expect_failure(run_qkv({"classify", folder("vit_images"), "--top", "0"}, line), 2, {"--top"});
  expect_failure(run_qkv({"classify", folder("bert_texts"), "--image-size", "12"}, line), 2,
                 {"--image-size: only for image models"});
  expect_failure(run_qkv({"classify", folder("vit_base")}, line), 1, {"preprocessor_config.json"});
  expect_failure(run_qkv({"embed", folder("vit_images"), "--pool", "pooler"}, line), 2, {"a pooler"});
  expect_failure(run_qkv({"embed", folder("bert_texts"), "--image-size", "12"}, line), 2, {"--image-size"});
  const Outcome prompt = run_qkv({"embed", folder("vit_images"), "--prompt", "x"}, line);
  expect_failure(prompt, 2, {"--prompt: only for text models"});
  EXPECT_EQ(prompt.err.find("--max-length"), std::string::npos) << prompt.err;
  const Scratch copy;
  std::filesystem::copy(folder("vit_images"), copy.path(), std::filesystem::copy_options::recursive);
  copy.write("preprocessor_config.json", R"({"size": 16})");
  expect_failure(run_qkv({"classify", copy.path().string()}, line), 1,
                 {"preprocessor_config.json", "12 x 12", "16 x 16"});
  copy.write("preprocessor_config.json", R"({"do_resize": false})");
  expect_failure(run_qkv({"classify", copy.path().string()}, line), 1, {"12 x 12", "varying sizes"});
}

}  // namespace
