// qkv chat: in a pipe, and at a terminal.

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>

#include "tests/apps/run.h"

namespace qkv::testing {
namespace {

constexpr const char* kChatMl =
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + "
    "'<|im_end|>\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
    "{%- if mood is defined %}{{ mood }}{% endif %}";

class ChatCommand : public CommandTest {
 protected:
  ChatCommand() {
    std::filesystem::copy(recorded_model("hub/SmolLM2-135M"), scratch_ / "model");
    scratch_.write("model/chat_template.jinja", kChatMl);
  }

  std::string chat(const std::string& options, const std::string& input) const {
    return output("chat @/model --max-new-tokens 6 " + options, input);
  }
};

// The same as completing the rendered prompt; each turn has the former ones before it.
TEST_F(ChatCommand, AnswersAsTheRenderedPromptGoesOn) {
  const auto completion = [&](const std::string& prompt) {
    return output("generate @/model --max-new-tokens 6 --prompt '" + prompt + "'").substr(prompt.size());
  };
  const std::string first = "<|im_start|>user\nThe captain said<|im_end|>\n<|im_start|>assistant\n";
  const std::string one = completion(first);
  EXPECT_EQ(chat("", "The captain said\n"), one);
  const std::string second = first + one.substr(0, one.size() - 1) +
                             "<|im_end|>\n<|im_start|>user\nand then\nhe<|im_end|>\n<|im_start|>assistant\n";
  const std::string two = completion(second);
  EXPECT_EQ(chat("", "The captain said\n\nand then\\\nhe\n"), one + two);
  EXPECT_NE(one, two);
}

TEST_F(ChatCommand, OptionsReachThePrompt) {
  const std::string plain = chat("", "Who?\n");
  EXPECT_NE(chat("--system 'Be brief.'", "Who?\n"), plain);
  EXPECT_EQ(chat("", "/system Be brief.\nWho?\n"), chat("--system 'Be brief.'", "Who?\n"));
  EXPECT_EQ(chat("--system 'Be brief.'", "/system\nWho?\n"), plain);
  EXPECT_NE(chat("--set mood=angry", "Who?\n"), plain);
  const std::string sampled = chat("--temperature 20 --seed 3", "Who?\n");
  EXPECT_NE(sampled, plain);
  EXPECT_EQ(chat("--sample --temperature 20 --seed 3", "Who?\n"), sampled);
  scratch_.write("model/generation_config.json",
                 R"({"do_sample": true, "temperature": 20.0, "eos_token_id": 0})");
  EXPECT_EQ(chat("--seed 3", "Who?\n"), sampled);
  EXPECT_EQ(chat("--greedy", "Who?\n"), plain);
  expect_refused("chat @/model --set mood", 2, {"--set: expected NAME=VALUE, found 'mood'"});
  expect_refused("chat @/model --set messages=[]", 2, {"--set messages: expected none", "found []"});
  expect_refused("chat @/model --system b\xff", 2, {"--system: expected UTF-8"});
  scratch_.write("model/generation_config.json", R"({"do_sample": true, "temperature": 0})");
  expect_refused("chat @/model", 1,
                 {"generation_config.json: temperature: expected a number above 0, found 0"});
}

TEST_F(ChatCommand, AnswersInJson) {
  scratch_.write("schema.json",
                 R"({"type": "array", "items": {"enum": [1, "b"]}, "minItems": 2, "maxItems": 2})");
  for (const std::string& text :
       {output("chat @/model --json-schema @/schema.json --max-new-tokens 40", "Who?\n"),
        output("generate @/model --max-new-tokens 40 --json-schema @/schema.json --prompt Who").substr(3)}) {
    const nlohmann::json value = nlohmann::json::parse(text);
    EXPECT_EQ(value.size(), 2U) << text;
    for (const auto& one : value) EXPECT_TRUE(one == 1 || one == "b") << text;
  }
  for (const char* command : {"chat @/model", "generate @/model a"}) {
    scratch_.write("bad.json", R"({"type": "string", "pattern": "a"})");
    expect_refused(concat(command, " --json-schema @/bad.json"), 2,
                   {"--json-schema ", "bad.json: pattern: expected a keyword"});
    expect_refused(concat(command, " --json-schema @/none.json"), 1, {"none.json"});
  }
}

TEST_F(ChatCommand, AnInputThatCannotBeReadIsAnError) {
  for (const char* input : {"</", "<&-"}) {
    const int status = std::system(
        concat(quoted(QKV_PROGRAM), " chat ", quoted(path("model")), " ", input, " 2>", quoted(path("err")))
            .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << input;
    expect_parts(content("err"), {"stdin: cannot be read after line 0: "});
  }
}

TEST_F(ChatCommand, CommandsChangeTheConversation) {
  const std::string who = chat("", "Who?\n"), both = chat("", "Who?\nWhere?\n");
  EXPECT_EQ(chat("", "Who?\n/reset\nWho?\n"), who + who);
  EXPECT_EQ(chat("", "Who?\n/retry\nWhere?\n"), who + both);
  const std::string sampled = chat("--temperature 20 --seed 1", "Who?\n/retry\n");
  EXPECT_NE(sampled.substr(0, sampled.size() / 2), sampled.substr(sampled.size() / 2));
  EXPECT_EQ(chat("", "Who?\n/exit\nWhere?\n"), who);
  EXPECT_NE(chat("", "//exit\n"), "");

  const Outcome saved = run("chat @/model --max-new-tokens 6 --system Brief.",
                            {.input = concat("Who?\n/save ", path("said.json"), "\n")});
  expect_parts(saved.err, {"wrote 3 messages to "});
  const nlohmann::json messages = json_file("said.json");
  EXPECT_EQ(messages[0], (nlohmann::json{{"role", "system"}, {"content", "Brief."}}));
  EXPECT_EQ(messages[1]["content"], "Who?");
  EXPECT_EQ(messages[2]["content"].get<std::string>() + "\n", saved.out);
}

TEST_F(ChatCommand, ImagesGoWithTheNextMessage) {
  const std::string folder = QKV_TEST_DATA "/apps/golden/hub/SmolVLM-256M-Instruct",
                    image = QKV_TEST_DATA "/data/golden/images/";
  const auto answers = [&](const std::string& input, const std::vector<std::string>& more = {}) {
    const Outcome outcome =
        run_qkv(plus({"chat", folder, "--greedy", "--max-new-tokens", "4"}, more), {.input = input});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  const std::string with = answers("the man\n", {"--image", image + "rgb.png"});
  EXPECT_NE(with, answers("the man\n"));
  EXPECT_EQ(with, answers("/image " + image + "rgb.png\nthe man\n"));
  EXPECT_NE(with, answers("/image " + image + "rgba.png\nthe man\n"));
  const std::string saved = (scratch_ / "saved.json").string();
  const std::string both = answers(concat("the man\n/image ", image, "gray.png\na dog\n/save ", saved, "\n"),
                                   {"--image", image + "rgb.png"});
  EXPECT_EQ(both.substr(0, with.size()), with);
  const nlohmann::json messages = nlohmann::json::parse(read_file(saved));
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[2]["content"][0], (nlohmann::json{{"type", "image"}, {"path", image + "gray.png"}}));
  EXPECT_EQ(messages[2]["content"][1]["text"], "a dog");

  const Outcome missing =
      run_qkv({"chat", folder, "--greedy", "--max-new-tokens", "4"},
              {.input = concat("/image ", image, "rgb.png\n/image nothing.png\n/image\nthe man\n")});
  EXPECT_EQ(missing.out, with) << "the conversation goes on";
  EXPECT_EQ(missing.status, 1);
  expect_parts(missing.err, {"nothing.png", "/image: expected the name of a file"});
  const Outcome blind =
      run_qkv({"chat", (scratch_ / "model").string(), "--image", image + "rgb.png"}, {.input = "a\n"});
  EXPECT_EQ(blind.status, 1);
  expect_parts(blind.err, {"rgb.png", "reads no images"});
}

TEST_F(ChatCommand, AMessageThatFailsLeavesTheConversation) {
  const std::string input = concat("Who?\n/nonsense\n/system b\xff\n/retry\n/save\n/save ",
                                   path("none/said.json"), "\nb\xff\nWhere?\n");
  const Outcome outcome = run("chat @/model --max-new-tokens 6", {.input = input});
  EXPECT_EQ(outcome.status, 1);
  expect_parts(outcome.err, {"qkv: expected one of /reset, ", "/save: expected the name", "none/said.json",
                             "qkv: /system: expected UTF-8", "qkv: chat: content: expected UTF-8"});
  const std::string who = chat("", "Who?\n");
  EXPECT_EQ(outcome.out, who + chat("", "Who?\n/retry\nWhere?\n").substr(who.size()));
  EXPECT_EQ(run("chat @/model", {.input = "/retry\n"}).err,
            "qkv: expected an answer to replace, found none\n");
}

TEST_F(ChatCommand, AFullConversationIsAMessage) {
  nlohmann::json config = json_file("model/config.json");
  config["max_position_embeddings"] = 60;
  scratch_.write("model/config.json", config.dump());
  const Outcome outcome = run("chat @/model", {.input = "Who?\nAnd where?\n/reset\nWho?\n"});
  EXPECT_EQ(outcome.status, 1) << "a message had no answer";
  expect_parts(outcome.err, {"fills the positions of the model; /reset begins another",
                             "the conversation takes ", " tokens, more than the 60 that the model can read"});
  EXPECT_EQ(outcome.out.substr(0, outcome.out.size() / 2), outcome.out.substr(outcome.out.size() / 2));
}

TEST_F(ChatCommand, AFolderWithoutATemplateIsRefused) {
  std::filesystem::remove(scratch_ / "model/chat_template.jinja");
  const Outcome outcome = run("chat @/model", {.input = "a\n"});
  expect_failure(outcome, 1, {"chat_template.jinja, tokenizer_config.json or", "found none"});
}

TEST_F(ChatCommand, CopiesOfAFolderHaveItsTemplates) {
  scratch_.write("model/additional_chat_templates/short.jinja", "x");
  output("quantize @/model --dtype bf16 --out @/kept");
  EXPECT_EQ(content("kept/chat_template.jinja"), kChatMl);
  EXPECT_EQ(content("kept/additional_chat_templates/short.jinja"), "x");
}

// A program at a terminal of its own.
class AtTerminal {
 public:
  explicit AtTerminal(const Arguments& arguments) {
    winsize size{.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ != 0) return;
    std::vector<char*> words{const_cast<char*>(QKV_PROGRAM)};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    ::setenv("TERM", "dumb", 1);
    ::setenv("EDITRC", "/dev/null", 1);
    ::execv(QKV_PROGRAM, words.data());
    ::_exit(127);
  }
  ~AtTerminal() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    finish();
    ::close(terminal_);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), std::ssize(keys));
  }
  // Reads until the output after the last call has this text; returns what precedes it.
  std::string until(const std::string& text) {
    read_while([&] { return shown_.find(text) == shown_.npos; }, text);
    const size_t at = shown_.find(text);
    if (at == shown_.npos) return "";
    const std::string before = shown_.substr(0, at);
    shown_.erase(0, at + text.size());
    return before;
  }
  int finish() {  // the exit status
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (child_ > 0 && ::waitpid(child_, &status_, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) ::kill(child_, SIGKILL);
      ::usleep(1000);
    }
    child_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  template <class Lacking>
  void read_while(const Lacking& lacking, const std::string& expected) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (lacking()) {
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      std::array<char, 4096> more{};
      const bool readable = ::poll(&ready, 1, 1000) == 1;
      const ssize_t count = readable ? ::read(terminal_, more.data(), more.size()) : 0;
      if (count > 0) shown_.append(more.data(), static_cast<size_t>(count));
      if (count < 0 || std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "expected " << expected << ", found " << shown_;
        return;
      }
    }
  }

  int terminal_ = -1, status_ = 0;
  pid_t child_ = -1;
  std::string shown_;
};

TEST_F(ChatCommand, CtrlCEndsAnAnswerAndNotTheProgram) {
  AtTerminal terminal(words("chat @/model --max-new-tokens 8000 --min-new-tokens 8000"));
  terminal.until("Ctrl-D ends");
  terminal.until("> ");
  terminal.type("Who?\n");
  terminal.until("Who?");
  terminal.until("\uFFFD");  // the answer, of bytes that are no UTF-8, has begun
  terminal.type("\x03");
  terminal.until("> ");
  terminal.type("\x03");  // at the prompt
  terminal.until("Ctrl-D or /exit ends");
  terminal.until("> ");
  terminal.type("dropped\x03");
  terminal.until("> ");
  terminal.type("/save " + path("said.json") + "\n");
  terminal.until("wrote 2 messages");
  terminal.until("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.finish(), 0);
  const nlohmann::json messages = json_file("said.json");
  EXPECT_EQ(messages[0]["content"], "Who?");
  EXPECT_NE(messages[1]["content"], "") << "what was shown is the answer";
}

// The terminal is in line mode then, and holds a zero in the place of Ctrl-D.
TEST_F(ChatCommand, CtrlDWhileAnAnswerIsWrittenEndsTheProgramAfterIt) {
  AtTerminal terminal(words("chat @/model --max-new-tokens 40 --min-new-tokens 40"));
  terminal.until("> ");
  terminal.type("Who?\n");
  terminal.until("Who?");
  terminal.until("\n");
  terminal.type("\x04");
  terminal.until("--max-new-tokens allows");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST_F(ChatCommand, ATerminalAnswersAsAPipeDoes) {
  AtTerminal terminal(words("chat @/model --max-new-tokens 6"));
  terminal.until("> ");
  terminal.type("Whx\x7fo? \xc3\xa4\n");  // x is erased
  terminal.until("--max-new-tokens allows");
  terminal.until("> ");
  terminal.type("Where?\n");
  terminal.until("--max-new-tokens allows");
  terminal.until("> ");
  terminal.type("/save " + path("said.json") + "\n/exit\n");
  EXPECT_EQ((terminal.until("wrote 4 messages"), terminal.finish()), 0);
  const nlohmann::json messages = json_file("said.json");
  EXPECT_EQ(messages[0]["content"], "Who? \xc3\xa4");
  const std::string answers = concat(messages[1]["content"].get<std::string>(), "\n",
                                     messages[3]["content"].get<std::string>(), "\n");
  EXPECT_EQ(chat("", "Who? \xc3\xa4\nWhere?\n"), answers) << "whether it was read ahead or not";
}

}  // namespace
}  // namespace qkv::testing
