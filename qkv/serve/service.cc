#include "qkv/serve/service.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/serve/protocols/json_text.h"

namespace qkv::serve {
namespace {

// Request metadata for logs and metrics.
struct RequestNote {
  std::string route, id, client, method, path;
};

// A whole number of thousandths, or of millionths, as a decimal number.
std::string decimal_number(int64_t parts, int digits) {
  std::array<char, 32> text{};
  const int64_t unit = digits == 3 ? 1'000 : 1'000'000;
  std::snprintf(text.data(), text.size(), "%lld.%0*lld", static_cast<long long>(parts / unit), digits,
                static_cast<long long>(parts % unit));
  return text.data();
}

std::string log_line(const RequestNote& note, int status, double seconds, int64_t bytes) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return concat(R"({"time":)", decimal_number(milliseconds, 3), R"(,"id":)", json_string(note.id),
                R"(,"client":)", json_string(note.client), R"(,"method":)", json_string(note.method),
                R"(,"path":)", json_string(note.path), R"(,"status":)", status, R"(,"seconds":)",
                decimal_number(std::llround(seconds * 1e6), 6), R"(,"bytes":)", bytes, "}");
}

std::vector<std::pair<std::string, std::string>> cors_headers(const ServiceOptions& options) {
  if (options.cors_origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", options.cors_origin},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
}

// Counts and logs a response when it is complete, and adds the common headers.
class CountedReply : public Reply {
 public:
  CountedReply(ReplyHandle reply, RequestMetrics& metrics, const ServiceOptions& options, RequestNote note)
      : reply_(std::move(reply)), metrics_(metrics), options_(options), note_(std::move(note)) {}
  ~CountedReply() override {
    if (counted_.exchange(true)) return;
    try {
      metrics_.count_cancelled(note_.route);
      log(kClientLeft);
    } catch (...) {  // out of memory: a line of the log is lost
    }
  }

  bool send(HttpResponse response) override {
    bytes_ += std::ssize(response.body);
    add_headers(response);
    // Count before sending, so that the metrics include every response a client has received.
    if (!reply_->closed()) count(response.status);
    return reply_->send(std::move(response));
  }
  bool begin(HttpResponse response) override {
    status_ = response.status;
    bytes_ += std::ssize(response.body);
    add_headers(response);
    return reply_->begin(std::move(response));
  }
  bool write(std::string data) override {
    bytes_ += std::ssize(data);
    return reply_->write(std::move(data));
  }
  void end(std::optional<int> failed) override {
    if (!reply_->closed()) count(failed.value_or(status_));
    reply_->end(failed);
  }
  bool closed() const override { return reply_->closed(); }
  void on_closed(std::function<void()> callback) override { reply_->on_closed(std::move(callback)); }
  void at(Clock::time_point time, std::function<void()> callback) override {
    reply_->at(time, std::move(callback));
  }

 private:
  static constexpr int kClientLeft = 499;  // nginx's status for it

  void add_headers(HttpResponse& response) const {
    for (auto& field : cors_headers(options_)) response.headers.push_back(std::move(field));
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  void log(int status) const {
    if (options_.log) options_.log(log_line(note_, status, seconds(), bytes_));
  }
  void count(int status) {
    if (counted_.exchange(true)) return;
    metrics_.count(note_.route, status, seconds());
    log(status);
  }

  ReplyHandle reply_;
  RequestMetrics& metrics_;
  const ServiceOptions& options_;
  RequestNote note_;
  Clock::time_point began_ = Clock::now();
  int status_ = 200;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<bool> counted_ = false;
};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter < 0x7f; });
}

// Of X-Timeout-Ms: nothing without it, or for another value than a positive number.
std::optional<std::chrono::milliseconds> time_limit(const HttpRequest& request) {
  const std::string_view asked = request.header("X-Timeout-Ms");
  int64_t milliseconds = 0;
  const auto parsed = std::from_chars(asked.data(), asked.data() + asked.size(), milliseconds);
  if (parsed.ec != std::errc() || parsed.ptr != asked.data() + asked.size() || milliseconds < 1)
    return std::nullopt;
  return std::chrono::milliseconds(std::min<int64_t>(milliseconds, 86'400'000));
}

// The scheme's case does not matter (RFC 9110, section 11.1).
std::string_view bearer(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = request.header("Authorization");
  if (value.size() < kScheme.size()) return {};
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (!std::ranges::equal(value.substr(0, kScheme.size()), kScheme, same)) return {};
  value.remove_prefix(std::min(value.find_first_not_of(' ', kScheme.size()), value.size()));
  return value;
}

bool matches(const char* route, std::string_view path) {
  const std::string_view pattern = route;
  if (!pattern.ends_with('*')) return path == pattern;
  const std::string_view stem = pattern.substr(0, pattern.size() - 1);
  return path.starts_with(stem) && path.size() > stem.size();
}

// Echoes the requested header names if they are well-formed.
std::string allowed_headers(std::string_view asked) {
  const bool names = !asked.empty() && std::ranges::all_of(asked, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == ',' ||
           letter == ' ';
  });
  return names ? std::string(asked) : "Authorization, Content-Type, X-Request-Id, X-Timeout-Ms";
}

// Compares in a time that does not depend on where the texts differ.
bool equal_keys(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  int difference = 0;
  for (size_t i = 0; i < left.size(); ++i) difference |= left[i] ^ right[i];
  return difference == 0;
}

}  // namespace

std::vector<Route> all_routes() {
  std::vector<Route> routes;
  for (const auto& some :
       {openai_routes(), libretranslate_routes(), tei_routes(), own_routes(), operation_routes()})
    routes.insert(routes.end(), some.begin(), some.end());
  return routes;
}

Service::Service(const ServiceOptions& options)
    : options_(options),
      routes_(all_routes()),
      first_id_(std::random_device()()),
      models_(options.folders, options.load, options.work) {
  if (options.cors_origin.find_first_of("\r\n") != std::string::npos)
    throw UsageError("cors_origin: expected an origin, such as https://example.org, found a line break");
}

Service::~Service() {
  const std::lock_guard lock(reloader_mutex_);
  if (reloader_.joinable()) reloader_.join();
}

void Service::handle(HttpRequest request, ReplyHandle reply) {
  const std::string& method = request.method == "HEAD" ? "GET" : request.method;
  const Route* found = nullptr;
  std::string allowed;
  for (const Route& route : routes_) {
    if (!matches(route.path, request.path)) continue;
    if (method == route.method) found = &route;
    allowed += concat(allowed.empty() ? "" : ", ", route.method);
  }
  static const Route kNoRoute;
  std::string id(request.header("X-Request-Id"));
  if (id.empty() || id.size() > 128 || !is_printable(id)) id = concat("qkv-", first_id_, "-", requests_++);
  const bool bad_time_limit = !request.header("X-Timeout-Ms").empty() && !time_limit(request);
  const auto deadline = deadline_of(request);
  const std::string_view key = bearer(request);
  const bool asks_methods = request.method == "OPTIONS" && (!allowed.empty() || request.path == "*");
  const std::string asked_headers(request.header("Access-Control-Request-Headers"));
  const bool known = is_known(key);
  const std::string client = client_of(request);
  std::string logged_client = request.peer;
  if (known && key.size() > 8) logged_client += concat(", key ", key.substr(0, 4), "...");
  auto counted = std::make_shared<CountedReply>(
      std::move(reply), metrics_, options_,
      RequestNote{found ? found->path : "other", id, logged_client, request.method, request.path});
  const auto exchange = std::make_shared<Exchange>(std::move(request), std::move(counted), std::move(id),
                                                   client, deadline, found ? *found : kNoRoute);
  try {
    if (asks_methods) {
      const std::string methods = allowed.empty() ? "GET, HEAD, POST" : allowed;
      HttpResponse response{.status = 204, .headers = {{"Allow", methods}}};
      if (!options_.cors_origin.empty()) {
        response.headers.emplace_back("Access-Control-Allow-Methods", methods);
        response.headers.emplace_back("Access-Control-Allow-Headers", allowed_headers(asked_headers));
        response.headers.emplace_back("Access-Control-Max-Age", "600");
      }
      return exchange->send(std::move(response));
    }
    if (allowed.empty()) {
      throw HttpError(404, concat("expected a path of this server, found '", exchange->request().path, "'"),
                      "invalid_request_error", "not_found");
    }
    if (!found) {
      const HttpError error(405, concat("expected method ", allowed, ", found ", exchange->request().method),
                            "invalid_request_error", "method_not_allowed");
      return exchange->send({.status = 405, .body = openai_error(error), .headers = {{"Allow", allowed}}});
    }
    if (!options_.keys.empty() && !found->open && !known) {
      throw HttpError(401, key.empty() ? "expected an API key: Authorization: Bearer KEY" : "wrong API key",
                      "authentication_error", "invalid_api_key");
    }
    if (bad_time_limit)
      throw HttpError(400, "X-Timeout-Ms: expected a positive number of milliseconds, found another value");
    if (deadline <= Clock::now() && !found->quick) throw DeadlineExceeded();
    found->handle(*this, exchange);
  } catch (...) {
    exchange->fail(std::current_exception());
  }
}

Clock::time_point Service::deadline_of(const HttpRequest& request) const {
  return request.arrived + std::min(options_.deadline, time_limit(request).value_or(options_.deadline));
}

bool Service::is_known(std::string_view key) const {
  return std::ranges::any_of(options_.keys, [&](const std::string& one) { return equal_keys(one, key); });
}

std::string Service::client_of(const HttpRequest& request) const {
  const std::string_view key = bearer(request);
  return is_known(key) ? concat("key ", key) : request.peer;
}

void Service::reload() {
  models_.reload();
  ++reloads_;
}

void Service::reload_later(std::function<void(const std::exception_ptr& error)> done) {
  const std::lock_guard lock(reloader_mutex_);
  if (reloading_.exchange(true)) throw HttpError(409, "reload: expected none under way, found one");
  if (reloader_.joinable()) reloader_.join();
  try {
    reloader_ = std::thread([this, done = std::move(done)] {
      std::exception_ptr error;
      try {
        reload();
      } catch (...) {
        error = std::current_exception();
      }
      reloading_ = false;  // cleared before replying, so that a client can retry at once
      done(error);
    });
  } catch (...) {
    reloading_ = false;
    throw;
  }
}

std::vector<std::pair<std::string, std::string>> Service::common_headers() const {
  return cors_headers(options_);
}

bool Service::is_quick(std::string_view path) const {
  return std::ranges::any_of(routes_,
                             [&](const Route& route) { return route.quick && matches(route.path, path); });
}

void Service::note_refused(const std::string& peer, int status) {
  if (options_.log) options_.log(log_line({"", "", peer, "", ""}, status, 0, 0));
}

void Service::count_http(std::function<HttpCounts()> counts) {
  const std::lock_guard lock(http_mutex_);
  http_counts_ = std::move(counts);
}

std::string Service::metrics() const {
  MetricsText text;
  metrics_.write(text);
  std::function<HttpCounts()> http_counts;
  {
    const std::lock_guard lock(http_mutex_);
    http_counts = http_counts_;
  }
  if (http_counts) {
    const HttpCounts counts = http_counts();
    text.family("qkv_connections", "gauge", "Open connections.");
    text.sample({}, static_cast<double>(counts.connections));
    text.family("qkv_connections_total", "counter", "Accepted connections.");
    text.sample({}, static_cast<double>(counts.accepted));
    text.family("qkv_malformed_requests_total", "counter", "Requests refused as HTTP.");
    text.sample({}, static_cast<double>(counts.malformed));
    text.family("qkv_pending_bytes", "gauge", "Bytes of requests that arrive or are handled.");
    text.sample({}, static_cast<double>(counts.pending_bytes));
  }
  text.family("qkv_reloads_total", "counter", "Successful reloads of the models.");
  text.sample({}, static_cast<double>(reloads_));

  struct Metric {
    const char* name;
    const char* type;
    const char* help;
    const std::atomic<int64_t> WorkerCounters::*value;
  };
  static constexpr std::array kMetrics{
      Metric{"qkv_queue_requests", "gauge", "Requests that wait for a worker.", &WorkerCounters::waiting},
      Metric{"qkv_running_requests", "gauge", "Requests that a worker computes.", &WorkerCounters::running},
      Metric{"qkv_done_total", "counter", "Requests computed.", &WorkerCounters::done},
      Metric{"qkv_cancelled_total", "counter", "Requests dropped because the client left.",
             &WorkerCounters::cancelled},
      Metric{"qkv_failed_total", "counter", "Requests that ended in an error.", &WorkerCounters::failed},
      Metric{"qkv_expired_total", "counter", "Requests whose deadline passed.", &WorkerCounters::expired},
      Metric{"qkv_refused_total", "counter", "Requests refused because the queue was full.",
             &WorkerCounters::refused},
      Metric{"qkv_steps_total", "counter", "Engine steps, or batches of an encoder.", &WorkerCounters::steps},
      Metric{"qkv_step_rows_total", "counter", "Hypotheses or texts in all steps.", &WorkerCounters::rows},
      Metric{"qkv_step_rows_max", "gauge", "Most hypotheses or texts in one step.",
             &WorkerCounters::max_rows},
      Metric{"qkv_input_tokens_total", "counter", "Tokens read.", &WorkerCounters::tokens_in},
      Metric{"qkv_output_tokens_total", "counter", "Tokens written.", &WorkerCounters::tokens_out},
      Metric{"qkv_cache_reserved_bytes", "gauge", "Memory that running requests may come to need.",
             &WorkerCounters::reserved_bytes}};
  const std::vector<ModelHandle> all = models_.all();
  for (const Metric& metric : kMetrics) {
    text.family(metric.name, metric.type, metric.help);
    for (const ModelHandle& model : all) {
      model->for_each_worker([&](const char* worker, const WorkerCounters& counters) {
        text.sample({{"model", model->name()}, {"worker", worker}},
                    static_cast<double>(counters.*metric.value));
      });
    }
  }
  return text.take();
}

}  // namespace qkv::serve
