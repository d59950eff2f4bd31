#include "qkv/serve/protocols/stop_texts.h"

#include <algorithm>

#include "qkv/base/partial_end.h"

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
  size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, partial_end(held_, stop));
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace qkv::serve
