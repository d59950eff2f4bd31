// Output generated from the declarations: completion scripts and the manual page.

#include <set>
#include <sstream>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

namespace fs = std::filesystem;

Outcome run_shell(const std::string& shell, const std::string& script) {
  const Scratch scratch;
  const std::string file = scratch.write("script", script).string();
  const std::string out = (scratch / "out").string(), err = (scratch / "err").string();
  const int status =
      std::system(concat(shell, " ", quoted(file), " >", quoted(out), " 2>", quoted(err)).c_str());
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_file(out),
          .err = read_file(err)};
}

bool is_there(const std::string& program) {
  return std::system(concat("command -v ", program, " >/dev/null 2>&1").c_str()) == 0;
}

// The completions that bash offers for the last word.
std::set<std::string> bash_offers(const std::vector<std::string>& words, const std::string& folder = ".") {
  std::string line;
  for (const std::string& word : words) line += " " + quoted(word);
  const std::string script =
      concat("set -u\ncd ", quoted(folder), "\n", run_qkv({"completion", "bash"}).out, "\nCOMP_WORDS=(qkv",
             line, ")\nCOMP_CWORD=", words.size(), "\n_qkv\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  const Outcome outcome = run_shell("bash", script);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::set<std::string> offers;
  std::istringstream lines(outcome.out);
  for (std::string word; std::getline(lines, word);)
    if (!word.empty()) offers.insert(word);
  return offers;
}

using Words = std::set<std::string>;

const Words& dtypes() {
  static const Words words{"f32",  "bf16", "f16",  "int8", "q8_0", "q4_0",  "q4_1",
                           "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "iq4_nl"};
  return words;
}

TEST(Completion, BashOffersCommandsOptionsValuesAndFiles) {
  EXPECT_EQ(bash_offers({"tr"}), (Words{"train", "train-tokenizer", "transcribe", "translate"}));
  EXPECT_EQ(bash_offers({"train", "tr"}), (Words{"translation"}));
  EXPECT_TRUE(bash_offers({""}).contains("fill-mask"));
  EXPECT_EQ(bash_offers({"translate", "model", "--bea"}), (Words{"--beam"}));
  EXPECT_EQ(bash_offers({"train", "translation", "--sch"}), (Words{"--schedule"}));
  EXPECT_EQ(bash_offers({"train", "--sch"}), (Words{})) << "an option of another command";
  EXPECT_EQ(bash_offers({"translate", "--dtype", ""}), dtypes());
  EXPECT_EQ(bash_offers({"quantize", "--dtype", "b"}), (Words{"bf16"}));
  EXPECT_EQ(bash_offers({"translate", "--dtype", "=", "i"}), (Words{"int8", "iq4_nl"}))
      << "as bash cuts --dtype=i";
  EXPECT_EQ(bash_offers({"translate", "--dtype", "="}), dtypes());
  EXPECT_EQ(bash_offers({"completion", ""}), (Words{"bash", "zsh", "fish"}));
  EXPECT_EQ(bash_offers({"translate", "--beam", ""}), (Words{})) << "any number";

  const Scratch scratch;
  scratch.write("a file.txt", "");
  fs::create_directory(scratch / "a folder");
  const std::string folder = scratch.path().string();
  EXPECT_EQ(bash_offers({"translate", "--shortlist", "a"}, folder), (Words{"a file.txt", "a folder"}));
  EXPECT_EQ(bash_offers({"translate", "--ensemble", "a"}, folder), (Words{"a folder"}));
  EXPECT_EQ(bash_offers({"translate", "a"}, folder), (Words{"a file.txt", "a folder"}));
}

TEST(Completion, FishOffersTheSame) {
  if (!is_there("fish")) GTEST_SKIP() << "needs fish";
  const auto offers = [](const std::string& line) {
    const Outcome outcome = run_shell("fish --no-config", concat(run_qkv({"completion", "fish"}).out,
                                                                 "\ncomplete -C ", quoted(line), "\n"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    Words words;
    std::istringstream lines(outcome.out);
    for (std::string word; std::getline(lines, word);) words.insert(word.substr(0, word.find('\t')));
    return words;
  };
  EXPECT_EQ(offers("qkv tr"), (Words{"train", "train-tokenizer", "transcribe", "translate"}));
  EXPECT_EQ(offers("qkv train tr"), (Words{"translation"}));
  EXPECT_EQ(offers("qkv translate --bea"), (Words{"--beam"}));
  EXPECT_EQ(offers("qkv translate --dtype "), dtypes());
  EXPECT_EQ(offers("qkv quantize --dtype b"), (Words{"bf16"}));
}

TEST(Completion, ZshTakesTheScript) {
  if (!is_there("zsh")) GTEST_SKIP() << "needs zsh";
  const Outcome outcome = run_shell(
      "zsh -f", concat("autoload -Uz compinit && compinit -D -u\n", run_qkv({"completion", "zsh"}).out,
                       "\nprint -l ${(k)functions[(I)_qkv*]} | sort\nprint ${_comps[qkv]}\n"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("_qkv_fill_mask\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("_qkv_train_translation\n"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("_qkv\n")) << outcome.out;
}

class ManPage : public CommandTest {};

TEST_F(ManPage, OfACommandHasItsOptions) {
  const std::string page = output("man");
  EXPECT_TRUE(page.starts_with(".TH QKV 1 ")) << page.substr(0, 40);
  expect_parts(page, {"qkv \\- Train, run and look into Transformers\n", ".SS \"Run models\"",
                      "\\fBqkv\\-fill\\-mask\\fR(1)\n", ".SH EXIT STATUS"});
  EXPECT_EQ(page.find("\\-\\-beam"), std::string::npos) << "an option of a command";
  expect_parts(
      output("man translate"),
      {".TH QKV\\-TRANSLATE 1 ", "\n\\fImodel\\fR\n[\\fItext ...\\fR]\n", "\\fB\\-\\-beam\\fR \\fIN\\fR",
       "\\fB\\-\\-dtype\\fR \\fIf32|\\:bf16|\\:f16|\\:int8|\\:q8_0", "(default: 1024)"});
  expect_parts(output("man train"), {".SH COMMANDS", "\\fBqkv\\-train\\-lm\\fR(1)\n"});
  expect_parts(output("man train lm"), {".TH QKV\\-TRAIN\\-LM 1 ", "\\fB\\-\\-context\\fR"});
  expect_refused("man predict", 2, {"man: expected a command of qkv, found 'predict'"});
}

TEST_F(ManPage, OfEachCommandIsReadByGroffWithoutAWarning) {
  if (!is_there("groff")) GTEST_SKIP() << "needs groff";
  EXPECT_EQ(output("man --out @/man1"), "");
  const Outcome pages = run_shell(
      "sh",
      concat("cd ", quoted(path("man1")), " && for page in *; do groff -man -Tutf8 -ww -P-cbou $page; done"));
  EXPECT_EQ(pages.status, 0);
  EXPECT_EQ(pages.err, "");
  expect_parts(pages.out, {"EXIT STATUS", "'Once upon a time'", "--max-new-tokens"});  // copied as they are
  EXPECT_TRUE(fs::exists(path("man1/qkv-train-pretrain-bert.1")));
}

}  // namespace
}  // namespace qkv::testing
