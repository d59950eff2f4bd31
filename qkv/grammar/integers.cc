#include "qkv/grammar/integers.h"

#include <algorithm>
#include <string>

namespace qkv::grammar {
namespace {

Symbol digits_from(char least, char most) { return {.bytes = ranges(std::string{least, most})}; }

// Adds the numbers between two of the same number of digits, after `before`.
void add_between(Grammar& grammar, int32_t to, const Symbols& before, const std::string& least,
                 const std::string& most) {
  const size_t left = least.size();
  if (left == 0) return grammar.add(to, before);
  const bool all = least.find_first_not_of('0') == least.npos && most.find_first_not_of('9') == most.npos;
  if (all) return grammar.add(to, sequence(before, Symbols(left, digits_from('0', '9'))));
  if (least[0] == most[0])
    return add_between(grammar, to, sequence(before, literal(least.substr(0, 1))), least.substr(1),
                       most.substr(1));
  const std::string zeros(left - 1, '0'), nines(left - 1, '9');
  // The first digit of the least one, those between, that of the most.
  char first = least[0], last = most[0];
  if (least.substr(1) != zeros) {
    add_between(grammar, to, sequence(before, digits_from(first, first)), least.substr(1), nines);
    ++first;
  }
  if (most.substr(1) != nines) {
    add_between(grammar, to, sequence(before, digits_from(last, last)), zeros, most.substr(1));
    --last;
  }
  if (first <= last)
    grammar.add(to, sequence(before, digits_from(first, last), Symbols(left - 1, digits_from('0', '9'))));
}

// Not negative ones, of each number of digits.
void add_between(Grammar& grammar, int32_t to, const Symbols& sign, int64_t least, int64_t most) {
  for (int64_t first = least; first <= most;) {
    const std::string digits = std::to_string(first);
    const int64_t last = std::min<int64_t>(most, std::stoll(std::string(digits.size(), '9')));
    add_between(grammar, to, sign, digits, std::to_string(last));
    first = last + 1;
  }
}

}  // namespace

int32_t integers_between(Grammar& grammar, int64_t least, int64_t most) {
  const int32_t rule = grammar.new_rule();
  add_between(grammar, rule, {}, std::max<int64_t>(least, 0), most);
  add_between(grammar, rule, literal("-"), std::max<int64_t>(-most, 1), -least);
  return rule;
}

}  // namespace qkv::grammar
