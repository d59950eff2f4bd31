#include "qkv/serve/protocols/stop_texts.h"

#include <algorithm>

namespace qkv::serve {

std::string StopTexts::add(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string before = held_.substr(0, first);
    held_.clear();
    return before;
  }
  size_t keep = 0;  // the longest end of the text that begins a stop
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(held_.size(), stop.size() - 1); length > keep; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) keep = length;
    }
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace qkv::serve
