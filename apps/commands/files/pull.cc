// qkv pull

#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/progress.h"
#include "apps/stop.h"
#include "apps/terminal.h"
#include "qkv/base/stop.h"
#include "qkv/hub/pull.h"

namespace qkv::apps {
namespace {

struct PullArguments {
  std::string model, revision;
  std::vector<std::string> include, exclude;
  bool json = false;
};

// On a terminal, a line that is rewritten in place: file, bytes, rate, time left.
class PullLine {
 public:
  ~PullLine() { clear(); }

  void show(const hub::PullProgress& progress) {
    if (!terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (showing_ && now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    // The rate of the last seconds.
    latest_.emplace_back(now, progress.bytes);
    while (latest_.size() > 2 && now - latest_.front().first > std::chrono::seconds(5)) latest_.pop_front();
    const double seconds = std::chrono::duration<double>(now - latest_.front().first).count();
    const double rate =
        static_cast<double>(progress.bytes - latest_.front().second) / std::max(seconds, 1e-3);
    std::string line =
        concat(progress.file, "  ", bytes_text(progress.bytes), " of ", bytes_text(progress.expected_bytes));
    if (rate > 0 && seconds > 0.2) {
      const double left = static_cast<double>(progress.expected_bytes - progress.bytes) / rate;
      line += concat("  ", bytes_text(static_cast<int64_t>(rate)), "/s  ", clock_time(left), " left");
    }
    std::fputs(("\r" + Style::for_stderr().dim(line) + "\033[K").c_str(), stderr);
    std::fflush(stderr);
    showing_ = true;
  }

  void message(const std::string& text) {
    clear();
    say(text);
  }

  void clear() {
    if (std::exchange(showing_, false)) std::fputs("\r\033[K", stderr);
  }

 private:
  bool terminal_ = stderr_is_terminal(), showing_ = false;
  std::chrono::steady_clock::time_point shown_;
  std::deque<std::pair<std::chrono::steady_clock::time_point, int64_t>> latest_;
};

// "12 files of 3.2 GB: onnx/model.onnx, pytorch_model.bin, ..."
std::string skipped_text(const std::vector<hub::HubFile>& files) {
  constexpr size_t kNamed = 4;
  // The largest are last, and of most interest.
  std::string names;
  int64_t bytes = 0;
  for (size_t i = files.size(); i-- > 0;) {
    bytes += files[i].bytes;
    if (files.size() - i <= kNamed) names += (names.empty() ? "" : ", ") + files[i].path;
  }
  return concat(counted(std::ssize(files), "files"), " of ", bytes_text(bytes), ": ", names,
                files.size() > kNamed ? ", ..." : "");
}

bool any_ends_with(const std::vector<hub::HubFile>& files, std::string_view end) {
  return std::ranges::any_of(files, [&](const hub::HubFile& file) { return file.path.ends_with(end); });
}

void report(const PullArguments& arguments, const hub::PullResult& result) {
  if (!result.files.empty()) {
    int64_t bytes = 0;
    for (const hub::HubFile& file : result.files) bytes += file.bytes;
    say(concat(arguments.model, ": ", counted(std::ssize(result.files), "files"), " of ", bytes_text(bytes),
               ", ", bytes_text(result.downloaded_bytes), " downloaded"));
  }
  if (!result.skipped.empty())
    say(concat("skipped ", skipped_text(result.skipped), "; --include takes others"));
  if (arguments.include.empty() && !result.files.empty() && !any_ends_with(result.files, ".safetensors") &&
      !any_ends_with(result.files, ".bin")) {
    say(any_ends_with(result.skipped, ".gguf") ? "warning: the model has no weights that are taken by "
                                                 "default; --include takes a GGUF file, such "
                                                 "as '*Q8_0.gguf'"
                                               : "warning: the model has no model.safetensors and no "
                                                 "pytorch_model.bin; a pull request of the hub "
                                                 "may have one: --revision refs/pr/N");
  }
  if (!arguments.json) {
    std::cout << result.folder.string() << '\n';
    return;
  }
  using Json = nlohmann::ordered_json;
  const auto list = [](const std::vector<hub::HubFile>& files) {
    Json items = Json::array();
    for (const hub::HubFile& file : files)
      items.push_back({{"path", file.path}, {"bytes", file.bytes}, {"checksum", file.checksum}});
    return items;
  };
  std::cout << Json{{"model", arguments.model},
                    {"revision", arguments.revision},
                    {"commit", result.commit},
                    {"folder", result.folder.string()},
                    {"downloaded_bytes", result.downloaded_bytes},
                    {"files", list(result.files)},
                    {"skipped", list(result.skipped)}}
                   .dump(2, ' ', false, Json::error_handler_t::replace)
            << '\n';
}

void pull_model(PullArguments arguments) {
  std::optional<hub::ModelName> name = hub::parse_model_name(arguments.model);
  if (!name)
    throw UsageError(
        concat("model: expected a name of the hub, such as ORG/NAME, found '", arguments.model, "'"));
  if (!arguments.revision.empty()) {
    if (arguments.model.find('@') != std::string::npos)
      throw UsageError(concat("--revision: expected one revision, found another in '", arguments.model, "'"));
    if (!hub::is_safe_path(arguments.revision))
      throw UsageError(
          concat("--revision: expected a branch, tag or commit, found '", arguments.revision, "'"));
    name->revision = arguments.revision;
  }
  arguments.revision = name->revision;
  const StopSignals stop;
  PullLine line;
  try {
    const hub::PullResult result =
        hub::pull({.model = *name,
                   .include = arguments.include,
                   .exclude = arguments.exclude,
                   .settings = hub::HubSettings::from_environment(),
                   .stop = stop.flag(),
                   .on_progress = [&](const hub::PullProgress& progress) { line.show(progress); },
                   .on_message = [&](const std::string& message) { line.message(message); }});
    line.clear();
    report(arguments, result);
  } catch (const Stopped&) {
    line.message("stopped; the same command resumes");
    throw ExitStatus{stop.exit_status()};
  }
}

}  // namespace

void add_pull(Command& app) {
  Command* command = add_command(
      app, "pull",
      "Download a model from the Hugging Face hub into its cache, and print its folder. Other commands\n"
      "find it there by its name, and so does Python's huggingface_hub. By default the files that qkv\n"
      "opens. An interrupted download is resumed, checksums are verified. Environment: HF_ENDPOINT,\n"
      "HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE. See\n"
      "docs/pull.md.",
      "qkv pull sentence-transformers/all-MiniLM-L6-v2\n"
      "  qkv embed sentence-transformers/all-MiniLM-L6-v2 'A small house.'");
  const auto arguments = std::make_shared<PullArguments>();
  add_option(*command, "model", arguments->model, "ORG/NAME", "Name on the hub; @REVISION may follow")
      ->required();
  add_option(*command, "--revision", arguments->revision, "REVISION",
             "Branch, tag or commit (default: main)");
  add_option(*command, "--include", arguments->include, "PATTERN",
             "Files to download, such as '*.bin' or 'onnx/*'; may be given several times\n"
             "(default: configurations, tokenizers, chat templates and safetensors)");
  add_option(*command, "--exclude", arguments->exclude, "PATTERN",
             "Files to leave out; may be given several times (default: none)");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments] { pull_model(*arguments); });
}

}  // namespace qkv::apps
