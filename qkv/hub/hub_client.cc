#include "qkv/hub/hub_client.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <thread>

#include "qkv/base/stop.h"

namespace qkv::hub {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostTextBytes = size_t{64} << 20;
constexpr int kMostPages = 1000;
constexpr std::chrono::seconds kLongestWait{300};

std::optional<int64_t> number_at(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

// Retry-After: 60, or the hub's RateLimit: "api";r=0;t=60.
std::optional<std::chrono::seconds> asked_wait(const Answer& answer) {
  std::optional<int64_t> seconds = number_at(answer.field("retry-after"));
  const std::string limit = answer.field("ratelimit");
  if (const size_t at = limit.find(";t="); !seconds && at != limit.npos)
    seconds = number_at(std::string_view(limit).substr(at + 3));
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(std::min<int64_t>(*seconds, 1'000'000));
}

// A server's own words, as far as they can be printed.
std::string printable(std::string text) {
  text.resize(std::min<size_t>(text.size(), 200));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, ' ');
  return text;
}

}  // namespace

void pause_for(milliseconds time, const std::atomic<bool>* stop) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    throw_if_stopped(stop);
    const auto left = end - std::chrono::steady_clock::now();
    std::this_thread::sleep_for(
        std::clamp<std::chrono::nanoseconds>(left, milliseconds(0), milliseconds(50)));
  } while (std::chrono::steady_clock::now() < end);
}

void Patience::after(const Failure& failure) {
  const HubSettings& settings = context_.settings;
  if (!failure.transient) throw failure;
  if (failures_ == settings.retries) {
    throw Failure(concat(failure.what(), "; tried ", failures_ + 1, " times"), /*is_transient=*/false);
  }
  milliseconds wait = settings.pause * (1 << std::min(failures_, 3));
  if (failure.retry_after) {
    if (*failure.retry_after > kLongestWait) {
      throw Failure(concat(failure.what(), "; the server asks to wait ", failure.retry_after->count(), " s"),
                    /*is_transient=*/false);
    }
    wait = *failure.retry_after;
  }
  ++failures_;
  if (context_.say) {
    context_.say(
        concat(failure.what(), "; next attempt in ", static_cast<double>(wait.count()) / 1000, " s"));
  }
  pause_for(wait, context_.stop);
}

HubClient::HubClient(const HubContext& context, std::string id, std::string revision)
    : context_(context),
      id_(std::move(id)),
      revision_(std::move(revision)),
      http_(context_.settings, context_.stop) {}

// What a refusal means follows huggingface_hub's hf_raise_for_status.
void HubClient::refuse(const Answer& answer, const std::string& what, bool is_listed) const {
  const HubSettings& settings = context_.settings;
  const std::string code = answer.field("x-error-code");
  const std::string words = printable(answer.field("x-error-message"));
  const bool has_token = !settings.token.empty();
  const int status = answer.status;
  const auto lasting = [&](const std::string& message) { return Failure(message, /*is_transient=*/false); };
  if (code == "GatedRepo") {
    throw lasting(concat(id_, ": a gated model: its terms must be accepted at ", settings.endpoint, "/", id_,
                         has_token ? ", with the account of the token that was sent"
                                   : ", and HF_TOKEN set to a token of that account"));
  }
  if (code == "RevisionNotFound")
    throw lasting(concat(id_, ": expected a branch, tag or commit '", revision_, "', found none at ",
                         settings.endpoint));
  if (code == "EntryNotFound" || (status == 404 && is_listed)) {
    throw lasting(concat(id_, ": ", what, ": the server has no such file in revision ", revision_));
  }
  if (status == 401 && words.find("nvalid") != words.npos && has_token)
    throw lasting(
        concat(settings.endpoint, ": the token (HF_TOKEN, or the file HF_HOME/token) is not valid"));
  if (code == "RepoNotFound" || status == 401 || status == 404) {
    throw lasting(concat(id_, ": expected a model of ", settings.endpoint, ", found none of this name",
                         has_token ? ", or a private one that the account of the token may not read"
                                   : ", or a private one, which needs HF_TOKEN"));
  }
  const bool transient = status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
  throw Failure(concat(answer.url.origin(), ": ", what, ": status ", status,
                       status == 429 ? " (too many requests)" : "", words.empty() ? "" : ": " + words),
                transient, status == 429 || status == 503 ? asked_wait(answer) : std::nullopt);
}

Answer HubClient::get_text(const Url& url, std::string& text) {
  for (Patience patience(context_);;) {
    try {
      text.clear();
      Answer answer = http_.get(url, {}, {.head = {}, .body = [&](std::string_view piece) {
                                            text += piece;
                                            if (text.size() > kMostTextBytes) {
                                              throw Failure(concat(url.text(), ": expected at most ",
                                                                   kMostTextBytes, " bytes, found more"),
                                                            /*is_transient=*/false);
                                            }
                                          }});
      if (!answer.is_good()) refuse(answer, "list of files");
      return answer;
    } catch (const Failure& failure) {
      patience.after(failure);
    }
  }
}

std::string HubClient::commit() {
  const Url url = parse_url(
      concat(context_.settings.endpoint, "/api/models/", id_, "/revision/", encode_url(revision_, "")));
  std::string text;
  get_text(url, text);
  return read_commit(text, url.text());
}

std::vector<HubFile> HubClient::files(const std::string& commit) {
  Url url = parse_url(concat(context_.settings.endpoint, "/api/models/", id_, "/tree/", commit,
                             "?recursive=true&expand=false"));
  const std::string origin = url.origin();
  std::vector<HubFile> files;
  std::set<std::string> names;
  for (int page = 0; page < kMostPages; ++page) {
    std::string text;
    const Answer answer = get_text(url, text);
    for (HubFile& file : read_tree(text, url.text())) {
      if (!names.insert(file.path).second)
        throw DataError(concat(url.text(), ": expected different files, found ", file.path, " twice"));
      files.push_back(std::move(file));
    }
    const std::optional<std::string> next = next_page(answer.field("link"));
    if (!next) {
      std::ranges::stable_sort(files, {}, &HubFile::bytes);
      return files;
    }
    url = resolve_url(answer.url, *next);
    if (url.origin() != origin && url.origin() != answer.url.origin())
      throw DataError(concat(answer.url.text(), ": next page: expected ", origin, ", found ", url.origin()));
  }
  throw DataError(concat(url.text(), ": expected at most ", kMostPages, " pages of files, found more"));
}

void HubClient::get_file(const std::string& commit, const HubFile& file, int64_t from,
                         const Receiver& receiver) {
  const Url url = parse_url(
      concat(context_.settings.endpoint, "/", id_, "/resolve/", commit, "/", encode_url(file.path, "/")));
  HttpFields fields;
  if (from > 0) fields["range"] = concat("bytes=", from, "-");
  const Answer answer = http_.get(url, fields, receiver);
  if (!answer.is_good()) refuse(answer, file.path, /*is_listed=*/true);
}

}  // namespace qkv::hub
