// The program's environment: closed pipes, full disks, removed folders.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "tests/faults/process.h"
#include "tests/faults/workload.h"
#include "tests/support/scratch.h"

namespace qkv::faults {
namespace {

namespace fs = std::filesystem;

class Process : public ::testing::Test {
 protected:
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
  }
  const Workload& workload(const std::string& name) const {
    return *std::ranges::find(workloads_, name, &Workload::name);
  }
  std::vector<std::string> command(const std::string& name, const fs::path& out) const {
    std::vector<std::string> result = workload(name).command;
    std::ranges::replace(result, std::string("OUT"), out.string());
    return result;
  }
  Outcome run(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) const {
    return run_process(arguments, scratch_.path(), options);
  }

  testing::Scratch scratch_;
  std::vector<Workload> workloads_ = make_workloads(QKV_PROGRAM, scratch_.path());
};

TEST_F(Process, AFullDeviceBehindStdoutIsAnError) {
  const Workload& translate = workload("translate");
  for (const std::vector<std::string>& arguments :
       {translate.command,
        {QKV_PROGRAM, "--help"},
        {QKV_PROGRAM, "inspect", (scratch_ / "model").string()},
        {QKV_PROGRAM, "tokenize", (scratch_ / "model").string()}}) {
    const Outcome outcome = run(arguments, {.input = translate.input, .stdout_to = "/dev/full"});
    EXPECT_EQ(outcome.status, 1) << arguments[1];
    expect_in("cannot write to stdout: ", outcome.err);
    if (arguments[1] == "translate") expect_in("No space left on device", outcome.err);
  }
}

TEST_F(Process, AClosedStdoutIsNamed) {
  const std::string line = std::string("exec ") + QKV_PROGRAM + " inspect " + (scratch_ / "model").string();
  const Outcome outcome = run({"/bin/sh", "-c", line + " >&-"});
  EXPECT_EQ(outcome.status, 1);
  expect_in("cannot write to stdout: it is closed", outcome.err);
}

// The run's files must not get the numbers of closed streams, and their output.
TEST_F(Process, ATrainingWithClosedStreamsWritesTheSameFiles) {
  std::string line = "exec";
  for (const std::string& argument : command("train-tiny", scratch_ / "closed")) {
    if (argument != "--quiet") line += " " + argument;
  }
  EXPECT_EQ(run({"/bin/sh", "-c", line + " <&- >&- 2>&-"}).status, 0);
  EXPECT_EQ(run(command("train-tiny", scratch_ / "open")).status, 0);
  EXPECT_EQ(results_of(scratch_ / "closed"), results_of(scratch_ / "open"));
}

// Each of the trainer's threads would reserve a heap of 64 MiB, and map each block by itself where it gets
// none.
TEST_F(Process, AVocabularyIsTrainedInLittleAddressSpace) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    for (int k = 0; k < 8; ++k) text += "word" + std::to_string(i * i * (k + 7) % 5003) + " ";
    text += "\n";
  }
  const std::vector<std::string> train{QKV_PROGRAM,
                                       "train-tokenizer",
                                       scratch_.write("text", text).string(),
                                       "--kind",
                                       "unigram",
                                       "--vocab-size",
                                       "500",
                                       "--overwrite",
                                       "--out",
                                       (scratch_ / "tokenizer").string()};
  const Outcome enough = run(train, {.address_space = 200'000'000});
  EXPECT_EQ(enough.status, 0) << enough.err;
  const Outcome little = run(train, {.address_space = 110'000'000});
  EXPECT_EQ(little.status, 1) << little.err;
  expect_in("out of memory", little.err);
}

// As `qkv translate ... | head -1`: ends by SIGPIPE, without a message.
TEST_F(Process, AClosedPipeEndsItQuietly) {
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "the cat sees " + std::to_string(i) + " times\n";
  const std::string input = scratch_.write("lines", lines).string();
  const std::string err = (scratch_ / "err").string();
  const std::string line = std::string("bash -c 'set -o pipefail; ") + QKV_PROGRAM + " translate " +
                           (scratch_ / "model").string() + " --chunk-lines 1 <" + input + " 2>" + err +
                           " | head -1 >/dev/null'";
  const int status = std::system(line.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGPIPE);
  EXPECT_EQ(read_whole(err), "");
}

TEST_F(Process, AReportGoesToADeviceWithoutReplacingIt) {
  std::vector<std::string> arguments{QKV_PROGRAM,    "evaluate",
                                     "translation",  (scratch_ / "model").string(),
                                     "--src",        (scratch_ / "source").string(),
                                     "--ref",        (scratch_ / "target").string(),
                                     "--save-output"};
  arguments.push_back((scratch_ / "translations").string());
  const std::string scores = run(arguments).out, translations = read_whole(scratch_ / "translations");
  EXPECT_EQ(std::ranges::count(translations, '\n'), 40);
  arguments.back() = "/dev/stdout";
  const Outcome shown = run(arguments);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out, translations + scores);
  arguments.back() = "/dev/full";
  const Outcome full = run(arguments);
  EXPECT_EQ(full.status, 1);
  expect_in("cannot write /dev/full: No space left on device", full.err);
  arguments.back() = "/dev/null";
  EXPECT_EQ(run(arguments).status, 0);
  for (const char* device : {"/dev/null", "/dev/full"}) EXPECT_TRUE(fs::is_character_file(device)) << device;
  EXPECT_TRUE(fs::is_symlink("/dev/stdout"));
}

// The folder of an active run is moved away at some moment: the run stops at the next file it writes, and
// names it.
TEST_F(Process, ATrainingWhoseFolderVanishesFails) {
  const fs::path out = scratch_ / "vanishing";
  std::vector<std::string> arguments = command("train", out);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--max-steps") arguments[i + 1] = "1000000";
    if (arguments[i] == "--checkpoint-every") arguments[i + 1] = "400";
    if (arguments[i] == "--validate-every") arguments[i + 1] = "1000000";
  }
  const pid_t remover = ::fork();
  ASSERT_GE(remover, 0);
  if (remover == 0) {
    while (!fs::exists(out / "checkpoints/step-000000400.safetensors")) ::usleep(1000);
    fs::rename(out, scratch_ / "elsewhere");
    ::_exit(0);
  }
  const Outcome outcome = run(arguments);
  int status = 0;
  ::waitpid(remover, &status, 0);
  EXPECT_EQ(outcome.status, 1);
  expect_in(out.string(), outcome.err);
  EXPECT_FALSE(fs::exists(out / "checkpoints"))
      << "the run was continued in a new folder, without the tokenizer";
  EXPECT_TRUE(fs::exists(scratch_ / "elsewhere/checkpoints/step-000000400.safetensors"));
}

}  // namespace
}  // namespace qkv::faults
