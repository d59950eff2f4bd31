// qkv serve, as a process that is started, signalled, killed and started again.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/apps/run.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/environment.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;

class Serve : public CommandTest {};

const std::string kMarian = QKV_TEST_DATA "/pipelines/golden/marian";
const std::string kLlama = QKV_TEST_DATA "/models/golden/llama";

// A running server, whose stderr is kept. Killed by the destructor.
class ServeProcess {
 public:
  explicit ServeProcess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {QKV_PROGRAM, "serve"});
    std::vector<char*> pointers;
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, (scratch_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    if (posix_spawn(&process_, QKV_PROGRAM, &actions, nullptr, pointers.data(), environ) != 0) process_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    wait_for("serving ");
    const std::string said = messages();
    const size_t colon = said.find(':', said.find("://") + 3);
    if (colon != std::string::npos) port_ = static_cast<uint16_t>(std::stoi(said.substr(colon + 1)));
  }
  ~ServeProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  uint16_t port() const { return port_; }
  std::string messages() const {
    return std::filesystem::exists(scratch_ / "err") ? read_file(scratch_ / "err") : std::string();
  }
  // Waits, up to 30 s, until stderr contains a complete line with `text`.
  bool wait_for(const std::string& text) const {
    for (int i = 0; i < 3000; ++i) {
      const std::string said = messages();
      const size_t at = said.find(text);
      if (at != std::string::npos && said.find('\n', at) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "expected \"" << text << "\" in: " << messages();
    return false;
  }
  void signal(int number) const { ::kill(process_, number); }
  // From now on it can allocate that much more.
  void limit_memory(size_t bytes) const {
    std::ifstream usage("/proc/" + std::to_string(process_) + "/statm");
    rlim_t pages = 0;
    usage >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes;
    const rlimit limit{.rlim_cur = most, .rlim_max = most};
    ASSERT_EQ(::prlimit(process_, RLIMIT_AS, &limit, nullptr), 0);
  }
  // The exit status, 128 + the signal that killed it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  Scratch scratch_;
  pid_t process_ = -1;
  uint16_t port_ = 0;
};

std::string answer_to(uint16_t port, const std::string& path, const json& body,
                      const std::string& headers = {}) {
  RawClient client(port);
  if (!client.send(request_bytes(path, body.dump(), headers))) return {};
  return client.response();
}

json body_of(const std::string& response) {
  return json::parse(response.substr(response.find("\r\n\r\n") + 4));
}

void expect_translates(const ServeProcess& server) {
  const std::string answer = answer_to(server.port(), "/v1/translate", {{"text", "forty"}});
  EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
}

void expect_stops(ServeProcess& server) {
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.messages();
}

TEST_F(Serve, ResultsAreThoseOfTheCommands) {
  ServeProcess server({"de=" + kMarian, kLlama, "--port", "0", "--threads", "1"});
  const std::string texts = "twenty-one\nforty\nthree hundred forty-two\n";
  const Outcome expected =
      run_qkv({"translate", kMarian, "--json", "--scores", "--threads", "2"}, {.input = texts});
  ASSERT_EQ(expected.status, 0) << expected.err;
  std::istringstream lines(expected.out);
  for (const char* const text : {"twenty-one", "forty", "three hundred forty-two"}) {
    std::string line;
    std::getline(lines, line);
    json found = json::parse(line);
    found.erase("line");
    const json answer =
        body_of(answer_to(server.port(), "/v1/translate", {{"text", text}, {"scores", true}}));
    EXPECT_EQ(answer.at("translations").at(0), found);
    EXPECT_EQ(answer.at("model"), "de");
  }
  expect_stops(server);
}

// Processes that are killed leave a port that the next one can have at once, and no state.
TEST_F(Serve, RestartsOnTheSamePortAfterAKill) {
  std::string port = "0", expected;
  const json body{{"prompt", "a red dog"}, {"max_tokens", 8}, {"seed", 1}};
  for (int round = 0; round < 3; ++round) {
    ServeProcess server({"m=" + kLlama, "--port", port});
    ASSERT_NE(server.port(), 0);
    port = std::to_string(server.port());
    const std::string text =
        body_of(answer_to(server.port(), "/v1/completions", body)).at("choices").at(0).at("text");
    if (round == 0) expected = text;
    EXPECT_EQ(text, expected);
    RawClient waiting(server.port());
    waiting.send(
        request_bytes("/v1/completions", json{{"prompt", "a"}, {"max_tokens", 50}, {"stream", true}}.dump()));
    EXPECT_NE(waiting.until("data: ").find("200 OK"), std::string::npos);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(), 128 + SIGKILL);
    waiting.rest();  // ends
  }
}

TEST_F(Serve, FinishesInFlightRequestsOnSigterm) {
  ServeProcess server({"m=" + kMarian, "--port", "0", "--threads", "1"});
  RawClient client(server.port());
  const json many(std::vector<std::string>(200, "three hundred forty-two"));
  ASSERT_TRUE(client.send(request_bytes("/v1/translate", json{{"text", many}}.dump())));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.signal(SIGTERM);
  const std::string response = client.response();
  EXPECT_NE(response.find("200 OK"), std::string::npos);
  EXPECT_EQ(body_of(response).at("translations").size(), 200U);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_NE(server.messages().find("stopping"), std::string::npos);
}

TEST_F(Serve, ReloadsModelsOnSighup) {
  std::filesystem::copy(kLlama, scratch_ / "model");
  ServeProcess server({"m=" + path("model"), "--port", "0"});
  server.signal(SIGHUP);
  EXPECT_TRUE(server.wait_for("models reloaded"));
  std::filesystem::remove(scratch_ / "model/config.json");
  server.signal(SIGHUP);
  EXPECT_TRUE(server.wait_for("models not reloaded, the present ones stay: "));
  EXPECT_NE(answer_to(server.port(), "/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}}).find("200 OK"),
            std::string::npos);
}

// What qkv pull does: it adds a snapshot, then changes the reference.
TEST_F(Serve, OpensModelsOfTheHubByNameAndTheirNewestRevisionOnSighup) {
  const std::string first(40, '1'), second(40, '2'), repository = "models--org--tiny/";
  std::filesystem::create_directories(scratch_ / (repository + "snapshots"));
  std::filesystem::copy(kMarian, scratch_ / (repository + "snapshots/" + first));
  std::filesystem::copy(kLlama, scratch_ / (repository + "snapshots/" + second));
  scratch_.write(repository + "refs/main", first);
  Environment environment;
  environment.set({{"HF_HUB_CACHE", scratch_.path().string()}});
  ServeProcess server({"org/tiny", "--port", "0"});
  const json text{{"model", "tiny"}, {"text", "forty"}},
      prompt{{"model", "tiny"}, {"prompt", "a"}, {"max_tokens", 2}};
  EXPECT_NE(answer_to(server.port(), "/v1/translate", text).find("200 OK"), std::string::npos);
  scratch_.write(repository + "refs/main", second);
  server.signal(SIGHUP);
  EXPECT_TRUE(server.wait_for("models reloaded"));
  EXPECT_NE(answer_to(server.port(), "/v1/completions", prompt).find("200 OK"), std::string::npos);
}

TEST_F(Serve, LogsRequestsWithoutTheirTexts) {
  const std::string log = path("log.jsonl");
  const std::string keys = scratch_.write("keys", "# two\nfirst-key\nsecond-key\r\n").string();
  ServeProcess server({"m=" + kMarian, "--port", "0", "--log", log, "--key-file", keys});
  const json body{{"text", "forty"}};
  EXPECT_NE(
      answer_to(server.port(), "/v1/translate", body, "Authorization: Bearer second-key\r\n").find("200 OK"),
      std::string::npos);
  for (const char* const wrong : {"", "Authorization: Bearer second\r\n", "Authorization: second-key\r\n"}) {
    EXPECT_NE(answer_to(server.port(), "/v1/translate", body, wrong).find("401 "), std::string::npos)
        << wrong;
  }
  expect_stops(server);
  const std::string text = read_file(log);
  EXPECT_EQ(count_lines_of(text), 4U) << text;
  EXPECT_EQ(text.find("forty"), std::string::npos);
  EXPECT_EQ(text.find("second-key"), std::string::npos);
  std::istringstream lines(text);
  std::vector<int> statuses;
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    EXPECT_EQ(one.at("path"), "/v1/translate");
    statuses.push_back(one.at("status"));
  }
  EXPECT_EQ(statuses, (std::vector{200, 401, 401, 401}));
}

TEST_F(Serve, LogsRefusedRequestsAndReopensTheLog) {
  const std::string log = path("log.jsonl");
  ServeProcess server({"m=" + kMarian, "--port", "0", "--log", log});
  {
    RawClient client(server.port());
    client.send("nonsense\r\n\r\n");
    EXPECT_NE(client.rest().find("400 "), std::string::npos);
  }
  EXPECT_EQ(json::parse(read_file(log)).at("status"), 400);
  std::filesystem::rename(log, log + ".1");
  server.signal(SIGHUP);
  EXPECT_TRUE(server.wait_for("models reloaded"));
  expect_translates(server);
  expect_stops(server);
  EXPECT_EQ(json::parse(read_file(log)).at("status"), 200);
  EXPECT_EQ(count_lines_of(read_file(log + ".1")), 1U);
}

// A log on standard error, which is a file here, and the server's messages leave each other whole.
TEST_F(Serve, LogsToStandardError) {
  ServeProcess server({"m=" + kMarian, "--port", "0", "--log", "/dev/stderr"});
  expect_translates(server);
  expect_stops(server);
  std::istringstream lines(server.messages());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 3U) << server.messages();
  EXPECT_NE(all[0].find("serving "), std::string::npos);
  EXPECT_EQ(json::parse(all[1]).at("status"), 200);
  EXPECT_NE(all[2].find("stopping"), std::string::npos);
}

// Such as `qkv serve ... --log /dev/stdout | head -1`.
TEST_F(Serve, SurvivesAClosedLogPipe) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ServeProcess server({"m=" + kMarian, "--port", "0", "--log", pipe});
  ::close(reader);
  for (int i = 0; i < 3; ++i) {
    expect_translates(server);
  }
  EXPECT_TRUE(server.wait_for("lines of the log are lost"));
  expect_stops(server);
}

TEST_F(Serve, IsNotReadyDuringTheDrainDelay) {
  ServeProcess server({"m=" + kMarian, "--port", "0", "--drain-delay", "2"});
  const auto get = [&](const std::string& path) {
    RawClient client(server.port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    return client.response();
  };
  EXPECT_NE(get("/ready").find("200 OK"), std::string::npos);
  server.signal(SIGTERM);
  EXPECT_TRUE(server.wait_for("stopping"));
  std::string ready;
  for (int i = 0; i < 50 && ready.find("503 ") == std::string::npos; ++i) ready = get("/ready");
  EXPECT_NE(ready.find("503 "), std::string::npos) << ready;
  expect_translates(server);
  EXPECT_EQ(server.wait(), 0);
}

// A pipe without a writer would be waited for without end.
TEST_F(Serve, AFolderWithAPipeIsRefusedAtOnce) {
  std::filesystem::create_directory(scratch_ / "slow");
  ASSERT_EQ(::mkfifo((scratch_ / "slow/config.json").c_str(), 0600), 0);
  expect_failure(run_qkv({"serve", path("slow"), "--port", "0"}), 1,
                 {"slow/config.json: not a regular file"});
}

// A full disk costs lines of the log, and nothing else.
TEST_F(Serve, SurvivesAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  ServeProcess server({"m=" + kMarian, "--port", "0", "--log", "/dev/full"});
  for (int i = 0; i < 5; ++i) expect_translates(server);
  EXPECT_TRUE(server.wait_for("/dev/full: lines of the log are lost"));
  expect_stops(server);
  const std::string said = server.messages();
  EXPECT_EQ(said.find("lines of the log"), said.rfind("lines of the log")) << "once";
}

// Connections beyond the file descriptors of the process wait; they are taken when others close.
TEST_F(Serve, SurvivesExhaustedFileDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "needs a build without UndefinedBehaviorSanitizer";
#endif
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 48, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);  // inherited
  ServeProcess server({"m=" + kMarian, "--port", "0"});
  setrlimit(RLIMIT_NOFILE, &before);
  {
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int i = 0; i < 80; ++i) idle.push_back(std::make_unique<RawClient>(server.port()));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  expect_translates(server);
  expect_stops(server);
}

TEST_F(Serve, TimesOutSlowRequests) {
  const ServeProcess server({kMarian, "--port", "0", "--header-timeout", "0.1", "--body-timeout", "0.2",
                             "--idle-timeout", "0.3", "--write-timeout", "5"});
  ASSERT_NE(server.port(), 0);
  RawClient header(server.port()), body(server.port()), idle(server.port());
  ASSERT_TRUE(header.send("POST /v1/translate HTTP/1.1\r\nHo"));
  ASSERT_TRUE(body.send("POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"));
  EXPECT_NE(header.until("\r\n").find(" 408 "), std::string::npos);
  EXPECT_NE(header.until("}}").find("header in time"), std::string::npos);
  EXPECT_NE(body.until("\r\n").find(" 408 "), std::string::npos);
  EXPECT_NE(body.until("}}").find("body in time"), std::string::npos);
  EXPECT_FALSE(idle.receive());  // closed without an answer
}

TEST_F(Serve, RefusesBadArguments) {
  scratch_.write("keys", "# none\n");
  expect_refused("serve", 2, {"models"});
  expect_refused("serve %marian --prot 80", 2, {"--prot", "--port"});
  expect_refused("serve %marian --port 65536", 2, {"--port: expected 0 to 65535, found 65536"});
  expect_refused("serve %marian --queue 0", 2, {"--queue: expected at least 1, found 0"});
  expect_refused("serve %marian --deadline nan", 2, {"--deadline"});
  expect_refused("serve %marian --host nowhere.example", 2, {"host: expected an IP address"});
  expect_refused("serve %marian --certificate a.pem", 2, {"private_key"});
  expect_refused("serve %marian --cache-dtype q8_0", 2, {"cache dtype q8_0: expected keys and values"});
  expect_refused("serve %hub/gpt2 --cache-dtype q8_0", 2, {"cache dtype q8_0: expected keys and values"});
  expect_refused("serve a=%marian a=%llama", 2, {"two called 'a'"});
  expect_refused("serve %marian %llama --adapter %adapter_gpt2", 2,
                 {"--adapter: expected one model, found 2; qkv merge"});
  expect_refused("serve %marian --key-file @/keys", 1, {"keys", "expected at least one API key"});
  expect_refused("serve @/none", 1, {"none"});
  expect_refused("serve %marian --port 0 --log @/no/log", 1, {"no/log: cannot be opened"});
  const ServeProcess server({"m=" + kMarian, "--port", "0"});
  const std::string port = std::to_string(server.port());
  expect_refused("serve %marian --port " + port, 1, {port, "cannot listen", "in use"});
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they need memory and signals themselves

// Memory that runs out is a 503 of the requests that use it.
TEST_F(Serve, OutlivesRequestsThatUseUpItsMemory) {
  ServeProcess server({"m=" + kMarian, "--port", "0", "--threads", "1"});
  server.limit_memory(size_t{160} << 20);
  const std::string half(size_t{4} << 20, ' ');
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send("POST /v1/translate HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n" + half);
  }
  clients.clear();
  std::string metrics;
  for (int i = 0; i < 100 && metrics.find("200 OK") == std::string::npos; ++i) {
    RawClient client(server.port());
    client.send(request_bytes("/metrics"));
    metrics = client.response();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const size_t refused = metrics.find("\nqkv_malformed_requests_total ");
  ASSERT_NE(refused, std::string::npos) << metrics;
  EXPECT_NE(metrics[refused + 30], '0') << metrics;
  expect_translates(server);
  expect_stops(server);
}

TEST_F(Serve, NamesAFileThatIsTruncatedWhileItIsRead) {
  std::filesystem::copy(kLlama, path("model"));
  json config = json::parse(read_file(path("model/config.json")));
  config["max_position_embeddings"] = 100'000;
  write_file_atomically(path("model/config.json"), config.dump());
  ServeProcess server({"m=" + path("model"), "--port", "0", "--threads", "1"});
  RawClient client(server.port());
  const json body{{"prompt", "a"}, {"max_tokens", 90'000}, {"min_tokens", 90'000}, {"stream", true}};
  client.send(request_bytes("/v1/completions", body.dump()));
  client.until("data: ");
  std::filesystem::resize_file(path("model/model.safetensors"), 0);
  EXPECT_EQ(server.wait(), 128 + SIGBUS);
  EXPECT_NE(server.messages().find(path("model/model.safetensors") + ": truncated"), std::string::npos)
      << server.messages();
}

#endif

}  // namespace
