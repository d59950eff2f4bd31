// qkv train-tokenizer

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/stop.h"
#include "qkv/text/train_tokenizer.h"

namespace qkv::apps {
namespace {

using text::TokenizerKind;
using text::TokenizerProgress;
using text::TokenizerTraining;
using Clock = std::chrono::steady_clock;

struct TrainTokenizerArguments {
  TokenizerTraining training;
  std::vector<std::string> inputs;
  std::string out;
  std::optional<int64_t> vocab_size, min_frequency, limit_alphabet, vocab_lines;
  bool lowercase = false, cased = false, overwrite = false, json = false, quiet = false;
};

const Choices<TokenizerKind> kKinds{{"wordpiece", TokenizerKind::wordpiece},
                                    {"bpe", TokenizerKind::bpe},
                                    {"unigram", TokenizerKind::unigram},
                                    {"chars", TokenizerKind::chars}};

std::string name_of(TokenizerKind kind) {
  for (const auto& [name, known] : kKinds) {
    if (known == kind) return name;
  }
  return {};
}

// A line on the terminal, rewritten in place.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(stderr_is_terminal() && !quiet) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void operator()(const TokenizerProgress& progress) {
    last_ = progress;
    constexpr auto kBetweenLines = std::chrono::milliseconds(100);
    const Clock::time_point now = Clock::now();
    if (!shown_ || (written_ && now - last_time_ < kBetweenLines)) return;
    std::fputs(("\r\033[K" + line_of(progress)).c_str(), stderr);
    written_ = true;
    last_time_ = now;
  }

  void clear() {
    if (written_) std::fputs("\r\033[K", stderr);
    written_ = false;
  }

  const TokenizerProgress& last() const { return last_; }

 private:
  static std::string line_of(const TokenizerProgress& progress) {
    switch (progress.stage) {
      case TokenizerProgress::Stage::reading:
        return concat("reading: ", counted(progress.lines, "lines"), ", ",
                      counted(progress.distinct_words, "distinct words"));
      case TokenizerProgress::Stage::merging:
        return concat("merging: ", counted(progress.tokens, "tokens"));
      case TokenizerProgress::Stage::unigram:
        return "training the unigram model";
      case TokenizerProgress::Stage::done:
        break;
    }
    return concat("done: ", counted(progress.tokens, "tokens"));
  }

  bool shown_, written_ = false;
  Clock::time_point last_time_;
  TokenizerProgress last_;
};

// Refuses options that have no effect on the kind of tokenizer.
void complete(TrainTokenizerArguments& arguments) {
  TokenizerTraining& training = arguments.training;
  const bool wordpiece = training.kind == TokenizerKind::wordpiece;
  const auto only = [&](bool given, bool allowed, const char* option, const char* kinds) {
    if (given && !allowed) throw UsageError(concat(option, ": ", kinds));
  };
  only(arguments.vocab_size.has_value(), training.kind != TokenizerKind::chars, "--vocab-size",
       "not for --kind chars");
  only(arguments.min_frequency.has_value(), wordpiece || training.kind == TokenizerKind::bpe,
       "--min-frequency", "only for --kind wordpiece and bpe");
  only(arguments.limit_alphabet.has_value(), wordpiece, "--limit-alphabet", "only for --kind wordpiece");
  only(arguments.vocab_lines.has_value(), training.kind == TokenizerKind::unigram, "--vocab-lines",
       "only for --kind unigram");
  only(arguments.lowercase, wordpiece, "--lowercase", "only for --kind wordpiece");
  only(arguments.cased, wordpiece, "--cased", "only for --kind wordpiece");
  training.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  training.vocab_size = arguments.vocab_size.value_or(training.vocab_size);
  training.min_frequency = arguments.min_frequency.value_or(training.min_frequency);
  training.limit_alphabet = arguments.limit_alphabet.value_or(training.limit_alphabet);
  training.vocab_lines = arguments.vocab_lines.value_or(training.vocab_lines);
  training.lowercase = !arguments.cased;
}

// Refuses a folder with a tokenizer before any work.
void require_free(const TrainTokenizerArguments& arguments) {
  const std::filesystem::path folder = arguments.out;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    if (arguments.overwrite || !std::filesystem::exists(folder / name)) continue;
    throw UsageError(concat("--out ", arguments.out, ": expected a folder without a tokenizer, found ", name,
                            "; --overwrite replaces it"));
  }
}

nlohmann::ordered_json summary(const TrainTokenizerArguments& arguments, const TokenizerProgress& found,
                               double seconds) {
  const TokenizerKind kind = arguments.training.kind;
  nlohmann::ordered_json json = {
      {"folder", arguments.out}, {"kind", name_of(kind)}, {"vocab_size", found.tokens}};
  json["lines"] = found.lines;
  json["skipped_lines"] = found.skipped_lines;
  if (kind == TokenizerKind::unigram) json["used_lines"] = found.used_lines;
  if (kind == TokenizerKind::wordpiece || kind == TokenizerKind::bpe) {
    json["words"] = found.words;
    json["distinct_words"] = found.distinct_words;
    json["merges"] = found.merges;
  }
  if (kind == TokenizerKind::wordpiece || kind == TokenizerKind::chars) json["characters"] = found.characters;
  json["seconds"] = seconds;
  return json;
}

constexpr const char *kTokenizer = "tokenizer.json", *kSettings = "tokenizer_config.json";

// The larger file first: if the disk is full, an old tokenizer remains, and of a new one nothing.
void write_tokenizer(const std::filesystem::path& folder, const std::string& tokenizer,
                     const std::string& settings) {
  const bool is_new = !std::filesystem::exists(folder);
  make_writable_folder(folder);
  const bool replaces = std::filesystem::exists(folder / kTokenizer);
  try {
    write_file_atomically(folder / kTokenizer, tokenizer);
    write_file_atomically(folder / kSettings, settings);
  } catch (...) {
    std::error_code ignored;
    if (!replaces) std::filesystem::remove(folder / kTokenizer, ignored);
    if (is_new) std::filesystem::remove(folder, ignored);
    throw;
  }
}

void train_tokenizer(TrainTokenizerArguments& arguments) {
  complete(arguments);
  require_free(arguments);
  for (const std::string& input : arguments.inputs) {
    if (input == "-") announce_stdin();
  }
  const StopSignals stop;
  const Clock::time_point began = Clock::now();
  Progress progress(arguments.quiet);
  std::string tokenizer;
  try {
    tokenizer = text::train_tokenizer(arguments.training, stop.flag(), std::ref(progress));
  } catch (const Stopped&) {
    progress.clear();
    say("stopped; nothing was written");
    end_at_once(stop.exit_status());
  }
  progress.clear();
  write_tokenizer(arguments.out, tokenizer, text::trained_tokenizer_config(arguments.training));
  const TokenizerProgress& found = progress.last();
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (!arguments.quiet) {
    const int64_t most = arguments.training.vocab_lines;
    const bool sampled =
        arguments.training.kind == TokenizerKind::unigram && found.used_lines == most && most < found.lines;
    say(concat(arguments.out, ": ", counted(found.tokens, "tokens"), " in ", fixed(seconds, 1), " s",
               sampled ? concat(", from ", grouped(most), " of ", counted(found.lines, "lines"),
                                ", drawn at random (--vocab-lines)")
                       : ""));
    if (found.tokens < arguments.training.vocab_size && arguments.training.kind != TokenizerKind::chars) {
      say(concat("the text yields no more than ", counted(found.tokens, "tokens"), " of ",
                 grouped(arguments.training.vocab_size)));
    }
    if (found.skipped_lines > 0) say(counted(found.skipped_lines, "lines") + " of invalid UTF-8 skipped");
  }
  if (arguments.json) std::cout << summary(arguments, found, seconds).dump(2) << std::endl;
}

}  // namespace

void add_train_tokenizer(Command& app) {
  Command* command = add_command(
      app, "train-tokenizer",
      "Train a tokenizer on text files; write tokenizer.json and tokenizer_config.json, which PyPI's\n"
      "tokenizers and transformers open too. WordPiece (BERT's) and byte-level BPE (GPT-2's) have the\n"
      "vocabularies of PyPI's trainers, unigram SentencePiece's; chars has a token for each character.",
      "qkv train-tokenizer --kind bpe --vocab-size 16000 --out tokenizer books/*.txt");
  const auto arguments = std::make_shared<TrainTokenizerArguments>();
  const TokenizerTraining& defaults = arguments->training;
  add_option(*command, "FILE", arguments->inputs, "FILE",
             "Text files, which gzip may compress; - is stdin (not for unigram)")
      ->required();
  add_option(*command, "--out", arguments->out, "DIR", "Folder to write to")->required();
  add_choice(*command, "--kind", arguments->training.kind, kKinds, "Kind of tokenizer");
  add_option(*command, "--vocab-size", arguments->vocab_size, "TOKENS",
             concat("Vocabulary size, special tokens included; smaller if the text yields fewer\n(default: ",
                    defaults.vocab_size, "; chars: all characters)"));
  add_option(*command, "--min-frequency", arguments->min_frequency, "N",
             concat("wordpiece, bpe: least occurrences of a pair that is merged (default: ",
                    defaults.min_frequency, ")"));
  add_option(*command, "--limit-alphabet", arguments->limit_alphabet, "N",
             "wordpiece: characters that get tokens, the most frequent ones; 0: all (default: 0)");
  add_option(*command, "--vocab-lines", arguments->vocab_lines, "LINES",
             concat("unigram: lines to train on, a random sample of the text; 0: all (default: ",
                    defaults.vocab_lines, ")"));
  Option* const lowercase = command->add_flag("--lowercase", arguments->lowercase,
                                              "wordpiece: lower case without accents, the default");
  command->add_flag("--cased", arguments->cased, "wordpiece: keep case and accents")->excludes(lowercase);
  command->add_flag("--skip-bad-utf8", arguments->training.skip_bad_utf8,
                    "Skip lines that are not UTF-8 instead of ending with an error");
  command->add_flag("--overwrite", arguments->overwrite, "Replace a tokenizer in DIR");
  command->add_flag("--json", arguments->json, "Print a summary as one JSON object");
  command->add_flag("--quiet", arguments->quiet, "Print no progress and no messages but errors");
  add_threads_option(*command);
  command->callback([arguments] { train_tokenizer(*arguments); });
}

}  // namespace qkv::apps
