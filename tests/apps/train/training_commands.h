#pragma once
// Data and command lines of short runs of every training task.

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"
#include "tests/support/image_files.h"
#include "tests/train/bert_run.h"
#include "tests/train/embed_run.h"
#include "tests/train/label_run.h"

namespace qkv::testing {

// Options of `qkv train TASK`, without a limit.
inline const std::map<std::string, std::string>& training_options() {
  static const std::string
      kBert = QKV_TEST_DATA "/models/golden/bert_base",
      kEncoder =
          "--preset tiny --set model.d_model=32 --set model.d_ff=64"
          " --set model.max_positions=20 --warmup-steps 1 --batch-tokens 120 --tokenizer " +
          kBert;
  static const std::map<std::string, std::string> kOptions{
      {"translation",
       "--src @/numbers.en --tgt @/numbers.de --valid-src @/numbers.en --valid-tgt @/numbers.de --preset tiny"
       " --set model.d_model=32 --set model.d_ff=64 --vocab-size 60 --batch-tokens 600 --warmup-steps 1"
       " --bleu-every 0"},
      {"lm",
       "--train @/animals.txt --tokenizer chars --preset tiny --set model.layers=1 --set model.d_model=32"
       " --set model.heads=2 --set model.d_ff=64 --context 24 --batch-tokens 300 --warmup-steps 1"},
      {"pretrain-bert",
       "--train @/topics/train.txt --valid @/topics/valid.txt --tokenizer @/topics/tokenizer --preset tiny"
       " --set model.d_model=32 --set model.d_ff=64 --max-length 32 --batch-tokens 512 --warmup-steps 1"},
      {"classify", "--train @/colours.tsv --valid @/colours.tsv " + kEncoder},
      {"tag", "--train @/tags.tsv --valid @/tags.tsv " + kEncoder},
      {"answer", "--train @/questions.jsonl --valid @/questions.jsonl " + kEncoder},
      {"embed", "--train @/pairs.tsv --valid @/pairs.tsv --batch-pairs 16 --warmup-steps 1 --from " + kBert},
      {"image",
       "--train @/train-images --labels @/train-labels --valid @/valid-images --valid-labels @/valid-labels"
       " --set model.layers=1 --set model.d_model=16 --set model.heads=2 --set model.d_ff=32"
       " --batch-images 16 --crop-padding 1 --warmup-steps 1"},
  };
  return kOptions;
}

class TrainingTest : public CommandTest {
 protected:
  TrainingTest() {
    write_numbers(scratch_.path(), 99);
    std::string animals;
    for (int i = 0; i < 80; ++i) animals += i % 2 == 0 ? "the cat sat on the mat.\n\n" : "the dog\ndug.\n\n";
    scratch_.write("animals.txt", animals);
    train::testing_task::write_topics(scratch_ / "topics");
    scratch_.write("colours.tsv", colour_texts(60));
    scratch_.write("tags.tsv", tagged_words(30));
    scratch_.write("questions.jsonl", coloured_questions(40));
    scratch_.write("pairs.tsv", train::testing_task::scored_pairs());
    write_bars(scratch_, "train", 96, 8);
    write_bars(scratch_, "valid", 30, 8);
  }
  // `qkv train TASK` into the folder `out`.
  static std::string training(const std::string& task, const std::string& out, const std::string& more) {
    return concat("train ", task, " ", training_options().at(task), " --out @/", out, " --quiet ", more);
  }
  // `qkv merge` finds the base of @/adapter by its configuration, or refuses a name that is no folder.
  void expect_merge_finds_the_base() {
    output("merge --adapter @/adapter --out @/by-name");
    EXPECT_EQ(weights("by-name"), weights("merged"));
    std::string config = content("adapter/adapter_config.json");
    config.replace(config.find(path("base")), path("base").size(), "someone/base");
    scratch_.write("adapter/adapter_config.json", config);
    expect_refused(
        "merge --adapter @/adapter --out @/none", 1,
        {"base_model_name_or_path: expected the folder of the base model, found \"someone/base\""});
  }
  std::string weights(const std::string& out) const {
    const bool adapter = std::filesystem::exists(scratch_ / out / "adapter_model.safetensors");
    return content(out + (adapter ? "/adapter_model.safetensors" : "/model.safetensors"));
  }
};

}  // namespace qkv::testing
