// qkv serve

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "apps/cli/field_options.h"
#include "apps/cli/messages.h"
#include "apps/engine_options.h"
#include "apps/load_options.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/serve/server.h"

namespace qkv::apps {
namespace {

struct ServeArguments {
  std::vector<std::string> models;
  models::LoadOptions load;
  EngineArguments engine;
  serve::HttpOptions http;
  int queue = 1024;
  double max_wait_ms = 0, deadline = 600, drain = 30, drain_delay = 0;
  std::string key_file, cors_origin, log;
};

// Checks a time limit.
auto seconds_from(double least) {
  return [range = between(least, 1'000'000)](const std::string& text) -> std::string {
    double value = 0;
    if (option::convert(text, value) && range.contains(value)) return {};
    return concat("expected ", range.text(), ", found ", text);
  };
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// One key a line; blank lines and lines that begin with # are skipped.
std::set<std::string, std::less<>> read_keys(const std::string& file) {
  std::set<std::string, std::less<>> keys;
  if (file.empty()) return keys;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
    if (begin != std::string::npos && line[begin] != '#') keys.insert(line.substr(begin, end - begin + 1));
  }
  if (keys.empty()) throw DataError(concat(file, ": expected at least one API key, one a line, found none"));
  return keys;
}

// Appends lines to a file. A line that cannot be written is lost, which is said once: requests go on.
class LogFile {
 public:
  explicit LogFile(const std::string& path) : path_(path), file_(opened()) {}
  ~LogFile() { ::close(file_); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void add(std::string line) {
    line += '\n';
    const std::lock_guard lock(mutex_);
    const ssize_t written = ::write(file_, line.data(), line.size());
    if (written != std::ssize(line) && !std::exchange(failed_, true))
      say(concat(path_, ": lines of the log are lost: ", std::strerror(errno)));
  }
  // The file that has the path now, after the former one was renamed.
  void reopen() {
    const int file = opened();
    const std::lock_guard lock(mutex_);
    ::close(std::exchange(file_, file));
    failed_ = false;
  }

 private:
  int opened() const {
    // Opened by its path, a file that is standard error would be written at two places.
    const int file =
        path_ == "/dev/stderr" ? ::dup(STDERR_FILENO)
        : path_ == "/dev/stdout"
            ? ::dup(STDOUT_FILENO)
            // A pipe without a reader would otherwise block the start, a full one every request.
            : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file < 0) {
      throw IoError(concat(path_, ": cannot be opened for appending: ",
                           errno == ENXIO ? "a pipe that no process reads" : std::strerror(errno)));
    }
    return file;
  }

  std::mutex mutex_;
  std::string path_;
  int file_;
  bool failed_ = false;
};

serve::ServerOptions server_options(const ServeArguments& arguments, const std::shared_ptr<LogFile>& log) {
  serve::ServerOptions options;
  for (const std::string& model : arguments.models)
    options.service.folders.push_back(serve::parse_model_folder(model));
  options.service.load = arguments.load;
  if (!arguments.load.adapter.empty() && arguments.models.size() > 1) {
    throw UsageError(concat("--adapter: expected one model, found ", arguments.models.size(),
                            "; qkv merge writes a folder that is a model by itself"));
  }
  options.service.work.engine = arguments.engine.engine;
  options.service.work.step_model = arguments.engine.step_model;
  options.service.work.queue = options.service.work.encode.queue = static_cast<size_t>(arguments.queue);
  options.service.work.encode.max_wait =
      std::chrono::microseconds(static_cast<int64_t>(arguments.max_wait_ms * 1000));
  options.service.deadline = milliseconds_of(arguments.deadline);
  options.service.keys = read_keys(arguments.key_file);
  options.service.cors_origin = arguments.cors_origin;
  if (log) options.service.log = [log](const std::string& line) { log->add(line); };
  options.http = arguments.http;
  return options;
}

// Signals are taken by waiting for them, so that what they do runs on an ordinary thread. Blocked before any
// thread starts, as threads inherit the mask.
class WaitedSignals {
 public:
  WaitedSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~WaitedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WaitedSignals(const WaitedSignals&) = delete;
  WaitedSignals& operator=(const WaitedSignals&) = delete;

  int wait() const {
    int signal = 0;
    sigwait(&set_, &signal);
    return signal;
  }
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_{}, before_{};
};

// During its lifetime, SIGINT and SIGTERM end the process although they are blocked: nothing waits for them
// while models are opened.
class EndsBySignal {
 public:
  EndsBySignal() {
    thread_ = std::thread([this] {
      sigset_t ends{};
      sigemptyset(&ends);
      sigaddset(&ends, SIGINT);
      sigaddset(&ends, SIGTERM);
      while (!over_) {
        constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 10'000'000};
        const int signal = sigtimedwait(&ends, nullptr, &kPause);
        if (signal <= 0) continue;
        std::signal(signal, SIG_DFL);
        pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
        std::raise(signal);
      }
    });
  }
  ~EndsBySignal() {
    over_ = true;
    thread_.join();
  }
  EndsBySignal(const EndsBySignal&) = delete;
  EndsBySignal& operator=(const EndsBySignal&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

std::unique_ptr<serve::Server> opened_server(const serve::ServerOptions& options) {
  const EndsBySignal opening;
  return std::make_unique<serve::Server>(options);
}

void serve_models(const ServeArguments& arguments) {
  // The reader of the log may leave; requests go on.
  std::signal(SIGPIPE, SIG_IGN);
  const WaitedSignals signals;
  const auto log = arguments.log.empty() ? nullptr : std::make_shared<LogFile>(arguments.log);
  const auto drain = milliseconds_of(arguments.drain), drain_delay = milliseconds_of(arguments.drain_delay);
  const std::unique_ptr<serve::Server> opened = opened_server(server_options(arguments, log));
  serve::Server& server = *opened;
  const char* const scheme = arguments.http.certificate.empty() ? "http" : "https";
  const std::string host = arguments.http.host.find(':') == std::string::npos
                               ? arguments.http.host
                               : concat("[", arguments.http.host, "]");
  std::string names;
  for (const auto& model : server.service().models().all())
    names += concat(names.empty() ? "" : ", ", model->name(), " (", model->kind(), ")");
  say(concat("serving ", names, " on ", scheme, "://", host, ":", server.port()));
  while (true) {
    if (signals.wait() != SIGHUP) break;
    try {
      if (log) log->reopen();
      server.service().reload();
      say("models reloaded");
    } catch (const std::exception& error) {
      say(concat("models not reloaded, the present ones stay: ", error.what()));
    }
  }
  say("stopping; a second signal stops at once");
  // A second signal has its default effect.
  pthread_sigmask(SIG_UNBLOCK, &signals.set(), nullptr);
  server.drain();
  std::this_thread::sleep_for(drain_delay);
  const int64_t cut = server.stop(drain);
  if (cut > 0) say(concat(cut, " requests were cut off after ", arguments.drain, " s"));
}

}  // namespace

void add_serve(Command& app) {
  Command* command = add_command(
      app, "serve",
      "Serve models over HTTP: translation, generation, embeddings, labels, tags, images, speech.\n"
      "Clients of OpenAI's API (/v1/completions, /v1/audio/...), LibreTranslate (/translate) and Text\n"
      "Embeddings Inference (/embed, /predict, /rerank) work unchanged; / is a test page. Requests are\n"
      "batched; results have the same bits as those of the commands. SIGTERM stops after in-flight\n"
      "requests, SIGHUP reloads the models. See docs/serving.md.",
      "qkv serve de=model-de all-MiniLM-L6-v2 --port 8080\n"
      "  curl localhost:8080/translate -d '{\"q\": \"A house.\", \"source\": \"en\", \"target\": \"de\"}'");
  const auto arguments = std::make_shared<ServeArguments>();
  arguments->engine.engine = serve::WorkOptions().engine;
  add_option(*command, "models", arguments->models, "[NAME=]DIR|FILE.gguf",
             "Model folders or GGUF files, and their names in requests (default: the folder's name, or that\n"
             "of the file without .gguf)")
      ->required();
  add_load_options(*command, arguments->load);
  add_field_options(*command, arguments->http);
  add_engine_options(*command, arguments->engine);
  add_prompt_options(*command, arguments->engine);
  add_option(*command, "--queue", arguments->queue, "N",
             "Maximum number of queued prompts, texts or images per model; 429 beyond")
      ->check(at_least(1));
  add_option(*command, "--max-wait-ms", arguments->max_wait_ms, "MS",
             "Maximum time that an encoder waits for a full batch")
      ->check(in_range(0.0, 10'000.0));
  add_option(*command, "--deadline", arguments->deadline, "SECONDS",
             "Maximum time from a request's arrival to its result; then 504. X-Timeout-Ms may shorten it")
      ->check(seconds_from(0.001));
  add_option(*command, "--drain", arguments->drain, "SECONDS",
             "Maximum time for in-flight requests at shutdown")
      ->check(seconds_from(0));
  add_option(*command, "--drain-delay", arguments->drain_delay, "SECONDS",
             "Time before shutdown in which /ready returns 503 and other requests still succeed, so that\n"
             "load balancers notice")
      ->check(seconds_from(0));
  add_option(
      *command, "--key-file", arguments->key_file, "FILE",
      "API keys, one per line, that requests send as 'Authorization: Bearer KEY' (default: none, open\n"
      "to all)");
  add_option(*command, "--log", arguments->log, "FILE",
             "Append one JSON line per request, without its texts: time, id, client, method, path, status,\n"
             "seconds, bytes; SIGHUP reopens the file; /dev/stderr works too (default: none)");
  add_option(*command, "--cors-origin", arguments->cors_origin, "ORIGIN",
             "Origin whose web pages may send requests; '*': any (default: none)");
  add_threads_option(*command);
  command->callback([arguments] { serve_models(*arguments); });
}

}  // namespace qkv::apps
