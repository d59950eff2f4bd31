// Every task of `qkv train`: its model folder, `qkv evaluate`, the command that uses the model, adapters.
// tests/train has the tests of learning, of exports and of interrupted runs.

#include <cmath>

#include "qkv/kernels/instruction_set.h"
#include "tests/apps/train/training_commands.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

struct TaskCase {
  std::string name;
  std::string data;                 // options of `qkv evaluate`
  std::vector<std::string> scores;  // of the run's validation and of `qkv evaluate`, equal
  std::vector<std::string> text;    // in the output of `qkv evaluate`
  std::string use, input, output;   // the model's command, and a part of its output
  std::vector<std::string> help;
};

const std::string kBertBase = QKV_TEST_DATA "/models/golden/bert_base";

const std::vector<TaskCase> kTasks{
    {.name = "translation",
     .data = "--src @/numbers.en --ref @/numbers.de",
     .scores = {},
     .text = {"BLEU"},
     .use = "translate",
     .input = "forty-two",
     .output = "\n",
     .help = {"--batch-tokens TOKENS=4096", "--warmup-steps STEPS=1000", "--seed N=1",
              "--checkpoint-minutes MINUTES=10", "--label-smoothing SHARE=0.1", "0: after each epoch",
              "--preset tiny|small|base|big=small", "--vocab-size N=8000"}},
    {.name = "lm",
     .data = "--test @/animals.txt",
     .scores = {},
     .text = {" nats per token, perplexity "},
     .use = "score",
     .input = "the dog",
     .output = "\tthe dog",
     .help = {"--context"}},
    {.name = "pretrain-bert",
     .data = "--test @/topics/valid.txt",
     .scores = {"masked_loss", "masked_accuracy", "nsp_loss", "nsp_accuracy"},
     .text = {"\nnext-sentence accuracy "},
     .use = "fill-mask --top 1",
     .input = "c0 c1 [MASK] c3",
     .output = "1\t1\t",
     .help = {"--mask-rate SHARE=0.15", "--vocab-size N=8000", "--preset tiny|mini|small|medium|base=mini",
              "--no-nsp", "--whole-word"}},
    {.name = "classify",
     .data = "--test @/colours.tsv",
     .scores = {"accuracy", "loss"},
     .text = {"\naccuracy  ", "true \\ predicted"},
     .use = "classify",
     .input = "the red dog",
     .output = "\t0.",
     .help = {"--layer-decay FACTOR=1"}},
    {.name = "tag",
     .data = "--test @/tags.tsv",
     .scores = {"accuracy", "loss"},
     .text = {"accuracy  "},
     .use = "tag",
     .input = "the dog",
     .output = "the/",
     .help = {"--tag-column N=0", "--layer-decay FACTOR=1", "--preset tiny|mini|small|medium|base=mini",
              "--lowercase true|false=false"}},
    {.name = "answer",
     .data = "--test @/questions.jsonl",
     .scores = {"f1", "exact_match", "loss"},
     .text = {"exact match ", "unanswerable questions "},
     .use = "answer --question red",
     .input = "the red dog",
     .output = "\n",
     .help = {"--shared TOKENS=128", "--max-answer-tokens TOKENS=30", "--layer-decay FACTOR=1",
              "--preset tiny|mini|small|medium|base=mini"}},
    {.name = "embed",
     .data = "--test @/pairs.tsv",
     .scores = {"pearson"},
     .text = {"spearman  "},
     .use = "embed",
     .input = "a red dog",
     .output = " ",
     .help = {"--learning-rate RATE=2e-05", "--temperature NUMBER=0.05", "--pool mean|cls|max|last=mean"}},
    {.name = "image",
     .data = "--test @/valid-images --test-labels @/valid-labels",
     .scores = {"accuracy", "loss"},
     .text = {"accuracy  ", "recall", "precision", "true \\ predicted"},
     .use = "",
     .input = "",
     .output = "",
     .help = {"--patch PIXELS=4", "--flip SHARE=0.5", "--label-smoothing SHARE=0.1",
              "--preset mini|tiny|small|base=mini", "--mixup ALPHA=0", "0: none"}},
};

class EveryTask : public TrainingTest, public ::testing::WithParamInterface<TaskCase> {
 protected:
  std::string train(const std::string& out, const std::string& more) const {
    return training(GetParam().name, out, more);
  }
  std::string evaluate(const std::string& model) const {
    return concat("evaluate ", GetParam().name, " ", model, " ", GetParam().data);
  }
};

TEST_P(EveryTask, GivesAModelWithTheScoresOfItsValidation) {
  const TaskCase& task = GetParam();
  const json trained = result(train("out", "--max-steps 4 --validate-every 2"));
  EXPECT_EQ(trained["steps"], 4);
  const json found = result(evaluate("@/out"));
  for (const std::string& score : task.scores)
    EXPECT_NEAR(found[score].get<double>(), trained["best"][score].get<double>(), 1e-5) << score;
  expect_parts(output(evaluate("@/out")), task.text);
  if (!task.use.empty()) {
    expect_parts(output(concat(task.use, " @/out"), task.input + "\n"), {task.output});
    output("self-test @/out");
  }
}

// bf16 reaches every task; its bits depend neither on threads nor on a resumption.
TEST_P(EveryTask, ResumesInMixedPrecisionToTheSameBits) {
  output(train("f32", "--schedule constant --max-steps 4 --validate-every 2"));
  output(train("whole", "--schedule constant --max-steps 4 --validate-every 2 --precision bf16 --threads 2"));
  output(train("part", "--schedule constant --max-steps 2 --validate-every 2 --precision bf16 --threads 1"));
  EXPECT_EQ(result("train --resume @/part --max-steps 4 --threads 3 --quiet")["steps"], 4);
  EXPECT_EQ(weights("part"), weights("whole"));
  EXPECT_NE(weights("f32"), weights("whole"));
  EXPECT_EQ(result("verify-resume @/part --quiet")["same"], true);
}

TEST_P(EveryTask, HelpHasTypesAndDefaults) {
  expect_parts(output(concat("train ", GetParam().name, " --help")), GetParam().help);
}

INSTANTIATE_TEST_SUITE_P(All, EveryTask, ::testing::ValuesIn(kTasks), [](const auto& test) {
  std::string name = test.param.name;
  std::erase(name, '-');
  return name;
});

class Adapters : public TrainingTest, public ::testing::WithParamInterface<std::string> {};

// `--adapter` and `qkv merge` give the same scores, which are not those of the base.
TEST_P(Adapters, MergeToAModelWithTheSameScores) {
  const std::string& task = GetParam();
  output(training(task, "base", "--max-steps 2"));
  std::string options = training_options().at(task);
  for (const char* shape :
       {" --preset", " --set", " --vocab-size", " --tokenizer", " --from", " --context"}) {
    for (size_t at = 0; (at = options.find(shape)) != options.npos;) {
      const size_t value = options.find(' ', at + 1);
      options.erase(at, options.find(' ', value + 1) - at);
    }
  }
  const std::string from = concat("train ", task, " ", options, " --from @/base --quiet");
  output(concat(from, " --out @/adapter --lora 4 --max-steps 30 --learning-rate 0.02"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "adapter/model.safetensors"));
  // The base has the head that the adapter replaces: no part is unread.
  const auto own = std::ranges::find(kTasks, task, &TaskCase::name);
  const Outcome with = run(concat("evaluate ", task, " @/base --adapter @/adapter ", own->data));
  EXPECT_EQ(with.status, 0);
  EXPECT_EQ(with.err.find("no such part"), std::string::npos) << with.err;
  output("merge @/base --adapter @/adapter --out @/merged");
  expect_merge_finds_the_base();
  const auto scores = [&](const std::string& model) {
    const auto found = std::ranges::find(kTasks, task, &TaskCase::name);
    return result(concat("evaluate ", task, " ", model, " ", found->data));
  };
  const char* score = task == "embed" ? "pearson" : "loss";
  const double base = scores("@/base")[score], merged = scores("@/merged")[score];
  EXPECT_NEAR(scores("@/base --adapter @/adapter")[score].get<double>(), merged, 1e-5);
  EXPECT_GT(std::abs(base - merged), 1e-4);
  EXPECT_NE(scores("@/merged --dtype int8")[score], merged);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Adapters,
                         ::testing::Values("lm", "classify", "tag", "answer", "embed", "image"),
                         [](const auto& test) { return test.param; });

const std::string kT5Folder = QKV_TEST_DATA "/pipelines/golden/t5";

std::string tuning(const std::string& from, const std::string& out, const std::string& more) {
  return concat("train translation --src @/numbers.en --tgt @/numbers.de --batch-tokens 600 --bleu-every 0",
                " --from ", from, " --out @/", out, " --quiet ", more);
}

class FineTuning : public TrainingTest {};

TEST_F(FineTuning, KeepsTheFilesOfATranslationFolder) {
  output(training("translation", "base", "--max-steps 2"));
  const json tuned = result(tuning("@/base", "tuned", ""));
  EXPECT_EQ(tuned["epochs"], 3) << "the default";
  EXPECT_EQ(tuned["schedule_steps"], tuned["steps"]) << "linear, the default";
  for (const char* file : {"source.spm", "vocab.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(content(concat("tuned/", file)), content(concat("base/", file))) << file;
  EXPECT_EQ(json_file("tuned/config.json")["model_type"], "marian");
}

// Of an encoder-decoder, drawn attention included, and over weights in int8.
TEST_F(FineTuning, AdaptersOfTranslationModels) {
  output(tuning(kT5Folder, "adapter",
                "--lora 4 --lora-targets q_proj,v_proj,fc1,fc2 --max-steps 40 --learning-rate 0.02"));
  output(concat("merge ", kT5Folder, " --adapter @/adapter --out @/merged"));
  const std::string input = "forty-two\nninety-nine\nseven\n",
                    adapted = output(concat("translate ", kT5Folder, " --adapter @/adapter"), input);
  EXPECT_NE(adapted, output("translate " + kT5Folder, input));
  EXPECT_EQ(adapted, output("translate @/merged", input));
  const auto attention = [&](const std::string& model) {
    output(concat("attention ", model, " --source seven --target forty --out @/attention.json"));
    std::vector<double> weights;
    for (const json& layer : json_file("attention.json")["layers"]) {
      for (const json& weight : layer["heads"].flatten()) weights.push_back(weight.get<double>());
    }
    return weights;
  };
  const auto merged = attention("@/merged"), found = attention(kT5Folder + " --adapter @/adapter");
  ASSERT_EQ(found.size(), merged.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], merged[i], 1e-5);

  output(training("translation", "base", "--max-steps 2"));
  output("quantize @/base --dtype int8 --out @/int8");
  output(tuning("@/int8", "over-int8", "--lora 2 --max-steps 2"));
  EXPECT_EQ(count_lines_of(output("translate @/int8 --adapter @/over-int8", input)), 3u);
  expect_refused("translate @/base --adapter @/over-int8", 1,
                 {"expected the base model that the adapter was trained on"});
  std::filesystem::remove_all(scratch_ / "over-int8/checkpoints");
  expect_refused(tuning("@/base", "over-int8", ""), 2, {"holds a model or a training run already"});
}

TEST_F(FineTuning, OfAClassifierFromABert) {
  output(
      concat("train classify --train @/colours.tsv --max-epochs 1 --out @/model --quiet --from ", kBertBase));
  const json config = json_file("model/config.json");
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["hidden_size"], 8);
  EXPECT_EQ(config["id2label"]["0"], "bad");
  // Its class is BertForMaskedLM, and its files have a pooler.
  const Outcome masked =
      run("train classify --train @/colours.tsv --max-steps 1 --out @/masked --from %hub/bert-base-cased");
  EXPECT_EQ(masked.status, 0);
  expect_parts(masked.err, {"initialised at random from the seed: classifier\n"});
}

// The last token's hidden state is classified, as in transformers' classes for it.
TEST_F(FineTuning, OfAClassifierFromALanguageModel) {
  const std::string line =
      "train classify --train @/colours.tsv --valid @/colours.tsv --quiet --learning-rate 0.02 ";
  std::filesystem::copy(QKV_TEST_DATA "/apps/golden/hub/SmolLM2-135M", scratch_ / "language");
  json settings = json_file("language/tokenizer_config.json");
  settings["pad_token"] = "<|im_end|>";
  scratch_.write("language/tokenizer_config.json", settings.dump());
  output(line + "--from @/language --max-steps 30 --out @/model");
  const json config = json_file("model/config.json");
  EXPECT_EQ(config["architectures"][0], "LlamaForSequenceClassification");
  EXPECT_EQ(config["id2label"]["0"], "bad");
  EXPECT_EQ(config["pad_token_id"], 2);
  EXPECT_GT(result("evaluate classify @/model --test @/colours.tsv")["accuracy"], 0.9);
  // Its classifier is kept, by all of these.
  output(line + "--from @/model --max-steps 1 --out @/further");
  output(line + "--from @/model --lora 2 --max-steps 1 --out @/adapter");
  output("merge @/model --adapter @/adapter --out @/merged");
  for (const char* model : {"@/further", "@/model --adapter @/adapter", "@/merged"})
    EXPECT_GT(result(concat("evaluate classify ", model, " --test @/colours.tsv"))["accuracy"], 0.9) << model;
  output(line + "--from %hub/SmolLM2-135M --lora 2 --max-steps 1 --out @/over-base");
  output("classify %hub/SmolLM2-135M --adapter @/over-base", "red\n");
  expect_refused("train answer --train @/questions.jsonl --out @/answers --from %hub/SmolLM2-135M", 2,
                 {"--from ", "SmolLM2-135M: expected a text encoder with a question answering head",
                  "found a model of the family llama"});
  expect_refused("train tag --train @/tags.tsv --out @/tagged --from %hub/SmolLM2-135M", 2,
                 {"--from ", "SmolLM2-135M: expected a text encoder with a token classification head"});
}

TEST_F(FineTuning, OfVectorsFromALanguageModel) {
  scratch_.write("scored.tsv", "1\ta dog\ta man\n0.5\tthe dog\tthe man\n");
  output(
      "train embed --train @/scored.tsv --from %hub/SmolLM2-135M --pool last --max-steps 2 --quiet --out "
      "@/model");
  EXPECT_EQ(json_file("model/config.json")["architectures"][0], "LlamaModel");
  EXPECT_EQ(json_file("model/1_Pooling/config.json")["pooling_mode_lasttoken"], true);
  EXPECT_EQ(count_lines_of(output("embed @/model", "a red dog\none\n")), 2u);
}

// An adapter's documents and length of texts are kept by `merge`.
TEST_F(FineTuning, SettingsOfAnAdapterAreThoseOfItsMergedModel) {
  output(training("lm", "base", "--max-steps 2"));
  output(
      "train lm --train @/animals.txt --from @/base --lora 2 --documents lines --max-steps 2 --quiet"
      " --out @/adapter");
  output("merge @/base --adapter @/adapter --out @/merged");
  expect_merge_finds_the_base();
  const auto documents = [&](const std::string& model) {
    return result(concat("evaluate lm ", model, " --test @/animals.txt"))["documents"];
  };
  EXPECT_EQ(documents("@/base --adapter @/adapter"), documents("@/merged"));
  EXPECT_GT(documents("@/merged"), documents("@/base"));

  output(concat("train classify --train @/colours.tsv --lora 2 --max-steps 2 --max-length 6 --out @/short",
                " --quiet --from ", kBertBase));
  output(concat("merge ", kBertBase, " --adapter @/short --out @/short-merged"));
  EXPECT_EQ(json_file("short-merged/tokenizer_config.json")["model_max_length"], 6);
}

class TrainingTasks : public TrainingTest {};

TEST_F(TrainingTasks, EmbeddingsAreFoldersOfSentenceTransformers) {
  const json trained = result(
      concat("train embed --train @/pairs.tsv --batch-pairs 16 --out @/out --quiet", " --from ", kBertBase));
  EXPECT_EQ(trained["epochs"], 3) << "without a limit";
  EXPECT_EQ(trained["schedule_steps"], trained["steps"]);
  EXPECT_EQ(json_file("out/modules.json")[1]["path"], "1_Pooling");
  EXPECT_EQ(json_file("out/1_Pooling/config.json")["pooling_mode_mean_tokens"], true);
  scratch_.write("matching.tsv", train::testing_task::matching_pairs());
  const json found = result("evaluate embed @/out --test @/matching.tsv");
  EXPECT_EQ(found["pairs"], 12);
  EXPECT_TRUE(found.contains("accuracy"));
}

TEST_F(TrainingTasks, ImagesOfFoldersHaveTheScoresOfTheirIdxFile) {
  scratch_.write("names", "lying\nstanding\n");
  output(training("image", "out", "--max-steps 60 --learning-rate 0.01 --label-names @/names"));
  const Bars some = bars(30, 8);
  std::string lines;
  for (size_t i = 0; i < 30; ++i) {
    data::Image image{.height = 8, .width = 8};
    for (size_t p = 0; p < 64; ++p)
      image.pixels.insert(image.pixels.end(), 3, static_cast<uint8_t>(some.pixels[64 * i + p]));
    const char* folder = some.labels[i] == 0 ? "png/lying/" : "png/standing/";
    lines += scratch_.write(concat(folder, i, ".png"), data::encode_png(image)).string() + "\n";
  }
  const json scores = result("evaluate image @/out --test @/valid-images --test-labels @/valid-labels"),
             of_folder = result("evaluate image @/out --test @/png");
  EXPECT_EQ(scores["classes"], (json{"lying", "standing"}));
  EXPECT_EQ(of_folder["confusion"], scores["confusion"]);
  std::istringstream classified(output("classify @/out --json", lines));
  int64_t lying = 0;
  for (std::string line; std::getline(classified, line);)
    lying += json::parse(line)["labels"][0]["label"] == "lying" ? 1 : 0;
  EXPECT_EQ(lying, scores["confusion"][0][0].get<int64_t>() + scores["confusion"][1][0].get<int64_t>());
  scratch_.write("png/flying/1.png", "x");
  expect_refused("evaluate image @/out --test @/png", 1,
                 {"flying: expected one of the known classes (lying, standing), found 'flying'"});
}

TEST_F(TrainingTasks, PhotosAreResized) {
  for (int i = 0; i < 12; ++i) {
    const auto shade = static_cast<uint8_t>(20 * i);
    scratch_.write(concat("photos/warm/", i, ".png"), data::encode_png(plain(10 + i, 16, 200, shade, 30)));
    scratch_.write(concat("photos/cold/", i, ".jpg"), data::encode_jpeg(plain(16, 10 + i, 30, shade, 200)));
  }
  const std::string train = "train image --train @/photos --max-steps 2 --warmup-steps 1 --out @/";
  expect_refused(train + "none", 1, {"photos/cold/1.jpg: expected 16 x 10 pixels", "found 16 x 11"});
  output(train + "out --resize 12 --hold-out 6 --quiet");
  const json config = json_file("out/config.json"), processor = json_file("out/preprocessor_config.json");
  EXPECT_EQ(config["num_channels"], 3);
  EXPECT_EQ(config["image_size"], 12);
  EXPECT_EQ(config["id2label"], (json{{"0", "cold"}, {"1", "warm"}}));
  EXPECT_EQ(processor["size"], (json{{"height", 12}, {"width", 12}}));

  scratch_.write("photos/warm/broken.png", "\x89PNG\r\n\x1A\n and nothing");
  expect_refused(train + "two --resize 12", 1, {"broken.png: expected a complete PNG file"});
  expect_parts(run(train + "three --resize 12 --skip-unreadable --quiet").err,
               {"1 of 25 image files cannot be read and were left out"});
}

TEST_F(TrainingTasks, PretrainingTrainsAVocabulary) {
  const std::string train =
      "train pretrain-bert --preset tiny --max-length 32 "
      "--set model.d_model=32 --max-steps 2 --quiet --out @/";
  EXPECT_FALSE(result(train + "own --train @/topics/train.txt --vocab-size 60").contains("validation"));
  EXPECT_LE(json_file("own/config.json")["vocab_size"], 60);
  EXPECT_EQ(count_lines_of(output("fill-mask @/own --top 1", "c0 [MASK]\n")), 1u);
  EXPECT_EQ(result("train --resume @/own --quiet")["steps"], 2);
  scratch_.write("flat.txt", "a0 a1\nb0 b1\n");
  output(train + "flat --train @/flat.txt --no-nsp --tokenizer @/topics/tokenizer");
  EXPECT_EQ(json_file("flat/config.json")["architectures"][0], "BertForMaskedLM");
}

// Pairs divided otherwise are other inputs.
TEST_F(TrainingTasks, PretrainingIsEvaluatedWithHalvesLikeTheRun) {
  const json trained = result(training("pretrain-bert", "out", "--halves --max-steps 4"));
  const auto loss = [&](const std::string& more) {
    return result(concat("evaluate pretrain-bert @/out --test @/topics/valid.txt", more))["masked_loss"]
        .get<double>();
  };
  EXPECT_NEAR(loss(" --halves"), trained["best"]["masked_loss"].get<double>(), 1e-5);
  EXPECT_GT(std::abs(loss("") - loss(" --halves")), 1e-6);
}

// The tokenizer of bytes, documents, the options of `evaluate lm`, and samples.
TEST_F(TrainingTasks, LanguageModels) {
  std::string train = training("lm", "out", "--max-steps 4 --validate-every 2 --samples 2");
  train.erase(train.find(" --quiet"), 8);
  const std::string shown = run(train).err;
  size_t lines = 0;
  for (size_t at = 0; (at = shown.find("\n  | ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 4u) << shown;
  const std::string evaluate = "evaluate lm @/out --test @/animals.txt";
  const json score = result(evaluate);
  EXPECT_EQ(score["context"], 24);
  EXPECT_EQ(score["unknown"], 0);
  EXPECT_EQ(result(evaluate + " --batch-tokens 30 --threads 1")["loss"], score["loss"]);
  expect_refused(evaluate + " --stride 25", 2, {"stride: expected 1 to 24 tokens, the context, found 25"});
  scratch_.write("new", "the Cat\n");
  expect_parts(run("evaluate lm @/out --test @/new").err,
               {"1 of 8 tokens stand for characters outside the vocabulary"});
  output(
      "train lm --train @/animals.txt --preset tiny --context 24 --vocab-size 280 --max-steps 2 --quiet"
      " --out @/bytes");
  EXPECT_NE(output("generate @/bytes --max-new-tokens 3", "the\n"), "");
}

// SIGKILL as soon as a checkpoint exists.
TEST_F(TrainingTasks, KilledAndResumedFromTheShellEndsInTheSameBits) {
  const std::string options = "--max-steps 200 --validate-every 25 --checkpoint-every 5";
  output(training("lm", "whole", options));
  std::string command = quoted(QKV_PROGRAM);
  for (const std::string& word : words(training("lm", "part", options + " --resume")))
    command += " " + quoted(word);
  for (const std::string step : {"000000005", "000000080"}) {
    const std::string script =
        concat(command, " >/dev/null 2>&1 & p=$!; while kill -0 $p 2>/dev/null && [ \"$(ls ",
               quoted(path("part/checkpoints")), " 2>/dev/null | tail -1)\" \\< step-", step,
               " ]; do sleep 0.002; done; kill -9 $p 2>/dev/null; wait $p");
    EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), 128 + 9) << "it ended before it was killed";
  }
  output("train --resume @/part --quiet");
  for (const char* file : {"model.safetensors", "tokenizer.json", "log.jsonl", "curve.svg"})
    EXPECT_EQ(content(concat("part/", file)), content(concat("whole/", file))) << file;
}

// A run without instructions for bf16 has a note and nearly the same loss.
TEST_F(TrainingTasks, MixedPrecisionRunsOnEveryProcessor) {
  const double wide = result(training("lm", "f32", "--max-steps 4"))["validation"]["loss"];
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    SCOPED_TRACE(kernels::name_of(set));
    std::string train =
        training("lm", concat("bf16-", kernels::name_of(set)), "--max-steps 4 --precision bf16 --json");
    train.erase(train.find(" --quiet"), 8);
    const Outcome outcome = run(train, {.environment = concat("QKV_ISA=", kernels::name_of(set))});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const double loss = json::parse(outcome.out)["validation"]["loss"];
    EXPECT_NEAR(loss, wide, 0.02 * wide);
    EXPECT_NE(loss, wide);
    // Every set up to AVX-512 lacks the instructions; later ones may have them.
    const bool noted = outcome.err.find("has no instructions for bf16 products") != std::string::npos;
    EXPECT_TRUE(noted || set > kernels::InstructionSet::avx512) << outcome.err;
    EXPECT_FALSE(noted && set == kernels::InstructionSet::amx) << outcome.err;
  }
}

}  // namespace
}  // namespace qkv::testing
