// --input and --output of the commands that run models over lines.

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

class PartsCommand : public CommandTest {
 protected:
  PartsCommand() {
    for (int i = 0; i < 5; ++i) input_ += "a red dog\nthe man\n\nbad \xff line\n";
    scratch_.write("in", input_);
  }
  static std::string parts(const std::string& line) {
    return line + " --input @/in --output @/out --chunk-lines 3";
  }
  std::string input_;
};

TEST_F(PartsCommand, WriteWhatTheyPrint) {
  for (const std::string line :
       {"translate %marian --nbest 2 --sample --scores", "embed %bert_base --json", "score %llama --json",
        "classify %bert_texts", "generate %llama --max-new-tokens 3 --sample", "tag %bert_tokens",
        "fill-mask %bert_masked --top 2", "rerank %bert_texts --query dog"}) {
    SCOPED_TRACE(line);
    std::filesystem::remove_all(scratch_ / "out.parts");
    const Outcome printed = run(line, {.input = input_});
    const Outcome written = run(parts(line));
    EXPECT_EQ(written.status, printed.status) << written.err;
    EXPECT_EQ(written.err, printed.err);
    EXPECT_EQ(written.out, "");
    if (printed.out.empty()) continue;  // refused
    EXPECT_EQ(content("out"), printed.out);
  }
}

TEST_F(PartsCommand, GoOnAfterAFileThatCouldNotBeWritten) {
  const std::string line = "embed %bert_base --json", expected = run(line, {.input = input_}).out;
  // Files of at most 512 bytes: enough for the record, too few for a part.
  const Outcome full = run(parts(line), {.environment = "trap '' XFSZ; ulimit -f 1;"});
  expect_failure(full, 1, {"cannot write ", "/out.parts/part-000001: File too large"});
  EXPECT_EQ(files_in(scratch_ / "out.parts").size(), 1) << "no half part";
  EXPECT_EQ(run(parts(line)).status, 1);
  EXPECT_EQ(content("out"), expected);
}

TEST_F(PartsCommand, RefusePartsOfAnotherCommandLine) {
  const auto refused = [this](const std::string& line, const std::string& part) {
    expect_refused(parts(line), 2, {"/out.parts: expected the parts of this run", part});
  };
  run(parts("classify %bert_texts --top 2"));
  EXPECT_EQ(run(parts("classify %bert_texts --top 2 --threads 1")).err,
            concat("qkv: ", path("out"), ": is finished already\nqkv: 5 of 20 lines failed\n"));
  refused("classify %bert_texts --top 1", "--top: \"2\", here \"1\"");
  refused("classify %bert_texts --top 2 --json", "--json: none, here \"true\"");
  refused("embed %bert_texts", "command: \"qkv classify\", here \"qkv embed\"");
  std::filesystem::copy(recorded_model("bert_texts"), scratch_ / "model");
  EXPECT_EQ(run(parts("classify @/model --top 2")).status, 1) << "the same model in another place";
  scratch_.write("model/config.json", content("model/config.json") + "\n");
  refused("classify @/model --top 2", "model: ");
  scratch_.write("in", input_ + "\n");
  refused("classify %bert_texts --top 2", "input: ");
}

TEST_F(PartsCommand, RefuseOptionsThatDoNotGoTogether) {
  expect_refused("embed %bert_base --output @/out", 2, {"--output: expected --input beside it, found none"});
  expect_refused("embed %bert_base --input @/in", 2, {"--input: expected --output beside it, found none"});
  expect_refused("embed %bert_base text --input @/in --output @/out", 2, {"expected no", "beside it"});
  expect_refused("rerank %bert_texts --query a --top 2 --input @/in --output @/out", 2,
                 {"--top", "--output"});
  expect_refused("translate %marian --trace @/trace --input @/in --output @/out", 2, {"--trace", "--output"});
  expect_refused("embed %bert_base --input @/none --output @/out", 1,
                 {"cannot open ", "/none: No such file"});
  expect_refused("embed %bert_base --input @/in --output @/in", 2,
                 {"--output: expected another file than the input"});
  const Outcome outcome = run("embed %bert_base", {.input = "a\n", .environment = "OMPI_COMM_WORLD_SIZE=2"});
  expect_failure(outcome, 2, {"expected --input FILE and --output FILE for the 2 processes of the launcher"});
}

}  // namespace
}  // namespace qkv::testing
