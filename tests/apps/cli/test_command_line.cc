#include <sstream>

#include "qkv/kernels/instruction_set.h"
#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

// The names under headings other than "Positionals:", which are no options.
std::vector<std::string> commands_of_help(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool in_group = false;
  for (std::string line; std::getline(lines, line) && !line.starts_with("Example");) {
    if (!line.starts_with(' ')) in_group = line.ends_with(':') && line != "Positionals:";
    if (in_group && line.starts_with("  ") && line[2] != ' ' && line[2] != '-')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

class CommandLine : public CommandTest {
 protected:
  std::string help(const std::string& command) const { return output(command + " --help"); }
  // Every command, as its words after "qkv"; empty: the program.
  const std::vector<std::string>& all_commands() const {
    static const std::vector<std::string> kAll = [this] {
      std::vector<std::string> found = {""};
      for (size_t i = 0; i < found.size(); ++i) {
        for (const std::string& name : commands_of_help(help(found[i])))
          found.push_back(concat(found[i], found[i].empty() ? "" : " ", name));
      }
      return found;
    }();
    return kAll;
  }
};

using Inspect = CommandLine;

// An option in --help: its names and type, and its text.
struct HelpEntry {
  std::string words, text;
};

// The entries under Options, Positionals and other groups. The text begins at column 30, in the same line if
// the option is shorter.
std::vector<HelpEntry> option_entries(const std::string& help) {
  constexpr size_t kColumn = 30;
  std::vector<HelpEntry> entries;
  std::istringstream lines(help);
  bool in_group = false, arguments = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Example")) break;
    if (!line.starts_with(' ')) {
      in_group = line.ends_with(':');
      arguments = line == "Positionals:";
    } else if (in_group && line[2] != ' ' && line[2] != '-' && !arguments) {
      in_group = false;  // of commands
    } else if (in_group && line[2] != ' ') {
      const bool both = line.size() > kColumn && line[kColumn - 1] == ' ';
      std::string words = line.substr(2, both ? kColumn - 2 : line.npos);
      words.erase(words.find_last_not_of(' ') + 1);
      entries.push_back({words, both ? line.substr(kColumn) : ""});
    } else if (in_group && !entries.empty()) {
      entries.back().text += line.substr(line.find_first_not_of(' ')) + " ";
    }
  }
  return entries;
}

TEST_F(CommandLine, EveryCommandHasHelpWithAnExample) {
  EXPECT_GE(all_commands().size(), 20u);
  for (const std::string& command : all_commands()) {
    const Outcome shown = run(command + " --help");
    EXPECT_EQ(shown.status, 0) << command;
    EXPECT_EQ(shown.err, "") << command;
    expect_parts(shown.out, {"Usage: qkv", "Example:\n  "});
    EXPECT_EQ(shown.out.find("\n\n\nExample"), std::string::npos) << shown.out;
  }
}

// add_option() requires a type, and a default in the text if the variable has none.
TEST_F(CommandLine, EveryOptionHasATypeAndADefault) {
  size_t options = 0;
  for (const std::string& command : all_commands()) {
    for (const auto& [words, text] : option_entries(help(command))) {
      const std::string where = concat(command, ": ", words, ": ", text);
      const size_t space = words.find(' ');
      const std::string type = space == words.npos ? "" : words.substr(space + 1);
      for (const char* guessed : {"INT", "UINT", "FLOAT"})  // CLI11's own names, which no unit has
        EXPECT_FALSE(type.starts_with(guessed)) << where;
      EXPECT_GE(text.size(), 5u) << where;
      ++options;
      const bool flag = words.starts_with('-') &&
                        (type.empty() || type.starts_with("Needs:") || type.starts_with("Excludes:"));
      if (flag) continue;
      const bool shown = type.find('=') != type.npos || type.find("REQUIRED") != type.npos ||
                         text.find("(default: ") != text.npos;
      EXPECT_TRUE(shown) << "no default: " << where;
    }
  }
  EXPECT_GT(options, 200u);
}

// The words after "qkv" in the first column of the table of docs/commands.md.
std::vector<std::string> documented_commands() {
  std::vector<std::string> names;
  std::istringstream document(read_file(QKV_TEST_DATA "/../docs/commands.md"));
  for (std::string line; std::getline(document, line);) {
    const std::string begin = "| `qkv ";
    if (line.starts_with(begin))
      names.push_back(line.substr(begin.size(), line.find('`', begin.size()) - begin.size()));
  }
  return names;
}

TEST_F(CommandLine, DocumentsListTheCommandsOfTheHelp) {
  std::vector<std::string> expected;
  for (const std::string& name : commands_of_help(help(""))) {
    const std::vector<std::string> parts = commands_of_help(help(name));
    for (const std::string& part : parts) expected.push_back(concat(name, " ", part));
    if (parts.empty()) expected.push_back(name);
  }
  EXPECT_GE(expected.size(), 17u);
  EXPECT_EQ(documented_commands(), expected);
}

TEST_F(CommandLine, PrintsItsVersion) {
  const std::string version = output("--version");
  EXPECT_TRUE(version.starts_with("qkv 0.")) << version;
  EXPECT_EQ(output("version"), version);
}

TEST_F(CommandLine, HelpOfACommandIsThatOfItsOption) {
  for (const std::string command : {"", "translate", "train", "train lm", "help"})
    EXPECT_EQ(output("help " + command), help(command)) << command;
  expect_refused("help tranlate", 2, {"found 'tranlate'; did you mean 'translate'?"});
  expect_refused("help train translate", 2, {"found 'translate'; did you mean 'translation'?"});
}

TEST_F(CommandLine, HelpGroupsTheCommands) {
  const std::string all = output("help");
  size_t at = 0;
  for (const char* part :
       {"\nTrain and evaluate models:\n  demo ", "\nRun models:\n  translate ",
        "\nLook inside:\n  attention ", "\nConvert models and texts:\n  quantize ", "\nHelp:\n  help "}) {
    at = all.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << all;
  }
}

TEST_F(CommandLine, RefusesUnknownWords) {
  for (const std::string& command : all_commands())
    expect_refused(command + " --no-such-option", 2,
                   {concat("qkv: expected an option of qkv", command.empty() ? "" : " ", command,
                           ", found --no-such-option")});
  expect_refused("", 2, {"Usage: qkv", "translate"});
  expect_refused("predict", 2, {"expected a command of qkv, found 'predict'; 'qkv --help' lists them"});
  expect_refused("tranlate model", 2, {"found 'tranlate'; did you mean 'translate'?"});
  expect_refused("inspect --preset tiny --no-such-option", 2, {"--no-such-option"});
  expect_refused("train translation --srcs a --tgt b", 2, {"--srcs"});
  expect_refused("inspect --preset huge", 2, {"tiny, small, base, big", "huge"});
  expect_refused("inspect --preset tiny --set d_modell=3", 2,
                 {"d_model,", "found 'd_modell'; did you mean 'd_model'?"});
  expect_refused("inspect --preset tiny --set d_model=x", 2, {"d_model", "'x'"});
  expect_refused("inspect", 2, {"--preset", "--layer"});
  expect_refused("inspect --layer attention --heads 7", 2, {"7 heads"});
  expect_refused("inspect --layer attention --d-model 0", 2, {"qkv: --d-model: expected", "0"});
  expect_refused("demo --steps 0", 2, {"max_steps"});
}

TEST_F(CommandLine, UsesTheRequestedInstructionSetOrFails) {
  const std::string command = "inspect --preset tiny";
  expect_failure(run(command, {.environment = "QKV_ISA=avx3"}), 2,
                 {"qkv: QKV_ISA: expected an instruction set that this build and machine have (", "'avx3'"});
  const bool arm = kernels::instruction_sets().back() == kernels::InstructionSet::neon;
  expect_failure(run(command, {.environment = arm ? "QKV_ISA=avx2" : "QKV_ISA=neon"}), 2,
                 {"QKV_ISA: ", kernels::name_of(kernels::instruction_sets().front())});
  for (const kernels::InstructionSet set : kernels::instruction_sets()) {
    const std::string environment = concat("QKV_ISA=", kernels::name_of(set));
    EXPECT_EQ(run(command, {.environment = environment}).status, 0) << environment;
  }
}

TEST_F(CommandLine, SuggestsTheLikelyWord) {
  const auto expect = [&](const std::string& line, const std::string& message) {
    expect_refused(line, 2, {"qkv: " + message});
  };
  expect("tarnslate", "expected a command of qkv, found 'tarnslate'; did you mean 'translate'?");
  // A command's name among the arguments is not taken for the command.
  expect("translat demo", "expected a command of qkv, found 'translat'; did you mean 'translate'?");
  expect("--config translate tarnslate demo",
         "expected a command of qkv, found 'tarnslate'; did you mean 'translate'?");
  expect("evaluate tga classify", "expected a command of qkv evaluate, found 'tga'; did you mean 'tag'?");
  expect("train --max-steps 3 imge --out embed",
         "expected a command of qkv train, found 'imge'; did you mean 'image'?");
  // A flag has no value that could hide the option after it.
  expect("train --quiet --max-steps 3 imge",
         "expected a command of qkv train, found 'imge'; did you mean 'image'?");
  expect("--confg file demo", "expected an option of qkv, found --confg; did you mean '--config'?");
  expect("train translaton",
         "expected a command of qkv train, found 'translaton'; did you mean 'translation'?");
  expect("translate model --bem 4",
         "expected an option of qkv translate, found --bem; did you mean '--beam'?");
  expect("translate model --batch-token=4",
         "expected an option of qkv translate, found --batch-token; did you mean '--batch-tokens'?");
  expect("embed model --pool man",
         "--pool: expected one of mean, cls, max, last, weighted-mean, mean-sqrt-len, pooler, found 'man'; "
         "did you mean 'mean'?");
  expect("quantize model --dtype itn8 --out x",
         "--dtype: expected one of bf16, f16, int8, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, iq4_nl, "
         "int4, found 'itn8'; did you mean 'int8'?");
  expect("translate model --device accelerator",
         "--device: expected cpu, cuda, cuda:N with N below 8, auto or reference, found 'accelerator'\n");
  expect("inspect --preset bse",
         "--preset: expected one of tiny, small, base, big, found 'bse'; did you mean 'base'?");
  expect("train translation --src a --tgt b --out c --schedule cosin",
         "--schedule: expected one of paper, inverse_sqrt, cosine, linear, constant, found 'cosin'; did you "
         "mean "
         "'cosine'?");
  // Names of transformers, llama.cpp, CTranslate2, Marian and fairseq.
  for (const auto& [theirs, own] : {std::pair{"--num-beams", "'--beam'"},
                                    {"--beam_size", "'--beam'"},
                                    {"-b", "'--beam'"},
                                    {"--num_return_sequences", "'--nbest'"},
                                    {"--max-length", "'--max-new-tokens'"},
                                    {"--max_new_tokens", "'--max-new-tokens'"},
                                    {"--n-predict", "'--max-new-tokens'"},
                                    {"-n", "'--max-new-tokens'"},
                                    {"--max_decoding_length", "'--max-new-tokens'"},
                                    {"--top_p", "'--top-p'"},
                                    {"--temp", "'--temperature'"},
                                    {"--sampling_topk", "'--top-k'"},
                                    {"--do_sample", "'--sample'"},
                                    {"--lenpen", "'--length-penalty'"},
                                    {"-t", "'--threads'"},
                                    {"--model", "the argument 'model'"},
                                    {"--prompt", "the argument 'text'"},
                                    {"--input-file", "'< FILE'"},
                                    {"-o", "'> FILE'"}}) {
    expect(concat("translate model ", theirs, " 3"),
           concat("expected an option of qkv translate, found ", theirs, "; did you mean ", own, "?"));
  }
  for (const auto& [theirs, own] : {std::pair{"--num_train_epochs", "--max-epochs"},
                                    {"--max-update", "--max-steps"},
                                    {"--lr", "--learning-rate"},
                                    {"--warmup_ratio", "--warmup-steps"},
                                    {"--lr-scheduler", "--schedule"},
                                    {"--output_dir", "--out"},
                                    {"--gradient_accumulation_steps", "--accumulate"},
                                    {"--early-stopping", "--patience"}}) {
    expect(
        concat("train translation ", theirs, " 3"),
        concat("expected an option of qkv train translation, found ", theirs, "; did you mean '", own, "'?"));
  }
  expect("train translate",
         "expected a command of qkv train, found 'translate'; did you mean 'translation'?");
  expect("train ner", "expected a command of qkv train, found 'ner'; did you mean 'tag'?");
  expect("finetune lm", "expected a command of qkv, found 'finetune'; did you mean 'train'?");
  expect_refused("train lm --train @/none --out @/out --set num_hidden_layers=3", 2,
                 {"found \"num_hidden_layers\"; did you mean 'model.layers'?"});
  expect("completion basch", "shell: expected one of bash, zsh, fish, found 'basch'; did you mean 'bash'?");
}

TEST_F(CommandLine, NamesMissingExtraAndBadArguments) {
  const auto expect = [&](const std::string& line, const std::string& message, const std::string& command) {
    expect_refused(line, 2, {concat("qkv: ", message, "\nSee '", command, " --help'.\n")});
  };
  expect("translate", "expected the argument 'model' (DIR), found none", "qkv translate");
  expect("train-tokenizer --out a", "expected the argument FILE, found none", "qkv train-tokenizer");
  expect("translate ''", "model: expected DIR, found an empty text", "qkv translate");
  expect("bleu a b --config '' --json", "--config: expected FILE, found an empty text", "qkv bleu");
  for (const char* line : {"evaluate", "evaluate predict"}) {
    const Outcome outcome = run(line);
    expect_failure(outcome, 2, {"; 'qkv evaluate --help' lists them\n"});
    EXPECT_EQ(count_lines_of(outcome.err), 1u) << "a single hint: " << outcome.err;
  }
  expect("evaluate translation model --src a", "expected --ref FILE, found none", "qkv evaluate translation");
  expect("inspect model more", "expected no further argument, found 'more'", "qkv inspect");
  expect("translate model --beam", "--beam: expected N after it, found none", "qkv translate");
  expect("translate model --beam 2 --beam 3", "--beam: expected once, found 2 times", "qkv translate");
  expect("translate model --cache-bytes 99999999999999999999",
         "--cache-bytes: expected at most 9223372036854775807, found 99999999999999999999", "qkv translate");
  expect("translate model --max-new-tokens 99999999999",
         "--max-new-tokens: expected 1 to 1000000000, found 99999999999", "qkv translate");
  expect("translate model --top-k 2147483648", "--top-k: expected at most 2147483647, found 2147483648",
         "qkv translate");
  expect_refused("embed %bert_base a --dimensions 99999999999", 2,
                 {"--dimensions: expected 1 to ", "found 99999999999"});
  expect("translate %marian a --beam 1000000000", "--beam: expected 1 to 1024, found 1000000000",
         "qkv translate");
  expect("translate model --beam two", "--beam: expected a whole number, found 'two'", "qkv translate");
  expect("translate model --sample --seed -1", "--seed: expected 0 or more, found -1", "qkv translate");
  expect("demo --seed -1", "--seed: expected a whole number, 0 or more, found '-1'", "qkv demo");
  expect("translate model --length-penalty x", "--length-penalty: expected a number, found 'x'",
         "qkv translate");
  expect("tokenize model --ids --json", "--ids: expected no --json beside it, found both", "qkv tokenize");
  expect("fill-mask model --top 0", "--top: expected at least 1, found 0", "qkv fill-mask");
  expect("bleu a b --width 16", "--width: expected 0 to 15, found 16", "qkv bleu");
}

TEST_F(CommandLine, ChecksTheNumberOfThreads) {
  expect_refused("demo --threads 0", 2, {"threads", "found 0"});
  expect_refused("translate model --threads -3", 2, {"threads", "found -3"});
  expect_refused("translate model --threads two", 2, {"--threads", "two"});
}

TEST_F(CommandLine, ReportsAFullStdout) {
  const Outcome outcome = run("inspect --preset tiny", {.stdout_to = "/dev/full"});
  expect_failure(outcome, 1, {"stdout"});
}

TEST_F(Inspect, CountsAnAttentionLayer) {
  const std::string layer =
      "inspect --layer attention --d-model 512 --heads 8 --batch 32 --length 1024 --json";
  const std::string whole = output(layer), without = output(layer + " --no-output-projection");
  // 4 or 3 projections of 32 x 1024 x 512 x 512, and 2 products of 32 x 1024 x 1024 x 512.
  expect_parts(whole, {"\"macs\": 68719476736,"});
  expect_parts(without, {"\"macs\": 60129542144,"});
  for (const char* part : {"q_proj", "k_proj", "v_proj", "scores", "weighted_sum", "out_proj"})
    expect_parts(whole, {concat("\"name\": \"", part, "\"")});
  EXPECT_EQ(without.find("out_proj"), std::string::npos) << without;
}

TEST_F(Inspect, ShowsTheWidthsOfHeads) {
  const std::string shown = output("inspect --preset base");
  for (const char* name : {"  d_k", "  d_v"}) {
    const size_t at = shown.find(name);
    ASSERT_NE(at, std::string::npos) << shown;
    const std::string line = shown.substr(at, shown.find('\n', at) - at);
    EXPECT_TRUE(line.ends_with(" 64")) << line;
  }
}

TEST_F(Inspect, RefusesOptionsOfARunForModelsWithoutItsCost) {
  for (const char* model : {"bert_texts", "vit_images", "llama"}) {
    for (const char* option : {"--batch", "--src-len", "--tgt-len"}) {
      expect_refused(concat("inspect %", model, " ", option, " 2"), 2,
                     {concat("qkv: ", option, ": only for encoder-decoders")});
    }
  }
}

TEST_F(Inspect, ListsAPreset) {
  const std::string shown = output("inspect --preset base --vocab 37000 --set decoder_layers=2");
  expect_parts(shown, {"decoder_layers", "encoder.self_attention", "decoder.cross_attention", "total"});
  EXPECT_EQ(shown.find('\033'), std::string::npos) << "colour in a file";
}

}  // namespace
}  // namespace qkv::testing
