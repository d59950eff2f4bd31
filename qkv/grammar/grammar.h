#pragma once
// Context-free grammars over bytes, as rules with alternatives.

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace qkv::grammar {

using Bytes = std::bitset<256>;
// The bytes of these ranges: "azAZ09" is three.
Bytes ranges(std::string_view bounds);

// One byte of a set, or what a rule describes.
struct Symbol {
  int32_t rule = -1;  // -1: a byte
  Bytes bytes = {};
};

using Symbols = std::vector<Symbol>;
Symbols literal(std::string_view text);
inline Symbol byte_of(std::string_view bounds) { return {.bytes = ranges(bounds)}; }
inline Symbol rule(int32_t number) { return {.rule = number}; }

// A concatenation of symbols and lists of them.
template <class... Parts>
Symbols sequence(const Parts&... parts) {
  Symbols all;
  const auto append = [&all](const auto& part) {
    if constexpr (requires { part.begin(); }) {
      all.insert(all.end(), part.begin(), part.end());
    } else {
      all.push_back(part);
    }
  };
  (append(parts), ...);
  return all;
}

// Rule 0 is the start.
class Grammar {
 public:
  // The limit of symbols in all alternatives together.
  static constexpr size_t kMostSymbols = 200'000;

  int32_t new_rule() {
    rules_.emplace_back();
    return static_cast<int32_t>(rules_.size()) - 1;
  }
  // Adds an alternative, perhaps an empty one. Throws UsageError above kMostSymbols.
  void add(int32_t rule, Symbols alternative);
  int32_t new_rule(std::initializer_list<Symbols> alternatives) {
    const int32_t number = new_rule();
    for (const Symbols& one : alternatives) add(number, one);
    return number;
  }
  // Forgets the rules from a number on.
  void truncate(int32_t rules);
  const std::vector<std::vector<Symbols>>& rules() const { return rules_; }

 private:
  std::vector<std::vector<Symbols>> rules_;
  size_t symbols_ = 0;
};

}  // namespace qkv::grammar
