// qkv chat

#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "apps/chat/interrupt.h"
#include "apps/chat/line_editor.h"
#include "apps/chat/session.h"
#include "apps/cli/field_options.h"
#include "apps/cli/messages.h"
#include "apps/decode_options.h"
#include "apps/engine_options.h"
#include "apps/line_results.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/counted.h"
#include "qkv/base/files.h"
#include "qkv/pipelines/search_defaults.h"

namespace qkv::apps {
namespace {

struct ChatArguments {
  std::string model;
  models::LoadOptions load;
  std::string system;
  std::vector<std::string> variables;
  bool sample = false, greedy = false;
  GivenFields search, sampling;
  DType cache_dtype = DType::f32;
  std::string json_schema;
  std::vector<std::string> images;
};

// JSON, or else text.
JsonValue value_of(const std::string& text, const std::string& name) {
  try {
    return parse_json(text, name);
  } catch (const DataError&) {
    return parse_json(quoted_json(text), name);
  }
}

// NAME=VALUE.
void set_variable(pipelines::ChatTemplateOptions& options, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0)
    throw UsageError(concat("--set: expected NAME=VALUE, found '", text, "'"));
  const std::string name = text.substr(0, equals);
  try {
    options.set(name, value_of(text.substr(equals + 1), concat("--set ", name)));
  } catch (const DataError& error) {
    throw UsageError(error.what());
  }
}

ChatSessionOptions options_of(const pipelines::TextGenerator& generator, const ChatArguments& arguments) {
  ChatSessionOptions options{.generate = pipelines::chat_options(generator),
                             .step_model = {.cache_dtype = arguments.cache_dtype}};
  search::SearchOptions& search = options.generate.search;
  if (arguments.sample || arguments.sampling.any()) {
    if (!search.sampling) search.sampling = pipelines::sampling_defaults(generator.model().generation);
  }
  if (arguments.greedy) search.sampling.reset();
  search.beam = 1;
  if (search.sampling) {
    search.sampling->seed = std::random_device{}();
    arguments.sampling.apply(*search.sampling);
  }
  arguments.search.apply(search);
  if (arguments.search.has("max_new_tokens")) options.generate.max_length = 0;
  if (arguments.search.has("min_new_tokens")) options.generate.min_length = 0;
  search.min_new_tokens = std::min(search.min_new_tokens, search.max_new_tokens);
  search.validate();
  options.generate.json_schema = json_schema_of(arguments.json_schema, generator.model());
  for (const std::string& text : arguments.variables) set_variable(options.prompt, text);
  return options;
}

constexpr const char* kHelp =
    "/reset        begin another conversation, with the same system message\n"
    "/retry        answer the last message again\n"
    "/image FILE   add a PNG or JPEG file to the next message\n"
    "/system TEXT  set the system message; without TEXT: remove it\n"
    "/save FILE    write the messages as JSON\n"
    "/help         this list\n"
    "/exit         end, as does Ctrl-D\n"
    "A message that begins with / begins with //. A backslash at the end of a line continues the message on\n"
    "the next line. Ctrl-C ends an answer.\n";

// Reads messages and commands, and prints answers on stdout; all else goes to stderr.
class Terminal {
 public:
  explicit Terminal(ChatSession& session) : session_(session) {
    if (editor_.interactive()) interrupt_.emplace();
  }

  bool interactive() const { return editor_.interactive(); }

  // Returns whether every message was answered.
  bool run() {
    for (;;) {
      LineEditor::Line line = editor_.read("> ");
      switch (line.kind) {
        case LineEditor::Kind::end:
          if (interactive()) std::cerr << '\n';
          return answered_;
        case LineEditor::Kind::interrupted:
          std::cerr << '\n';
          if (line.text.empty()) say("Ctrl-D or /exit ends");
          continue;
        case LineEditor::Kind::text:
          break;
      }
      try {
        if (!take(std::move(line.text))) return answered_;
      } catch (const IoError&) {
        throw;
      } catch (const Error& error) {
        say(error.what());
        answered_ = false;
      }
    }
  }

 private:
  // False: the conversation ends.
  bool take(std::string text) {
    const size_t first = text.find_first_not_of(" \t\n");
    if (first == text.npos) return true;
    if (text.starts_with("//")) {
      text.erase(0, 1);
    } else if (text.starts_with('/')) {
      return command(text);
    }
    show([&](const auto& on_text, const auto& stop) { return session_.ask(text, on_text, stop); });
    return true;
  }

  bool command(const std::string& text) {
    const size_t space = std::min(text.find_first_of(" \n"), text.size());
    const std::string name = text.substr(0, space);
    std::string value = text.substr(std::min(text.find_first_not_of(" \n", space), text.size()));
    value.resize(value.find_last_not_of(" \n") + 1);
    if (name == "/exit") return false;
    if (name == "/help") {
      std::cerr << kHelp;
    } else if (name == "/reset") {
      session_.reset();
    } else if (name == "/system") {
      session_.set_system("/system", value);
    } else if (name == "/image") {
      add_image(value);
    } else if (name == "/retry") {
      show([&](const auto& on_text, const auto& stop) { return session_.retry(on_text, stop); });
    } else if (name == "/save") {
      save(value);
    } else {
      throw UsageError(
          concat(expected_one_of({"/reset", "/retry", "/image", "/system", "/save", "/help", "/exit"}, name),
                 "; // begins a message with /"));
    }
    return true;
  }

  void add_image(const std::string& file) {
    if (file.empty()) throw UsageError("/image: expected the name of a file, found none");
    try {
      session_.add_image(file);
    } catch (const IoError& error) {
      throw UsageError(error.what());  // the conversation goes on
    }
    say(concat(file, " goes with the next message"));
  }

  void save(const std::string& file) {
    if (file.empty()) throw UsageError("/save: expected the name of a file, found none");
    try {
      write_file_atomically(file, pipelines::to_json(session_.messages()));
    } catch (const IoError& error) {
      throw UsageError(error.what());  // the conversation goes on
    }
    say(concat("wrote ", counted(std::ssize(session_.messages()), "messages"), " to ", file));
  }

  template <class Run>
  void show(const Run& run) {
    bool shown = false;
    Answer answer;
    try {
      answer = run(
          [&](std::string_view text) {
            std::cout << text;
            flush_stdout();
            shown = true;
          },
          [] { return Interrupt::pending(); });
    } catch (...) {
      if (shown) std::cout << '\n';
      throw;
    }
    Interrupt::clear();
    std::cout << '\n';
    flush_stdout();
    if (answer.end == Answer::End::length) say("the answer has the most tokens that --max-new-tokens allows");
    if (answer.end == Answer::End::context)
      say("the conversation fills the positions of the model; /reset begins another");
  }

  ChatSession& session_;
  LineEditor editor_;
  std::optional<Interrupt> interrupt_;
  bool answered_ = true;
};

void chat(const ChatArguments& arguments) {
  const auto model = pipelines::open_language_model(arguments.model, arguments.load);
  ChatSessionOptions options = options_of(pipelines::TextGenerator(model), arguments);
  options.read_ahead = stdin_is_terminal();
  ChatSession session(model, std::move(options));
  session.set_system("--system", arguments.system);
  for (const std::string& file : arguments.images) session.add_image(file);
  Terminal terminal(session);
  if (terminal.interactive()) say("/help lists the commands, Ctrl-D ends");
  if (!terminal.run() && !terminal.interactive()) throw ExitStatus{1};
}

}  // namespace

void add_chat(Command& app) {
  Command* command = add_command(
      app, "chat",
      "Talk to a language model that has a chat template. Answers are streamed; Ctrl-C ends an answer,\n"
      "Ctrl-D the conversation. The lines of a pipe are messages too, and only answers are printed.\n"
      "Lines that begin with / are commands: /help lists them. See docs/chat.md.",
      "qkv chat SmolLM2-135M-Instruct --system 'You answer in one sentence.' --temperature 0.7\n"
      "  printf 'What is 2 + 2?\\nAnd 3 more?\\n' | qkv chat SmolLM2-135M-Instruct");
  const auto arguments = std::make_shared<ChatArguments>();
  add_model_argument(*command, arguments->model, ModelPath::folder_or_gguf, "with a chat template");
  add_option(*command, "--system", arguments->system, "TEXT",
             "System message, which begins the conversation (default: none)");
  add_option(
      *command, "--image", arguments->images, "FILE",
      "PNG or JPEG file for the first message, for models that read images; may be given several times\n"
      "(default: none)");
  add_option(*command, "--set", arguments->variables, "NAME=VALUE",
             "Variable of the chat template, JSON or text, such as enable_thinking=false; may be given\n"
             "several times (default: none)");
  add_load_options(*command, arguments->load);
  add_field_options<search::SearchOptions>(*command, arguments->search, {""}, kModels);
  command->add_flag(
      "--sample", arguments->sample,
      "Sample, as with any of the following options (default: as generation_config.json has it)");
  add_field_options<search::Sampling>(*command, arguments->sampling, {""}, kModels);
  add_field_options<search::Sampling>(*command, arguments->sampling, {search::Sampling::kSeed}, "drawn");
  command->add_flag("--greedy", arguments->greedy,
                    "Take the most likely tokens, whatever the model's default");
  add_json_schema_option(*command, arguments->json_schema);
  add_cache_dtype_option(*command, arguments->cache_dtype);
  add_threads_option(*command);
  command->callback([arguments] { chat(*arguments); });
}

}  // namespace qkv::apps
