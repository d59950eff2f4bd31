#pragma once
// Metrics of a server in Prometheus' text format, version 0.0.4.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::serve {

// Writes families of metrics. Label values are escaped.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  // Begins a family; type: "counter", "gauge" or "histogram".
  void family(std::string_view name, std::string_view type, std::string_view help);
  // A sample of the family: its name, with the suffix.
  void sample(const Labels& labels, double value, std::string_view suffix = {});

  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

// Requests by route and status, and their latencies by route. Thread-safe.
class RequestMetrics {
 public:
  // seconds: from the complete request to the end of the answer.
  void count(const std::string& route, int status, double seconds);
  // A request whose client left before its answer.
  void count_cancelled(const std::string& route);
  void write(MetricsText& text) const;

 private:
  // Upper bounds in seconds.
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
  struct Latency {
    std::array<int64_t, kBounds.size()> buckets{};  // not cumulative
    int64_t count = 0;
    double sum = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::map<std::string, int64_t> cancelled_;
  std::map<std::string, Latency> latencies_;
};

}  // namespace qkv::serve
