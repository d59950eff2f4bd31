#include "qkv/serve/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace qkv::serve {
namespace {

// The shortest decimal that reads back as the same double.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  return nlohmann::json(value).dump();
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
  text_.append(name).append(" ").append(type).append("\n");
}

void MetricsText::sample(const Labels& labels, double value, std::string_view suffix) {
  text_.append(name_).append(suffix);
  for (size_t i = 0; i < labels.size(); ++i) {
    text_.append(i == 0 ? "{" : ",").append(labels[i].first).append("=\"");
    for (const char letter : labels[i].second) {
      if (letter == '\n') {
        text_ += "\\n";
        continue;
      }
      if (letter == '\\' || letter == '"') text_ += '\\';
      text_ += letter;
    }
    text_ += '"';
  }
  if (!labels.empty()) text_ += '}';
  text_.append(" ").append(number_text(value)).append("\n");
}

void RequestMetrics::count(const std::string& route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  Latency& latency = latencies_[route];
  const auto bucket = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  if (static_cast<size_t>(bucket) < kBounds.size()) ++latency.buckets[static_cast<size_t>(bucket)];
  ++latency.count;
  latency.sum += seconds;
}

void RequestMetrics::count_cancelled(const std::string& route) {
  const std::lock_guard lock(mutex_);
  ++cancelled_[route];
}

void RequestMetrics::write(MetricsText& text) const {
  const std::lock_guard lock(mutex_);
  text.family("qkv_requests_total", "counter", "Answered requests.");
  for (const auto& [key, count] : requests_) {
    const std::string status = std::to_string(key.second);
    text.sample({{"route", key.first}, {"status", status}}, static_cast<double>(count));
  }
  text.family("qkv_requests_cancelled_total", "counter", "Requests whose client left before the answer.");
  for (const auto& [route, count] : cancelled_) text.sample({{"route", route}}, static_cast<double>(count));
  text.family("qkv_request_seconds", "histogram", "Time from the complete request to the end of its answer.");
  for (const auto& [route, latency] : latencies_) {
    int64_t below = 0;
    for (size_t i = 0; i < kBounds.size(); ++i) {
      below += latency.buckets[i];
      const std::string bound = number_text(kBounds[i]);
      text.sample({{"route", route}, {"le", bound}}, static_cast<double>(below), "_bucket");
    }
    text.sample({{"route", route}, {"le", "+Inf"}}, static_cast<double>(latency.count), "_bucket");
    text.sample({{"route", route}}, latency.sum, "_sum");
    text.sample({{"route", route}}, static_cast<double>(latency.count), "_count");
  }
}

}  // namespace qkv::serve
