#pragma once
// Reads a text byte by byte and knows whether a grammar's texts begin so: a pushdown automaton with a set of
// stacks, whose sets are numbered states, made when they are first reached.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "qkv/grammar/grammar.h"

namespace qkv::grammar {

// Used by one thread at a time. Every state but kDead is a prefix of a text of the grammar.
class Machine {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  // Throws UsageError for a grammar without texts.
  explicit Machine(const Grammar& grammar);

  // Throws UsageError for rules that begin with themselves without end.
  State start();
  // The state after one more byte; kDead: no text has this prefix. Throws UsageError for a prefix with more
  // than 10,000 parses.
  State next(State state, uint8_t byte) {
    const int32_t known = (*nexts_[static_cast<size_t>(state)])[byte];
    return known == kUnknown ? find_next(state, byte) : known;
  }
  // Whether a text ends here.
  bool may_end(State state) const { return ends_[static_cast<size_t>(state)]; }
  int64_t states() const { return static_cast<int64_t>(nexts_.size()); }
  // A count of what has been computed so far, about a microsecond each.
  int64_t work() const { return work_; }
  // Forgets all states, whose numbers are then void.
  void clear();

 private:
  static constexpr int32_t kUnknown = -2;  // a state that has not been asked for
  static constexpr int32_t kBottom = -1;   // the empty stack

  // What follows a byte or a rule: positions of symbols_, up to one of the kind `end`.
  struct Entry {
    enum Kind : uint8_t { byte, rule, end } kind;
    int32_t value;  // number of the set of bytes, or of the rule
  };
  // A stack: the next position, and the stack below.
  using Stack = std::pair<int32_t, int32_t>;
  using Stacks = std::vector<int32_t>;  // numbers, ascending; kBottom: the text may end

  int32_t number_of(Stack stack);
  // Adds the stacks with a byte on top that `stack` stands for. `seen`: those begun.
  void expand(Stack stack, std::set<Stack>& seen, Stacks& found);
  State state_of(Stacks stacks);
  State find_next(State state, uint8_t byte);

  std::vector<Entry> symbols_;
  std::vector<std::vector<int32_t>> alternatives_;  // of each rule: first positions
  std::vector<Bytes> sets_;

  std::vector<Stack> stacks_;
  std::map<Stack, int32_t> stack_numbers_;
  std::map<Stacks, State> numbers_;
  std::vector<Stacks> states_;
  std::vector<std::unique_ptr<std::array<int32_t, 256>>> nexts_;
  std::vector<bool> ends_;
  State start_ = kUnknown;
  int64_t work_ = 0;
};

}  // namespace qkv::grammar
