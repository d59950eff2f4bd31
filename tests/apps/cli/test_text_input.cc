// Text input of commands: stdin, pipes, gzip files.

#include "tests/apps/random_model.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

// Runs a bash command line with pipes; QKV is the program.
Outcome run_bash(const std::string& line, const Scratch& scratch) {
  const std::string out = (scratch / "bash.out").string(), err = (scratch / "bash.err").string();
  const std::string command = concat("QKV=", quoted(QKV_PROGRAM), " bash -c ",
                                     quoted(concat("cd ", quoted(scratch.path().string()), " && ", line)),
                                     " >", quoted(out), " 2>", quoted(err), " </dev/null");
  const int status = std::system(command.c_str());
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_file(out),
          .err = read_file(err)};
}

class TextInput : public ::testing::Test {
 protected:
  TextInput() {
    scratch_.write("hyp", "The cat sat on the mat.\nA dog barks at night.\n");
    scratch_.write("ref", "The cat is sitting on the mat.\nA dog barks at the moon.\n");
    EXPECT_EQ(run_bash("gzip -k hyp ref", scratch_).status, 0);
    expected_ = run_bash("$QKV bleu hyp ref", scratch_);
    EXPECT_EQ(expected_.status, 0) << expected_.err;
    EXPECT_NE(expected_.out.find("BLEU"), std::string::npos);
  }

  Scratch scratch_;
  Outcome expected_;
};

TEST_F(TextInput, MayBeCompressed) {
  for (const char* line :
       {"$QKV bleu hyp.gz ref.gz", "cp hyp.gz h && $QKV bleu h ref", "$QKV bleu - ref < hyp.gz",
        "(gzip -c < <(head -1 hyp); gzip -c < <(tail -1 hyp)) > two && $QKV bleu two ref"}) {
    const Outcome outcome = run_bash(line, scratch_);
    EXPECT_EQ(outcome.out, expected_.out) << line << outcome.err;
  }
}

TEST_F(TextInput, MayBeAPipe) {
  for (const char* line :
       {"cat hyp | $QKV bleu - ref", "$QKV bleu <(cat hyp) <(zcat ref.gz)", "$QKV bleu hyp - < ref"}) {
    const Outcome outcome = run_bash(line, scratch_);
    EXPECT_EQ(outcome.out, expected_.out) << line << outcome.err;
  }
}

TEST_F(TextInput, ThatIsDamagedIsNamed) {
  expect_failure(run_bash("head -c 30 hyp.gz > cut.gz; $QKV bleu cut.gz ref", scratch_), 1,
                 {"qkv: cut.gz: expected the end of the compressed data, found a truncated file"});
  expect_failure(
      run_bash("(head -c 20 hyp.gz; echo xxxxxxxxxx; tail -c 20 hyp.gz) > bad.gz; $QKV bleu bad.gz ref",
               scratch_),
      1, {"qkv: bad.gz: expected gzip data, found damaged data"});
  expect_failure(run_bash("$QKV bleu - ref < <(printf 'a\\xff\\nb\\n')", scratch_), 1,
                 {"qkv: stdin, line 1, byte 2: expected UTF-8"});
  expect_failure(run_bash("$QKV bleu . ref", scratch_), 1, {"qkv: cannot read .: it is a folder"});
}

TEST_F(TextInput, EvaluateReadsStdinAndCompressedReferences) {
  write_random_model(scratch_ / "model", scratch_.path());
  scratch_.write("src", "two\nforty-two\n");
  scratch_.write("de", "zwei\nzweiundvierzig\n");
  ASSERT_EQ(run_bash("gzip -k src de", scratch_).status, 0);
  const Outcome plain = run_bash("$QKV evaluate translation model --src src --ref de", scratch_);
  ASSERT_EQ(plain.status, 0) << plain.err;
  const Outcome other =
      run_bash("cat src.gz | $QKV evaluate translation model --src - --ref de.gz", scratch_);
  EXPECT_EQ(other.out, plain.out) << other.err;
}

TEST_F(TextInput, TrainingReadsCompressedFilesToTheSameBits) {
  const data::CorpusFiles files = write_numbers(scratch_.path(), 99);
  ASSERT_EQ(run_bash("gzip -k numbers.en numbers.de", scratch_).status, 0);
  const auto train = [&](const std::string& ending, const std::string& folder) {
    return run_bash(concat("$QKV train translation --src numbers.en", ending, " --tgt numbers.de", ending,
                           " --out ", folder,
                           " --preset tiny --set model.d_model=32 --set model.d_ff=64 --vocab-size 60"
                           " --batch-tokens 300 --max-steps 3 --quiet"),
                    scratch_);
  };
  ASSERT_EQ(train("", "plain").status, 0);
  const Outcome compressed = train(".gz", "compressed");
  ASSERT_EQ(compressed.status, 0) << compressed.err;
  EXPECT_EQ(read_file(scratch_ / "compressed" / "model.safetensors"),
            read_file(scratch_ / "plain" / "model.safetensors"));
  // The fingerprint is of the decompressed text: the same corpus.
  const Outcome resumed = run_bash(
      "$QKV train translation --resume --out compressed --src numbers.en --tgt numbers.de --max-steps 4 "
      "--quiet",
      scratch_);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
}

TEST_F(TextInput, TrainingRefusesWhatCanBeReadOnce) {
  const Outcome pipe = run_bash("$QKV train translation --src <(cat hyp) --tgt ref --out run", scratch_);
  expect_failure(pipe, 2,
                 {"qkv: --src /dev/fd/",
                  ": expected a file, as it is read several times, found a pipe; write the text to a file"});
  expect_failure(run_bash("$QKV train translation --src hyp --tgt - --out run", scratch_), 2,
                 {"qkv: --tgt -: expected a file", "found stdin"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
}

// script (util-linux) creates a terminal and types its stdin.
TEST_F(TextInput, ATerminalIsAnnounced) {
  if (std::system("command -v script >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs script";
  const Outcome terminal =
      run_bash("printf 'one\\n\\004' | script -qec \"$QKV bleu - ref 2>&1\" /dev/null", scratch_);
  EXPECT_NE(terminal.out.find("qkv: reading from the terminal, Ctrl-D ends"), std::string::npos)
      << terminal.out;
  EXPECT_EQ(run_bash("cat hyp | $QKV bleu - ref", scratch_).err, "") << "no terminal, no announcement";
}

}  // namespace
}  // namespace qkv::testing
