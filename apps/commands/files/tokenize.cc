// qkv tokenize

#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/line_results.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/json.h"
#include "qkv/text/tokenizer.h"

namespace qkv::apps {
namespace {

struct TokenizeArguments {
  std::string tokenizer;
  std::vector<std::string> texts;
  bool json = false, ids = false, decode = false, pair = false, null = false;
  bool no_special_tokens = false, special_tokens = false;
  std::optional<int64_t> max_length;
};

class Tokenize {
 public:
  explicit Tokenize(const TokenizeArguments& arguments)
      : arguments_(arguments), tokenizer_(models::load_tokenizer(arguments.tokenizer)) {}

  void line(int64_t number, std::string_view line) const {
    try {
      arguments_.decode ? decode(line) : encode(line);
    } catch (const DataError& error) {
      throw DataError(concat("line ", number, ": ", error.what()));
    }
  }

 private:
  void encode(std::string_view line) const {
    text::EncodeOptions options;
    options.special_tokens = !arguments_.no_special_tokens;
    if (arguments_.max_length) options.truncation = {.max_length = *arguments_.max_length};
    const size_t tab = arguments_.pair ? line.find('\t') : line.npos;
    if (arguments_.pair && tab == line.npos)
      throw DataError("expected two texts separated by a tab, found no tab");
    print(tab == line.npos ? tokenizer_.encode(line, options)
                           : tokenizer_.encode(line.substr(0, tab), line.substr(tab + 1), options));
  }

  void print(const text::Encoding& encoding) const {
    if (arguments_.ids) {
      for (size_t i = 0; i < encoding.size(); ++i) std::cout << (i > 0 ? " " : "") << encoding.ids[i];
      std::cout << '\n';
      return;
    }
    if (!arguments_.json) {
      for (size_t i = 0; i < encoding.size(); ++i) {
        std::cout << (i > 0 ? " " : "") << tokenizer_.token(encoding.ids[i]).value_or("");
      }
      std::cout << '\n';
      return;
    }
    std::cout << pipelines::to_json(encoding, tokenizer_) << '\n';
  }

  void decode(std::string_view line) const {
    std::vector<int32_t> ids;
    const char* next = line.data();
    const char* const end = next + line.size();
    while (true) {
      while (next < end && *next == ' ') ++next;
      if (next == end) break;
      int32_t id = 0;
      const auto read = std::from_chars(next, end, id);
      if (read.ec != std::errc() || (read.ptr < end && *read.ptr != ' ')) {
        throw DataError(concat("expected ids separated by spaces, found '", line.substr(0, 40), "'"));
      }
      ids.push_back(id);
      next = read.ptr;
    }
    const std::string decoded = tokenizer_.decode(ids, {.skip_special_tokens = !arguments_.special_tokens});
    if (arguments_.json) {
      std::cout << nlohmann::json{{"text", decoded}}.dump(-1, ' ', false,
                                                          nlohmann::json::error_handler_t::replace)
                << '\n';
    } else {
      std::cout << decoded << (arguments_.null ? '\0' : '\n');
    }
  }

  const TokenizeArguments& arguments_;
  text::Tokenizer tokenizer_;
};

void tokenize(const TokenizeArguments& arguments) {
  const Tokenize tokenize(arguments);
  int64_t number = 0;
  const bool interactive = stdin_is_terminal();
  const auto each = [&](std::string_view line) {
    tokenize.line(++number, line);
    if (interactive || !std::cout) flush_stdout();
  };
  if (!arguments.texts.empty()) {
    for (const std::string& text : arguments.texts) each(text);
    return;
  }
  announce_stdin();
  std::ios::sync_with_stdio(false);
  std::cin.exceptions(std::ios_base::badbit);  // a read error is not an end of input
  const char end = arguments.null ? '\0' : '\n';
  try {
    for (std::string line; std::getline(std::cin, line, end);) {
      if (!arguments.null && line.ends_with('\r')) line.pop_back();
      each(line);
    }
  } catch (const std::ios_base::failure& error) {
    throw IoError(concat("cannot read stdin after line ", number, ": ", error.code().message()));
  }
}

}  // namespace

void add_tokenize(Command& app) {
  Command* command = add_command(
      app, "tokenize",
      "Tokenize text as Hugging Face's tokenizers do, line by line from stdin: prints pieces, with --ids\n"
      "ids, with --json both and the byte offsets. --decode converts ids to text. Reads tokenizer.json,\n"
      "BERT's vocab.txt, GPT-2's vocab.json and merges.txt, or a SentencePiece model, given as a hub folder\n"
      "or as a file, or the vocabulary of a GGUF file.",
      "echo 'Hello, world!' | qkv tokenize gpt2 --json");
  const auto arguments = std::make_shared<TokenizeArguments>();
  add_model_option(
      *command, "tokenizer", arguments->tokenizer,
      "Model folder, a GGUF file, a tokenizer file, or the name of a model that qkv pull downloaded",
      "DIR|FILE")
      ->required();
  add_option(*command, "--text", arguments->texts, "TEXT",
             "Text instead of stdin; may be given several times (default: each line of stdin)");
  Option* const ids = command->add_flag("--ids", arguments->ids, "Print ids, in the format of --decode");
  command->add_flag("--json", arguments->json, "Print one JSON object per line")->excludes(ids);
  Option* const decode =
      command->add_flag("--decode", arguments->decode, "Read ids separated by spaces, print text");
  decode->excludes(ids);
  command->add_flag("--pair", arguments->pair, "A line is a pair of texts separated by a tab")
      ->excludes(decode);
  add_option(*command, "--max-length", arguments->max_length, "TOKENS",
             "Maximum tokens, special tokens included; the rest is cut off (default: no limit)")
      ->excludes(decode);
  command
      ->add_flag("--no-special-tokens", arguments->no_special_tokens,
                 "Do not add special tokens around a text ([CLS], </s>)")
      ->excludes(decode);
  command->add_flag("--special-tokens", arguments->special_tokens, "With --decode: print special tokens too")
      ->needs(decode);
  command->add_flag("-0,--null", arguments->null, "Texts end with a NUL byte instead of a newline");
  command->callback([arguments] { tokenize(*arguments); });
}

}  // namespace qkv::apps
