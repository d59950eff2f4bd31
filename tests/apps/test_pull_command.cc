// qkv pull as a process, and the commands that find what it downloaded.

#include <fcntl.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <regex>
#include <thread>

#include "tests/apps/run.h"
#include "tests/hub/fake_hub.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
namespace fs = std::filesystem;

class PullCommand : public CommandTest {
 protected:
  PullCommand() {
    hub_.files.clear();
    const fs::path model = QKV_TEST_DATA "/models/golden/bert_texts";
    for (const fs::path& path : files_in(model)) hub_.files[path.filename().string()] = read_file(path);
    hub_.files.erase("expected.safetensors");
    hub_.files["onnx/model.onnx"] = "skipped";
  }
  std::string environment() const {
    return concat(
        "HF_HUB_CACHE=", path("cache"), " HF_ENDPOINT=", server_.url(),
        " HF_TOKEN= HF_HOME=/nonexistent HF_HUB_OFFLINE= http_proxy= HTTP_PROXY= all_proxy= ALL_PROXY=");
  }
  // In a command line, '#' stands for '@'.
  Outcome run_here(const std::string& line) const {
    Arguments arguments = words(line);
    for (std::string& word : arguments) std::ranges::replace(word, '#', '@');
    return run_qkv(arguments, {.environment = environment()});
  }
  // A pull whose weights arrive slowly, once some of them are there.
  pid_t slow_pull() {
    hub_.files["model.safetensors"] = FakeHub::content(1'000'000);
    hub_.instead = [this](const Request& request) -> std::optional<Reply> {
      if (!request.target.starts_with("/lfs/") || fast_) return std::nullopt;
      Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
      reply.piece = 100;
      return reply;
    };
    pid_t process = 0;
    const std::string command = concat("exec env ", environment(), " ", quoted(QKV_PROGRAM),
                                       " pull org/tiny 2>", quoted(path("err")), " >", quoted(path("out")));
    const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
    EXPECT_EQ(posix_spawn(&process, "/bin/sh", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
    for (int i = 0; i < 3000 && left() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GT(left(), 0U);
    return process;
  }
  uintmax_t left() const {
    std::error_code none;
    const fs::path file =
        scratch_ / "cache/models--org--tiny/blobs" / (hub_.checksum("model.safetensors") + ".incomplete");
    const uintmax_t bytes = fs::file_size(file, none);
    return none ? 0 : bytes;
  }
  void expect_resumes() {
    fast_ = true;
    const uintmax_t bytes = left();
    const Outcome again = run_here("pull org/tiny");
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_GE(std::stoul(server_.requests().back().header("range").substr(6)), bytes);
    EXPECT_TRUE(read_file(fs::path(again.out.substr(0, again.out.size() - 1)) / "model.safetensors") ==
                hub_.files.at("model.safetensors"));
  }

  FakeHub hub_;
  std::atomic<bool> fast_ = false;
  HttpTestServer server_{[this](const Request& request) { return hub_(request); }};
};

TEST_F(PullCommand, PrintsTheFolderThatOthersFindByName) {
  expect_failure(run_here("embed org/tiny a"), 1,
                 {"model org/tiny: there is no such folder", "qkv pull org/tiny downloads it"});
  EXPECT_TRUE(server_.requests().empty()) << "nothing is downloaded that was not asked for";
  const Outcome pulled = run_here("pull org/tiny");
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  const std::string folder = path("cache/models--org--tiny/snapshots/" + hub_.commit);
  EXPECT_EQ(pulled.out, folder + "\n");
  expect_parts(pulled.err, {"qkv: org/tiny: ", " downloaded\n",
                            "qkv: skipped 1 file of 7 B: onnx/model.onnx; --include takes others\n"});
  EXPECT_EQ(pulled.err.find('\r'), std::string::npos) << "no progress in a pipe";

  const size_t before = server_.requests().size();
  const std::string expected = output("embed %bert_texts 'a red dog' --json");
  for (const char* const name : {"org/tiny", "org/tiny#main"}) {
    const Outcome found = run_here(concat("embed ", name, " 'a red dog' --json"));
    EXPECT_EQ(found.status, 0) << found.err;
    EXPECT_EQ(found.out, expected);
  }
  for (const char* const line :
       {"inspect org/tiny", "tokenize org/tiny --text a", "quantize org/tiny --dtype bf16 --out @/bf16"}) {
    const Outcome found = run_here(line);
    EXPECT_EQ(found.status, 0) << line << ": " << found.err;
  }
  expect_failure(run_here("export org/tiny --to @/tiny.gguf"), 2,
                 {"snapshots", "expected a model without a classifier"});
  expect_failure(run_here("embed org/tiny#v2 a"), 1,
                 {"(there: main)", "qkv pull org/tiny --revision v2 downloads it"});
  // The base of an adapter, and the start of a training.
  fs::copy(recorded_model("adapter_bert_texts"), scratch_ / "adapter");
  nlohmann::json config = json_file("adapter/adapter_config.json");
  for (const char* const base : {"org/none", "org/tiny"}) {
    config["base_model_name_or_path"] = base;
    scratch_.write("adapter/adapter_config.json", config.dump());
    const Outcome merged = run_here("merge --adapter @/adapter --out @/merged");
    EXPECT_EQ(merged.status, base == std::string("org/tiny") ? 0 : 1) << merged.err;
    if (merged.status == 1)
      expect_parts(merged.err, {"found \"org/none\": ", "qkv pull org/none downloads it"});
  }
  config["r"] = 7;
  scratch_.write("adapter/adapter_config.json", config.dump());
  expect_failure(run_here("classify org/tiny --adapter @/adapter a"), 1,
                 {"expected the rank 7 of adapter_config.json, found 2"});
  scratch_.write("labelled.txt", "0 a red dog\n1 the house\n");
  const std::string train = "train classify --train @/labelled.txt --max-steps 1 --quiet --out @/trained ";
  for (const char* const start : {"--from ", "--set model.from="}) {
    expect_failure(run_here(concat(train, start, "org/none")), 1, {"qkv pull org/none downloads it"});
    const Outcome trained = run_here(concat(train, "--overwrite ", start, "org/tiny"));
    EXPECT_EQ(trained.status, 0) << trained.err;
  }
  expect_failure(run_here("train lm --train @/labelled.txt --tokenizer org/none --out @/lm"), 1,
                 {"qkv pull org/none downloads it"});
  EXPECT_EQ(server_.requests().size(), before);
}

TEST_F(PullCommand, TakesWeightsOfTorchSaveWhereThereAreNoOthers) {
  hub_.files["pytorch_model.bin"] = "of torch.save()";
  const auto found = [&] {
    const Outcome outcome = run_here("pull org/tiny");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("warning"), std::string::npos) << outcome.err;
    return fs::path(outcome.out.substr(0, outcome.out.size() - 1)) / "pytorch_model.bin";
  };
  EXPECT_FALSE(fs::exists(found()));
  hub_.files.erase("model.safetensors");
  hub_.commit = std::string(40, 'b');
  EXPECT_EQ(read_file(found()), "of torch.save()");
}

TEST_F(PullCommand, PrintsJson) {
  const Outcome pulled = run_here("pull org/tiny#main --include '*.json' --exclude 'tok*' --json");
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  const nlohmann::json report = nlohmann::json::parse(pulled.out);
  EXPECT_EQ(report.at("model"), "org/tiny@main");
  EXPECT_EQ(report.at("revision"), "main");
  EXPECT_EQ(report.at("commit"), hub_.commit);
  EXPECT_EQ(report.at("folder"), path("cache/models--org--tiny/snapshots/" + hub_.commit));
  int64_t bytes = 0;
  for (const auto& file : report.at("files")) {
    const std::string name = file.at("path");
    EXPECT_TRUE(name.ends_with(".json") && !name.starts_with("tok")) << name;
    EXPECT_EQ(file.at("bytes"), hub_.files.at(name).size());
    EXPECT_EQ(file.at("checksum"), hub_.checksum(name));
    bytes += file.at("bytes").get<int64_t>();
  }
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(report.at("downloaded_bytes"), bytes);
  EXPECT_EQ(report.at("files").size() + report.at("skipped").size(), hub_.files.size());
}

TEST_F(PullCommand, ShowsRateAndTimeLeftOnATerminal) {
  hub_.files["model.safetensors"] = FakeHub::content(1'000'000);
  hub_.instead = [this](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply{.body = hub_.files.at("model.safetensors")};
    reply.piece = 1'000;  // 1 s
    return reply;
  };
  const std::string command =
      concat("exec env TERM=xterm ", environment(), " ", quoted(QKV_PROGRAM), " pull org/tiny");
  int terminal = -1;
  winsize size{.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string shown;
  char bytes[4096];
  for (ssize_t count; (count = ::read(terminal, bytes, sizeof bytes)) > 0;)
    shown.append(bytes, static_cast<size_t>(count));
  ::close(terminal);
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_EQ(status, 0);
  // "model.safetensors  412 kB of 1.01 MB  981 kB/s  0:01 left"
  const std::regex line("model\\.safetensors  [0-9.]+ kB of 1\\.01 MB  [0-9.]+ [kM]?B/s  0:[0-9][0-9] left");
  EXPECT_TRUE(std::regex_search(shown, line)) << shown;
  expect_parts(shown, {"\r\033[Kqkv: org/tiny: 5 files of 1.01 MB, 1.01 MB downloaded"});
}

TEST_F(PullCommand, RefusesOtherNames) {
  for (const char* const name : {"../x", "a/b/c", "/tmp", "https://huggingface.co/org/tiny", "a--b"})
    expect_failure(run_here(concat("pull ", name)), 2,
                   {"model: expected a name of the hub, such as ORG/NAME, found '"});
  expect_failure(run_here("pull org/tiny --revision ../x"), 2,
                 {"--revision: expected a branch, tag or commit, found '../x'"});
  expect_failure(run_here("pull org/tiny#a --revision b"), 2, {"--revision: expected one revision"});
  expect_failure(run_here("pull org/tiny --include '*.nothing'"), 2, {"expected files that match *.nothing"});
  expect_failure(run_here("pull org/other"), 1, {"org/other: expected a model of http://localhost:"});
}

TEST_F(PullCommand, ResumesAfterAKill) {
  const pid_t process = slow_pull();
  ::kill(process, SIGKILL);
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_FALSE(fs::exists(scratch_ / "cache/models--org--tiny/refs"));
  expect_resumes();
}

TEST_F(PullCommand, ResumesAfterCtrlC) {
  const pid_t process = slow_pull();
  ::kill(process, SIGINT);
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 0, 130);
  EXPECT_EQ(content("err"), "qkv: stopped; the same command resumes\n");
  EXPECT_EQ(content("out"), "");
  expect_resumes();
}

}  // namespace
