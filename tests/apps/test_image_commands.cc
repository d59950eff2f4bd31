// The image commands, compared with transformers on the same files (tests/golden/images.py).

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/json_results.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

std::string image_file(const std::string& name) { return concat(QKV_TEST_DATA "/data/golden/images/", name); }

class ImageCommand : public CommandTest {
 protected:
  static json recorded(const std::string& model) {
    return json::parse(read_file(recorded_model(model) + "/images.json"));
  }
  const std::string rgb_ = image_file("rgb.png") + "\n";
};

class ImageCommands : public ImageCommand, public ::testing::WithParamInterface<std::string> {
 protected:
  // JPEGs may decode with other last bits than in Pillow.
  void expect_recorded(const std::string& line, const std::string& field, const std::string& recorded_as,
                       double scale) const {
    const json expected = recorded(GetParam());
    std::string input;
    for (const json& one : expected) input += image_file(one["input"]) + "\n";
    const auto found = line_results(line, input);
    for (size_t i = 0; i < found.size(); ++i) {
      const bool jpeg = expected[i]["input"].get<std::string>().ends_with(".jpg");
      expect_same(found[i][field], expected[i][recorded_as], line, scale * (jpeg ? 2e-2 : 1e-5));
    }
  }
};

TEST_P(ImageCommands, ClassifyLabelsLikeTransformers) {
  expect_recorded("classify %" + GetParam(), "labels", "labels", 1);
}

TEST_P(ImageCommands, EmbedPoolsInEachWay) {
  for (const auto& [options, name] :
       {std::pair{"", "mean"}, {" --pool cls", "cls"}, {" --normalize", "normalized"}})
    expect_recorded(concat("embed %", GetParam(), options), "vector", name, 2);
}

// A line's text has the same bits alone, beside others and in any parts of its prompt.
TEST_F(ImageCommand, AnImageInAPromptHasTheSameBits) {
  const std::string lines[] = {"the man <image> in the house", "<image> a red dog"};
  for (const char* model : {"llava-1.5-7b-hf", "SmolVLM-256M-Instruct"}) {
    const auto texts = [&](const std::string& options, const std::string& input) {
      std::vector<json> found;
      for (const json& one : json_lines(output(concat("generate --json --max-new-tokens 5 ", options,
                                                      " --image ", image_file("rgb.png"), " %hub/", model),
                                               input)))
        found.push_back(one["texts"]);
      return found;
    };
    const auto both = texts("", lines[0] + "\n" + lines[1] + "\n");
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(texts("--prefill-tokens 3 --threads 1", lines[0] + "\n" + lines[1] + "\n"), both);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(texts("", lines[i] + "\n"), std::vector<json>{both[i]});
  }
}

TEST_F(ImageCommand, AnImageOfAPromptThatCannotBeReadIsNamed) {
  std::string damaged = read_file(image_file("rgb.png"));
  damaged.resize(damaged.size() / 2);
  scratch_.write("half.png", damaged);
  for (const std::string& file : {path("half.png"), path("none.png")}) {
    const Outcome outcome =
        run(concat("generate --image ", file, " %hub/llava-1.5-7b-hf"), {.input = "a <image> b\n"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    expect_parts(outcome.err, {file});
  }
  const Outcome few =
      run(concat("generate --image ", image_file("rgb.png"), " %hub/llava-1.5-7b-hf"), {.input = "a b\n"});
  EXPECT_EQ(few.status, 1);
  expect_parts(few.err, {"expected <image> for each of 1 image, found it 0 times"});
  EXPECT_EQ(run("generate %hub/llava-1.5-7b-hf --imag x").status, 2);
}

const std::string kClip = "%hub/clip-vit-base-patch32", kSiglip = "%hub/siglip-base-patch16-224";

// Probabilities of labels add up to 1, or, of a model that tells of each alone, do not depend on the others.
TEST_F(ImageCommand, ClassifiesByLabelsOfOnesOwn) {
  const auto labels = [&](const std::string& model, const std::string& list) {
    return line_results(concat("classify ", model, " --labels '", list, "'"), rgb_)[0]["labels"];
  };
  double sum = 0;
  const json three = labels(kClip, "cat, dog, house");
  ASSERT_EQ(three.size(), 3u);
  for (const json& one : three) sum += one["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(labels(kClip, "cat")[0]["probability"], 1);
  const json all = labels(kSiglip, "cat, dog, house");
  for (const json& one : all) EXPECT_EQ(labels(kSiglip, one["label"])[0]["probability"], one["probability"]);
}

TEST_F(ImageCommand, ImagesAndTextsOfOneModelAreChosenByOption) {
  const json text = line_results("embed " + kClip, "a photo\n")[0]["vector"];
  const json image = line_results("embed " + kClip + " --images", rgb_)[0]["vector"];
  EXPECT_EQ(text.size(), image.size());
  EXPECT_EQ(output("embed %vit_images --images", rgb_), output("embed %vit_images", rgb_));
  for (const auto& [line, part] :
       {std::pair{"embed %bert_texts --images", "--images: only for models of images and texts"},
        {"embed %hub/clip-vit-base-patch32 --images --max-length 3", "--max-length: only for text models"},
        {"embed %hub/clip-vit-base-patch32 --images --dimensions 13", "expected 1 to 12"},
        {"embed %hub/clip-vit-base-patch32 --image-size 24", "--image-size: only for image models"},
        {"classify %hub/clip-vit-base-patch32", "--labels: expected labels"},
        {"classify %hub/clip-vit-base-patch32 --labels a --pairs", "--pairs: only for text models"},
        {"classify %hub/clip-vit-base-patch32 --labels a --multi-label", "--multi-label: only for"},
        {"classify %hub/clip-vit-base-patch32 --labels a --hypothesis b", "{} in place of the label"},
        {"attention %hub/clip-vit-base-patch32 --out @/a.html", "expected an image or a text, found none"}}) {
    expect_refused(line, 2, {part}, rgb_);
  }
}

TEST_F(ImageCommand, AttentionOfAPoolerIsTheLastLayer) {
  output("attention " + kSiglip + " --image " + image_file("rgb.png") + " --out @/a.json");
  const json report = json_file("a.json");
  EXPECT_EQ(report["own_tokens"], json::array({"[POOL]"}));
  ASSERT_EQ(report["layers"].size(), 3u);
  for (size_t layer = 0; layer < 3; ++layer) {
    const json& rows = report["layers"][layer]["heads"][0];
    for (size_t query = 0; query < rows.size(); ++query) {
      double sum = 0;
      for (const json& weight : rows[query]) sum += weight.get<double>();
      EXPECT_NEAR(sum, 1, 1e-5);
      const bool passes = (query == 0) != (layer == 2);  // [POOL] reads patches in the last layer only
      EXPECT_EQ(rows[query][query] == 1, passes) << layer << ", " << query;
    }
  }
  output("attention " + kSiglip + " --source 'a cat' --out @/b.json");
  EXPECT_EQ(json_file("b.json")["layers"].size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Families, ImageCommands, ::testing::Values("vit_images", "deit_images"));

TEST_F(ImageCommand, ClassifyPrintsTheLikeliest) {
  const json labels = recorded("vit_images")[0]["labels"];
  const std::string best = output("classify %vit_images", rgb_);
  EXPECT_TRUE(
      best.starts_with(concat(image_file("rgb.png"), "\t", labels[0]["label"].get<std::string>(), "\t0.")))
      << best;
  EXPECT_EQ(std::ranges::count(best, '\t'), 2);
  const std::string two = output("classify %vit_images --top 2", rgb_);
  expect_parts(two, {concat("\t", labels[1]["label"].get<std::string>(), "\t")});
  EXPECT_EQ(std::ranges::count(two, '\t'), 4);
}

TEST_F(ImageCommand, TakesFilesAsArgumentsAndNamesThemBesideTheirResults) {
  const std::string files = concat(image_file("rgb.png"), " ", image_file("whole.jpg"));
  const std::string lines = rgb_ + image_file("whole.jpg") + "\n";
  for (const std::string command : {"classify %vit_images", "embed %vit_images"}) {
    const std::string found = output(concat(command, " ", files));
    EXPECT_EQ(found, output(command, lines));
    EXPECT_TRUE(found.starts_with(image_file("rgb.png") + "\t")) << found;
    expect_parts(found, {concat("\n", image_file("whole.jpg"), "\t")});
    EXPECT_EQ(line_results(command, lines).at(1)["file"], image_file("whole.jpg"));
  }
}

TEST_F(ImageCommand, ImageSizeChangesTheResult) {
  const std::string own = output("classify %vit_images --image-size 12", rgb_);
  EXPECT_EQ(own, output("classify %vit_images", rgb_));
  EXPECT_NE(output("classify %vit_images --image-size 20", rgb_), own);
  expect_refused("classify %vit_images --image-size 14", 2, {"multiples of the patches' 4", "14 x 14"}, rgb_);
}

TEST_F(ImageCommand, BadFilesDoNotAffectOthers) {
  const std::string empty = scratch_.write("empty.png", "").string();
  const std::string text = scratch_.write("text.jpg", "no picture").string();
  const std::string whole = read_file(image_file("whole.jpg"));
  const std::string cut = scratch_.write("cut.jpg", whole.substr(0, whole.size() / 2)).string();
  const std::string alone = output("classify %vit_images", rgb_);
  const Outcome outcome =
      run("classify %vit_images",
          {.input = concat(empty, "\n", rgb_, text, "\n/nowhere.png\n\n", cut, "\n", rgb_)});
  EXPECT_EQ(outcome.status, 1);
  const std::vector<std::string> in_place{"empty.png\terror: line 1: ",
                                          "rgb.png\t",
                                          "text.jpg\terror: line 3: ",
                                          "/nowhere.png\terror: line 4: ",
                                          "\terror: line 5: ",
                                          "cut.jpg\terror: line 6: ",
                                          "rgb.png\t"};
  std::istringstream printed(outcome.out);
  for (const std::string& part : in_place) {
    std::string line;
    std::getline(printed, line);
    EXPECT_NE(line.find(part), std::string::npos) << line;
    EXPECT_EQ(line + "\n" == alone, part == "rgb.png\t") << line;
  }
  expect_parts(outcome.err, {"line 1: ", "empty.png: expected a PNG or JPEG file, found an empty file",
                             "line 3: ", "text.jpg", "line 4: ", "nowhere.png", "line 5: ", "line 6: ",
                             "cut.jpg: expected a complete JPEG file", "5 of 7 lines"});
}

TEST_F(ImageCommand, AttentionIsDrawnOverTheImage) {
  const auto draw = [&](const std::string& name) {
    const Outcome outcome =
        run(concat("attention %deit_images --out @/", name, " --image ", image_file("turned_6.jpg")));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    expect_parts(outcome.err, {"written to " + path(name)});
    return content(name);
  };
  const json report = json::parse(draw("a.json"));
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
  const std::string html = draw("a.html");
  expect_parts(html, {"data:image/png;base64,"});
  EXPECT_EQ(html.find("http:"), std::string::npos);
  expect_parts(draw("a.svg"), {"rollout"});
}

TEST_F(ImageCommand, AttentionRefusesOtherInputs) {
  const std::string rgb = " --image " + image_file("rgb.png");
  expect_refused("attention %vit_images --source a --out @/a.html", 2, {"--image"});
  expect_refused("attention %bert_texts --out @/a.html" + rgb, 2, {"--image", "only for image models"});
  expect_refused("attention %bert_texts --out @/a.html", 2, {"--source"});
  expect_refused("attention %vit_images --image /nowhere.png --out @/a.html", 1, {"/nowhere.png"});
  expect_refused("attention %vit_images --dark --out @/a.svg" + rgb, 2, {"--dark", "image models"});
  expect_refused("attention %vit_images --out a.pdf" + rgb, 2, {".html, .json or .svg"});
}

TEST_F(ImageCommand, RefusesOptionsAndFoldersThatDoNotFit) {
  expect_refused("classify %vit_images --pairs", 2, {"--pairs: only for text models"}, rgb_);
  expect_refused("classify %vit_images --top 0", 2, {"--top"}, rgb_);
  expect_refused("classify %bert_texts --image-size 12", 2, {"--image-size: only for image models"}, rgb_);
  expect_refused("classify %vit_base", 1, {"preprocessor_config.json"}, rgb_);
  expect_refused("embed %vit_images --pool pooler", 2, {"a pooler"}, rgb_);
  expect_refused("embed %bert_texts --image-size 12", 2, {"--image-size"}, rgb_);
  const Outcome prompt = run("embed %vit_images --prompt x", {.input = rgb_});
  expect_failure(prompt, 2, {"--prompt: only for text models"});
  EXPECT_EQ(prompt.err.find("--max-length"), std::string::npos) << prompt.err;
  std::filesystem::copy(recorded_model("vit_images"), scratch_ / "copy");
  scratch_.write("copy/preprocessor_config.json", R"({"size": 16})");
  expect_refused("classify @/copy", 1, {"preprocessor_config.json", "12 x 12", "16 x 16"}, rgb_);
  scratch_.write("copy/preprocessor_config.json", R"({"do_resize": false})");
  expect_refused("classify @/copy", 1, {"12 x 12", "varying sizes"}, rgb_);
}

}  // namespace
}  // namespace qkv::testing
