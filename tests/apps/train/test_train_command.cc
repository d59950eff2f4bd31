// qkv train, run as by a user: interruptions, resuming, options, messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "qkv/train/checkpoint.h"
#include "tests/apps/random_model.h"
#include "tests/apps/run.h"
#include "tests/support/devices.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

class TrainCommand : public ::testing::Test {
 protected:
  TrainCommand() { std::filesystem::create_directories(scratch_ / "corpus"); }

  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all = small_training(corpus_, path(out));
    all.insert(all.end(), {"--validate-every", "2", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json run(const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_qkv(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.out) : json();
  }
  json resume(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train", "--resume", path(out), "--quiet", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::string model(const std::string& out) const { return read_file(scratch_ / out / "model.safetensors"); }

  Scratch scratch_;
  data::CorpusFiles corpus_ = write_numbers(scratch_.path(), 99);
};

// The checkpoint stores every option exactly: floats, the model's and Adam's epsilon, the files.
TEST_F(TrainCommand, ResumesWithoutAnyOptionToTheSameBits) {
  const std::vector<std::string> options{
      "--dropout", "0.123456789",         "--set",        "adam.epsilon=3e-9",
      "--set",     "model.epsilon=1e-05", "--bleu-every", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return more;
  };
  run(training("whole", with({"--max-steps", "6"})));
  run(training("part", with({"--max-steps", "3"})));
  const json resumed = resume("part", {"--max-steps", "6"});
  EXPECT_EQ(resumed["steps"], 6);
  EXPECT_EQ(model("part"), model("whole"));
  EXPECT_EQ(read_file(scratch_ / "part/config.json"), read_file(scratch_ / "whole/config.json"));
  EXPECT_EQ(json::parse(read_file(scratch_ / "part/config.json"))["model_type"], "marian");
  // Repeating some options with the task's name has no effect.
  run(training("other", with({"--max-steps", "3"})));
  run({"train", "translation", "--resume", "--out", path("other"), "--max-steps", "6", "--quiet", "--json",
       "--dropout", "0.123456789"});
  EXPECT_EQ(model("other"), model("whole"));
}

// The sample is drawn from both files by the seed, on any number of threads.
TEST_F(TrainCommand, NamesTheSampleOfLinesThatTheVocabularyIsTrainedOn) {
  const auto vocabulary = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all{"--max-steps", "1", "--vocab-lines"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_qkv(training(out, all));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return std::pair(outcome.err, read_file(scratch_ / out / "source.spm"));
  };
  const auto [said, sampled] = vocabulary("sampled", {"120", "--threads", "1"});
  EXPECT_NE(said.find("vocabulary: trained on 120 of 200 lines, drawn at random"), std::string::npos) << said;
  EXPECT_EQ(vocabulary("again", {"120", "--threads", "2"}).second, sampled);
  EXPECT_NE(vocabulary("other", {"120", "--seed", "2"}).second, sampled);
  const auto [of_all, whole] = vocabulary("whole", {"0"});
  EXPECT_NE(of_all.find("vocabulary: trained on 200 lines\n"), std::string::npos) << of_all;
  EXPECT_NE(whole, sampled);
}

// Bookkeeping and the number of threads may change; the results do not.
TEST_F(TrainCommand, ResumesWithOtherBookkeepingToTheSameFiles) {
  run(training("whole", {"--max-steps", "6", "--threads", "2"}));
  run(training("part", {"--max-steps", "3", "--checkpoint-every", "1", "--threads", "2"}));
  resume("part", {"--max-steps", "6", "--checkpoint-every", "2", "--patience", "9", "--threads", "1"});
  for (const char* name : {"model.safetensors", "config.json", "log.jsonl", "curve.svg"})
    EXPECT_EQ(read_file(scratch_ / "part" / name), read_file(scratch_ / "whole" / name)) << name;
}

TEST_F(TrainCommand, ResumingNamesTheOptionThatContradicts) {
  run(training("out", {"--max-steps", "2"}));
  const auto refuse = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    std::vector<std::string> all{"train",     "translation", "--resume", "--out",
                                 path("out"), "--max-steps", "4"};
    all.insert(all.end(), more.begin(), more.end());
    expect_failure(run_qkv(all), 2, parts);
  };
  refuse({"--vocab-size", "50"}, {"--resume: --vocab-size: expected 60 as in the checkpoint, found 50"});
  refuse({"--vocab-kind", "bpe"}, {"--vocab-kind: expected unigram as in the checkpoint, found bpe"});
  refuse({"--skip-bad-utf8"}, {"--skip-bad-utf8: expected false as in the checkpoint, found true"});
  refuse({"--batch-tokens", "700"}, {"--batch-tokens: expected 600 as in the checkpoint, found 700"});
  refuse({"--set", "adam.epsilon=1e-8"}, {"adam.epsilon: expected 1e-09 as in the checkpoint, found 1e-08"});
  refuse({"--src", corpus_.target.string()}, {"data.fingerprint"});
  refuse({"--valid-src", corpus_.target.string()},
         {"valid.fingerprint: the validation data are not those of the checkpoint"});
}

// Targets under four tokens have BLEU 0: the loss then selects the best model.
TEST_F(TrainCommand, EqualBleuIsDecidedByTheLoss) {
  const json result =
      run(training("out", {"--max-steps", "8", "--learning-rate", "0.01", "--warmup-steps", "1"}));
  EXPECT_EQ(result["validation"]["bleu"], 0);
  EXPECT_EQ(result["best_step"], 8);
  EXPECT_EQ(result["best"]["by"], "bleu");
  EXPECT_EQ(result["best"]["loss"], result["validation"]["loss"]);
  EXPECT_GT(result["validation"]["perplexity"], 1);
  // Without BLEU, losses are compared with losses.
  const json resumed = resume("out", {"--max-steps", "16", "--bleu-every", "0"});
  EXPECT_EQ(resumed["best_step"], 16);
  EXPECT_FALSE(resumed["validation"].contains("bleu"));
  EXPECT_LT(resumed["best"]["loss"], result["best"]["loss"]);
}

// The plan of a run with a time limit is stored, and --repeat makes the same run of it.
TEST_F(TrainCommand, ARunWithATimeLimitIsRepeated) {
  const auto timed = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> all = small_training(corpus_, path(out));
    std::erase(all, "--quiet");
    all.insert(all.end(), {"--bleu-every", "0", "--schedule", "linear", "--json"});
    all.insert(all.end(), more.begin(), more.end());
    return run_qkv(all);
  };
  const Outcome first = timed("timed", {"--max-minutes", "0.03"});
  ASSERT_EQ(first.status, 0) << first.err;
  const json result = json::parse(first.out);
  const std::string planned = train::CheckpointFolder(scratch_ / "timed/checkpoints")
                                  .load_latest()
                                  .value()
                                  .fields.at("schedule.total_steps");
  EXPECT_NE(first.err.find("planned: " + planned + " step"), std::string::npos) << first.err;
  const json again = run({"train", "--repeat", path("timed"), "--out", path("again"), "--json", "--quiet"});
  EXPECT_EQ(again["steps"], result["steps"]);
  EXPECT_EQ(again["best"], result["best"]);
  EXPECT_EQ(model("again"), model("timed"));
  expect_failure(run_qkv({"train", "--repeat", path("timed")}), 2, {"--repeat DIR and --out DIR together"});
  expect_failure(run_qkv({"train", "--out", path("timed")}), 2, {"--repeat DIR and --out DIR together"});
  expect_failure(run_qkv({"train", "--repeat", path("timed"), "--out", path("timed")}), 2,
                 {"expected another folder as --out"});
  expect_failure(run_qkv({"train", "--repeat", path("timed"), "--resume", path("timed"), "--out", path("a")}),
                 2, {"--resume"});
  expect_failure(run_qkv({"train", "--repeat", path("none"), "--out", path("other")}), 2,
                 {"--repeat", "none: expected a training run, found no checkpoint"});
  // A task after these options is refused before it trains.
  for (const char* option : {"--resume", "--repeat", "--out"}) {
    std::vector<std::string> both = small_training(corpus_, path("unwanted"));
    both.insert(both.begin() + 1, {option, path("timed")});
    expect_failure(run_qkv(both), 2,
                   {concat("train ", option, " DIR: expected no task after it, found one")});
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "unwanted"));
  }
  expect_failure(timed("short", {"--max-minutes", "0.01", "--set", "schedule.warmup_steps=1000000"}), 2,
                 {"--warmup-steps: expected fewer than the run's ",
                  " steps, found 1000000; give fewer warm-up steps or more minutes"});
}

// A damaged checkpoint is passed over, and said once; the end is the same.
TEST_F(TrainCommand, ADamagedCheckpointIsSaidOnce) {
  run(training("whole", {"--max-steps", "6"}));
  run(training("part", {"--max-steps", "4"}));
  const auto newest = scratch_ / "part/checkpoints/step-000000004.safetensors";
  std::string bytes = read_file(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
  write_file_atomically(newest, bytes);
  const Outcome resumed = run_qkv({"train", "--resume", path("part"), "--max-steps", "6"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  const size_t said = resumed.err.find("skipping a checkpoint");
  ASSERT_NE(said, std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("step-000000004.safetensors: its contents do not match their checksum"),
            std::string::npos);
  EXPECT_EQ(resumed.err.find("skipping a checkpoint", said + 1), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming from step 2"), std::string::npos) << resumed.err;
  EXPECT_EQ(model("part"), model("whole"));
}

TEST_F(TrainCommand, VerifyResumeFindsOneFlippedBitOfAdamsMoments) {
  run(training("out", {"--max-steps", "6"}));
  const json same = run({"verify-resume", path("out"), "--json", "--quiet"});
  EXPECT_EQ(same["from"], 4);
  EXPECT_EQ(same["to"], 6);
  EXPECT_EQ(same["same"], true);
  EXPECT_GT(same["tensors"], 100);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "out"))
    EXPECT_EQ(entry.path().string().find("verify"), std::string::npos) << "left over";

  // One bit, with a valid checksum: only repeating the steps detects it.
  const train::CheckpointFolder checkpoints(scratch_ / "out/checkpoints");
  const train::Checkpoint newest = checkpoints.load_latest().value();
  std::vector<io::NamedTensor> tensors;
  std::string changed;
  for (const std::string& name : newest.file.names()) {
    tensors.push_back({name, newest.file.tensor(name).clone()});
    if (!changed.empty() || name.find(".second/") == std::string::npos) continue;
    changed = name;
    auto* bytes = reinterpret_cast<unsigned char*>(tensors.back().tensor.data());
    bytes[0] = static_cast<unsigned char>(bytes[0] ^ 1);
  }
  ASSERT_FALSE(changed.empty());
  checkpoints.save(newest.state, newest.fields, tensors, 2);
  const Outcome found = run_qkv({"verify-resume", path("out"), "--quiet"});
  expect_failure(found, 1, {"steps 5 to 6, repeated, differ in 1 of", "the first: " + changed});

  // With a single checkpoint the run is repeated from its beginning.
  run(training("short", {"--max-steps", "2"}));
  const json all = run({"verify-resume", path("short"), "--json", "--quiet"});
  EXPECT_EQ(all["from"], 0);
  EXPECT_EQ(all["same"], true);
  expect_failure(run_qkv({"verify-resume", path("nowhere")}), 2, {"nowhere", "expected the folder of a run"});
  expect_failure(run_qkv({"verify-resume", scratch_.path().string()}), 2, {"found no checkpoint"});
}

// One line for each logged step and each validation, equal after a resumption.
TEST_F(TrainCommand, WritesALogAndACurve) {
  run(training("whole", {"--max-steps", "6", "--set", "train.log_every=1"}));
  run(training("part", {"--max-steps", "3", "--set", "train.log_every=1"}));
  resume("part", {"--max-steps", "6"});
  const std::string log = read_file(scratch_ / "whole/log.jsonl");
  EXPECT_EQ(log, read_file(scratch_ / "part/log.jsonl"));
  EXPECT_EQ(read_file(scratch_ / "whole/curve.svg"), read_file(scratch_ / "part/curve.svg"));
  std::vector<std::string> kinds;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const json point = json::parse(line);
    kinds.push_back(concat(point["step"], point.contains("valid_loss") ? "v" : "t"));
    if (point.contains("valid_loss")) {
      EXPECT_TRUE(point["best"].is_boolean());
    } else {
      EXPECT_GT(point["train_loss"], 0);
      EXPECT_GT(point["learning_rate"], 0);
    }
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"1t", "2t", "2v", "3t", "4t", "4v", "5t", "6t", "6v"}));
  EXPECT_EQ(count_lines_of(read_file(scratch_ / "whole/speed.jsonl")), kinds.size());
  EXPECT_NE(read_file(scratch_ / "whole/curve.svg").find("<polyline"), std::string::npos);
}

TEST_F(TrainCommand, SaysThatPositionsAreTooFew) {
  const Outcome few =
      run_qkv(training("few", {"--max-steps", "1", "--bleu-every", "0", "--set", "model.max_positions=8"}));
  EXPECT_EQ(few.status, 0) << few.err;
  EXPECT_NE(few.err.find("model.max_positions = 8:"), std::string::npos) << few.err;
  EXPECT_NE(few.err.find("train.max_length = 7 leaves them out"), std::string::npos) << few.err;
  const Outcome left_out = run_qkv(training("less", {"--max-steps", "1", "--bleu-every", "0", "--set",
                                                     "model.max_positions=8", "--max-length", "7"}));
  EXPECT_EQ(left_out.err.find("max_positions"), std::string::npos) << left_out.err;
}

TEST_F(TrainCommand, TrainsOnTheReferenceDevice) {
  if (!kHasReference) GTEST_SKIP() << "needs the reference backend";
  const std::vector<std::string> few{"--max-steps",  "2",
                                     "--set",        "model.d_model=16",
                                     "--set",        "model.d_ff=16",
                                     "--set",        "train.batch_tokens=60",
                                     "--bleu-every", "0"};
  const auto on = [&](const std::string& device) {
    std::vector<std::string> more = few;
    more.insert(more.end(), {"--device", device});
    return run(training(device, more));
  };
  const json cpu = on("cpu"), reference = on("reference");
  EXPECT_NEAR(cpu["train_loss"].get<double>(), reference["train_loss"].get<double>(), 1e-3);
  EXPECT_NEAR(cpu["best"]["loss"].get<double>(), reference["best"]["loss"].get<double>(), 1e-3);
  EXPECT_EQ(resume("reference", {"--max-steps", "3"})["steps"], 3);
  std::vector<std::string> other = few;
  other.insert(other.end(), {"--device", "gpu"});
  expect_failure(run_qkv(training("none", other)), 2,
                 {"--device: expected cpu, cuda, cuda:N with N below 8, auto or reference, found 'gpu'"});
}

TEST_F(TrainCommand, SpeaksOfItsOwnOptions) {
  const auto failing = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    expect_failure(run_qkv(training("out", more)), 2, parts);
  };
  failing({"--set", "batch_tokens=0"}, {"--batch-tokens: expected 1 or more, found 0"});
  failing({"--accumulate", "two"}, {"--accumulate: expected a whole number, found 'two'"});
  failing({"--dropout", "1.5"}, {"--dropout", "1.5"});
  failing({"--learning-rate", "-1"}, {"--learning-rate: expected more than 0, found -1"});
  failing({"--set", "epsilon=1e-5"}, {"--set epsilon", "model.epsilon, adam.epsilon"});
  failing({"--set", "colour=red"}, {"model.d_model", "train.batch_tokens", "\"colour\"\n"});
  failing({"--set", "dmodel=32"}, {"\"dmodel\"; did you mean 'model.d_model'?"});
  failing({"--set", "train.btach_tokens=32"}, {"\"train.btach_tokens\"; did you mean 'train.batch_tokens'?"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out")) << "nothing was to be written";
  expect_failure(run_qkv({"train"}), 2, {"expected a task (translation", "--resume DIR or --repeat DIR"});
  expect_failure(run_qkv({"train", "translation", "--out", path("out")}), 2, {"--src: expected"});
  expect_failure(run_qkv({"train", "--resume", path("nowhere")}), 2, {"nowhere", "found no checkpoint"});
  run(training("out", {"--max-steps", "1", "--set", "d_ff=48"}));
  expect_failure(run_qkv(training("out", {"--max-steps", "1"})), 2,
                 {"--resume continues it, --overwrite starts"});
}

TEST_F(TrainCommand, NamesAVocabularyThatIsNone) {
  const std::string file = scratch_.write("broken.model", "no SentencePiece model").string();
  const auto expect = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = training("out", more);
    const auto size = std::ranges::find(all, "--vocab-size");  // of a vocabulary that is trained
    all.erase(size, size + 2);
    expect_failure(run_qkv(all), 1, {file, "expected a SentencePiece model"});
  };
  expect({"--max-steps", "1", "--vocab", file});
  run(training("good", {"--max-steps", "1", "--separate-vocab"}));
  const std::string good = (scratch_ / "good/source.spm").string();
  expect({"--max-steps", "1", "--separate-vocab", "--vocab", good, "--target-vocab", file});
}

// A model whose sources do not end in </s> says so in its folder, which is then qkv's own.
TEST_F(TrainCommand, TrainsWithoutAnEndOfSources) {
  run(training("bare", {"--max-steps", "2", "--set", "model.source_eos=false"}));
  const json config = json::parse(read_file(scratch_ / "bare/config.json"));
  EXPECT_EQ(config["model_type"], "qkv");
  EXPECT_EQ(config["qkv"]["source_eos"], "false");
  EXPECT_NE(model("bare"), (run(training("usual", {"--max-steps", "2"})), model("usual")));
  const Outcome proved = run_qkv({"self-test", path("bare")});
  EXPECT_EQ(proved.status, 0) << proved.out << proved.err;
}

TEST_F(TrainCommand, HelpSaysTypeDefaultAndWhatZeroMeans) {
  const std::string help = run_qkv({"train", "translation", "--help"}).out;
  for (const char* part :
       {"--batch-tokens TOKENS=4096", "--warmup-steps STEPS=1000", "--seed N=1",
        "--checkpoint-minutes MINUTES=10", "--label-smoothing SHARE=0.1", "0: after each epoch",
        "--preset tiny|small|base|big=small", "--vocab-size N=8000"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in:\n" << help;
}

}  // namespace
}  // namespace qkv::testing
