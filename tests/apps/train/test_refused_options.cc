// Options and data that `qkv train` and `qkv evaluate` refuse, before anything is written.

#include <sys/stat.h>

#include "tests/apps/json_results.h"
#include "tests/apps/train/training_commands.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

const std::string kGolden = QKV_TEST_DATA "/models/golden/", kBertFolder = kGolden + "bert_base",
                  kFromBert = " --from " + kBertFolder;

class RefusedOptions : public TrainingTest {
 protected:
  RefusedOptions() {
    scratch_.write("numbers.tsv", "1\tthe dog\n2\tthe man\n");
    scratch_.write("scored.tsv", "1\ta dog\ta man\n0.5\tthe dog\tthe man\n");
    scratch_.write("plain.tsv", "a dog\ta man\nthe dog\tthe man\n");
    scratch_.write("text", "one two\nthree four\n\nfive six\nseven eight\n");
    scratch_.write("flat", "a0 a1\nb0 b1\n");
    scratch_.write("columns", "1\tgood\n0\n");
    scratch_.write("one-label", "1\tgood\n1\tfine\n");
    scratch_.write("no-text", "1\tgood\n0\t\n");
    scratch_.write("bad-score", "1\ta\tb\nhigh\ta\tb\n");
    scratch_.write("empty", "");
  }
  struct Case {
    std::string options;  // after `qkv train`
    int status;
    std::string message;
  };
  void check(const std::vector<Case>& cases) const {
    for (const auto& [options, status, message] : cases) {
      expect_refused(concat("train ", options, " --max-steps 2 --quiet --out @/none"), status, {message});
      EXPECT_FALSE(std::filesystem::exists(scratch_ / "none")) << options;
    }
  }
  // With the task's usual options.
  static std::string usual(const std::string& task, const std::string& more) {
    return concat(task, " ", training_options().at(task), " ", more);
  }
};

TEST_F(RefusedOptions, WithoutEffect) {
  const std::string classify = "classify --train @/colours.tsv ";
  check({
      {classify + "--lora-alpha 8", 2, "--lora-alpha: expected none without --lora"},
      {classify + "--lora-targets fc1", 2, "--lora-targets: expected none without"},
      {classify + "--lora-dtype bf16" + kFromBert, 2, "--lora-dtype: expected none without --lora"},
      {classify + "--vocab-size 60 --tokenizer " + kBertFolder, 2,
       "--vocab-size: expected none with --tokenizer"},
      {"tag --train @/tags.tsv --lowercase true --tokenizer " + kBertFolder, 2,
       "--lowercase: expected none with --tokenizer"},
      {"classify --train @/numbers.tsv --regression --label-smoothing 0.1", 2,
       "--label-smoothing: expected none with --regression"},
      {classify + "--validate-every 5", 2, "--validate-every: expected none without validation data"},
      {classify + "--average-last 3", 2, "--average-last: expected none without"},
      {classify + "--set train.best_by=macro_f1", 2, "train.best_by: expected none without validation data"},
      {classify + "--schedule paper --learning-rate 1e-3", 2,
       "--learning-rate: expected none with --schedule = paper"},
      {"embed --train @/scored.tsv --loss cosent --symmetric" + kFromBert, 2,
       "--symmetric: expected none with the loss cosent"},
      {"embed --train @/scored.tsv --score-max 5" + kFromBert, 2,
       "--score-max: expected none with the loss cosent"},
      {"embed --train @/plain.tsv --score-max 5" + kFromBert, 2,
       "--score-max: expected none with the loss contrastive"},
      {"embed --train @/scored.tsv --loss cosine_mse --temperature 0.1" + kFromBert, 2,
       "--temperature: expected none with the loss cosine_mse"},
      {"lm --train @/text --tokenizer chars --vocab-size 300", 2,
       "--vocab-size: expected none without --tokenizer = bpe"},
      {"lm --train @/text --valid @/text --valid-share 0.2", 2, "--valid-share: expected none with --valid"},
      {"pretrain-bert --train @/text --no-nsp --halves", 2, "--halves: expected none with --no-nsp"},
      {"pretrain-bert --train @/text --no-nsp --neighbours 2", 2,
       "--neighbours: expected none with --no-nsp"},
      {"pretrain-bert --train @/text --no-nsp --short-share 0.2", 2,
       "--short-share: expected none with --no-nsp"},
      {"pretrain-bert --train @/text --cased --tokenizer " + kBertFolder, 2,
       "--cased: expected none with --tokenizer"},
      {"translation --src @/text --tgt @/text --vocab @/text --vocab-size 40", 2,
       "--vocab-size: expected none with --vocab"},
      {"translation --src @/text --tgt @/text --vocab-lines=-1", 2,
       "--vocab-lines: expected 0 or more, found -1"},
      {"translation --src @/text --tgt @/text --vocab @/text --vocab-kind bpe", 2,
       "--vocab-kind: expected none with --vocab"},
      {"translation --src @/text --tgt @/text --vocab @/text --byte-fallback", 2,
       "--byte-fallback: expected none with --vocab"},
  });
}

TEST_F(RefusedOptions, OutOfRange) {
  check({
      {usual("embed", "--temperature 0"), 2, "--temperature: expected more than 0, found 0"},
      {usual("embed", "--set train.batch_pairs=0"), 2, "--batch-pairs: expected 1 or more, found 0"},
      {usual("image", "--flip 2"), 2, "--flip: expected 0 to 1, found 2"},
      {usual("image", "--patch-dropout 1"), 2, "--patch-dropout: expected 0 to below 1, found 1"},
      {usual("image", "--crop-fill blue"), 2, "--crop-fill: expected"},
      {usual("image", "--resize 30"), 2, "--resize: expected a multiple of the patches' 4, found 30"},
      {usual("image", "--hold-out 5"), 2, "--hold-out: expected 0 with validation images"},
      {usual("lm", "--valid-share 2"), 2, "--valid-share: expected 0 to below 1, found 2"},
      {usual("lm", "--blocks gpt3"), 2, "--blocks: expected one of gpt2"},
      {usual("lm", "--documents pages"), 2, "--documents: expected one of"},
      {usual("lm", "--set model.key_heads=1"), 2, "model.key_heads: expected 0 or 2"},
      {usual("lm", "--precision int8"), 2, "--precision: expected one of f32, bf16, found 'int8'"},
      {usual("lm", "--set train.precision=int8"), 2, "--precision: expected f32 or bf16, found int8"},
      {usual("pretrain-bert", "--mask-rate 0"), 2, "--mask-rate: expected above 0 and below 1, found 0"},
      {usual("pretrain-bert", "--set model.max_positions=16"), 2,
       "model.max_positions: expected at least --max-length"},
      {usual("pretrain-bert", "--length-warmup 16"), 2,
       "--length-warmup: expected LENGTH:BATCHES,... such as 16:600,32:200, found '16'"},
      {usual("pretrain-bert", "--length-warmup 16:0"), 2,
       "--length-warmup: expected 1 or more batches of length 16, found 0"},
      {usual("pretrain-bert", "--length-warmup 32:5"), 2,
       "--length-warmup: expected growing lengths, here 3 to 31 (--max-length is 32), found 32"},
  });
}

TEST_F(RefusedOptions, OfAStartFolder) {
  const std::string t5 = " --from " QKV_TEST_DATA "/pipelines/golden/t5 ",
                    numbers = "translation --src @/numbers.en --tgt @/numbers.de --from ",
                    classify = "classify --train @/colours.tsv --from ";
  check({
      {numbers + kGolden + "gpt2", 2, "expected the folder of an encoder-decoder, found \"gpt2\""},
      {numbers + kGolden + "vit_base", 2, "expected the folder of an encoder-decoder, found \"vit\""},
      {"translation --src @/numbers.en --tgt @/numbers.de" + t5 + "--vocab-size 50", 2,
       "--vocab-size: expected none with --from"},
      {"translation --src @/numbers.en --tgt @/numbers.de" + t5 + "--set model.d_ff=50", 2,
       "model.d_ff: expected none with --from"},
      {numbers + "@/nowhere", 1, "nowhere: there is no such folder"},
      {usual("translation", "--lora 2"), 2,
       "--lora: expected a run that starts from a model folder (--from)"},
      {usual("pretrain-bert", "--lora 2"), 2,
       "--lora: expected a run that starts from a model folder (--from)"},
      {classify + kBertFolder + " --set layers=3", 2, "model.layers: expected none with --from"},
      {classify + kBertFolder + " --preset mini", 2,
       "--preset: expected none with --from, whose folder has its own sizes, found 'mini'"},
      {classify + kGolden + "vit_base", 2,
       "expected the folder of a text encoder, found \"vit\", an image encoder"},
      {"embed --train @/scored.tsv", 2, "--from: expected"},
  });
}

TEST_F(RefusedOptions, OfDataNameTheFile) {
  ASSERT_EQ(::mkfifo((scratch_ / "pipe").c_str(), 0600), 0);
  const std::string topics = "pretrain-bert --tokenizer @/topics/tokenizer --preset tiny ";
  check({
      {"classify --train @/columns", 1, "columns:2: expected 2 columns as in the first line, found 1"},
      {"classify --train @/one-label", 1, "one-label: expected at least 2 different labels, found only '1'"},
      {"classify --train @/no-text", 1, "no-text:2: expected a text, found an empty one"},
      {"classify", 2, "--train: expected a file"},
      {"lm", 2, "--train: expected a file"},
      {"lm --train @/nowhere", 1, "nowhere"},
      {"lm --train @/text --tokenizer @/nowhere", 1, "nowhere"},
      {"pretrain-bert", 2, "--train: expected a file"},
      {topics + "--train @/empty", 1, "found an empty file"},
      {topics + "--train @/flat", 1,
       "flat: next-sentence prediction needs two or more documents with blank lines between them"},
      {topics + "--train @/topics/train.txt --valid @/flat", 1, "flat: next-sentence prediction"},
      {"image --train @/pipe", 2, "/pipe: expected a file or a folder"},
      {"image --train @/nowhere", 1, "/nowhere: expected a file or a folder, found none"},
      {"image --train @/train-images --labels @/valid-labels", 1, "valid-labels: expected 96 labels"},
      {"image --train @/train-labels --labels @/train-labels", 1, "train-labels"},
  });
}

TEST_F(RefusedOptions, OfEvaluations) {
  output(training("classify", "model", "--max-steps 2"));
  output(training("pretrain-bert", "bert", "--max-steps 2"));
  scratch_.write("other", "ugly\ta dog\n");
  expect_refused("evaluate classify @/model --test @/other", 1,
                 {"other:1: expected one of the model's labels (bad, good), found 'ugly'"});
  expect_refused("evaluate tag @/model --test @/other", 1,
                 {"expected a model with a token classification head"});
  expect_refused(concat("evaluate classify ", kBertFolder, " --test @/colours.tsv"), 1,
                 {"config.json: expected a model with a text classification head, found none"});
  expect_refused(concat("evaluate embed ", kBertFolder, " --test @/bad-score"), 1,
                 {"bad-score:2: expected a number as the score, found 'high'"});
  expect_refused("evaluate pretrain-bert @/bert --test @/topics/valid.txt --max-length 99", 2,
                 {"--max-length: expected 5 to 32, the model's maximum, found 99"});
  const Outcome flat = run("evaluate pretrain-bert @/bert --test @/flat");
  expect_failure(flat, 1, {"found one document of 2 sentences; the model has that head"});
  EXPECT_EQ(flat.err.find("no-nsp"), std::string::npos) << "an option of training: " << flat.err;
}

// Batches of a resumed run are appended to those of its earlier steps.
TEST_F(RefusedOptions, SavedBatchesOfARefusedAndOfAResumedCommand) {
  const std::string batches = path("batches");
  scratch_.write("batches", "precious\n");
  const std::string first =
      training("classify", "run", "--schedule constant --max-steps 2 --save-batches @/batches");
  expect_refused(first + " --lora-alpha 2", 2, {"--lora-alpha"});
  EXPECT_EQ(content("batches"), "precious\n");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));

  output(first);
  const std::string two = content("batches");
  EXPECT_EQ(count_lines_of(two), 2u);
  const std::string resume = "train --resume @/run --quiet --json";
  EXPECT_TRUE(json::parse(output(resume))["train_loss"].is_null()) << "no step";
  EXPECT_EQ(content("batches"), two);
  output(resume + " --max-steps 5");
  const std::string five = content("batches");
  EXPECT_TRUE(five.starts_with(two));
  int64_t step = 0;
  for (const json& batch : json_lines(five)) EXPECT_EQ(batch["step"], ++step);
  EXPECT_EQ(step, 5);

  // Killed within a line, after more steps than its last checkpoint has: these steps are written once.
  scratch_.write("batches", five + R"({"step":6,"texts":[[2,3]]})" + "\n" + R"({"step":7,"te)");
  output(resume + " --max-steps 6");
  const std::string six = content("batches");
  EXPECT_TRUE(six.starts_with(five));
  EXPECT_EQ(count_lines_of(six), 6u);
  EXPECT_GT(json_lines(six).back()["texts"].size(), 1u);

  output("train --repeat @/run --out @/again --quiet");
  EXPECT_EQ(content("batches"), six) << "the file is that of the first run";
  output(resume + " --max-steps 7 --save-batches ''");
  EXPECT_EQ(content("batches"), six) << "turned off";

  scratch_.write("batches", "precious\n");
  expect_refused(resume + " --max-steps 8 --save-batches @/batches", 1,
                 {batches + ": line 1: expected a batch of the run to resume", "found no JSON"});
  EXPECT_EQ(content("batches"), "precious\n");
}

// The batches of every task have its ids and labels; those of pretraining have masks and grow in length.
TEST_F(RefusedOptions, SavedBatchesHaveTheTasksFields) {
  output(training("tag", "tag", "--max-steps 1 --save-batches @/tags"));
  const json tags = json_file("tags");
  EXPECT_EQ(tags["texts"][0][0], 2) << "[CLS]";
  EXPECT_EQ(tags["labels"][0], -100);

  output(training("pretrain-bert", "bert", "--max-steps 5 --length-warmup 8:2,16:2 --save-batches @/masked"));
  const std::vector<json> batches = json_lines(content("masked"));
  ASSERT_EQ(batches.size(), 5u);
  for (size_t i = 0; i < batches.size(); ++i) {
    const json& batch = batches[i];
    std::vector<int32_t> ids;
    size_t longest = 0;
    for (size_t k = 0; k < batch["inputs"].size(); ++k) {
      longest = std::max(longest, batch["inputs"][k].size());
      EXPECT_EQ(batch["types"][k].size(), batch["inputs"][k].size());
      for (const json& id : batch["inputs"][k]) ids.push_back(id.get<int32_t>());
    }
    const size_t least = i < 2 ? 4 : i < 4 ? 9 : 17, most = i < 2 ? 8 : i < 4 ? 16 : 32;
    EXPECT_TRUE(longest >= least && longest <= most) << i << ": " << longest;
    EXPECT_EQ(batch["not_next"].empty(), i < 4) << i;
    ASSERT_EQ(batch["masked"].size(), batch["labels"].size());
    int64_t mask_tokens = 0;
    for (const json& at : batch["masked"]) mask_tokens += ids.at(at.get<size_t>()) == 4 ? 1 : 0;
    EXPECT_EQ(mask_tokens, std::ranges::count(ids, 4));
  }
}

}  // namespace
}  // namespace qkv::testing
