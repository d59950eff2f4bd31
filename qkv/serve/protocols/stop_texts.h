#pragma once
// Ends a stream of text before the first of some texts, which may arrive in pieces.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::serve {

class StopTexts {
 public:
  // stops: not empty texts.
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is certain to come before any stop; what may be the beginning of one is held back.
  std::string add(std::string_view text);
  // The rest, once no more text comes; empty after a stop.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace qkv::serve
