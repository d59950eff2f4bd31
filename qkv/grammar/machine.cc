#include "qkv/grammar/machine.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "qkv/base/error.h"

namespace qkv::grammar {
namespace {

// Whether each rule describes a text: the least set in which a rule is if one of its alternatives has only
// bytes and rules of the set.
std::vector<bool> with_texts(const std::vector<std::vector<Symbols>>& rules) {
  std::vector<bool> known(rules.size());
  const auto has_text = [&](const Symbols& alternative) {
    return std::ranges::all_of(alternative, [&](const Symbol& symbol) {
      return symbol.rule < 0 ? symbol.bytes.any() : known[static_cast<size_t>(symbol.rule)];
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = rules.size(); i-- > 0;) {  // rules mostly use later ones
      if (known[i] || !std::ranges::any_of(rules[i], has_text)) continue;
      known[i] = changed = true;
    }
  }
  return known;
}

}  // namespace

// Alternatives without texts are left out, so that no prefix is a dead end.
Machine::Machine(const Grammar& grammar) {
  const std::vector<bool> known = with_texts(grammar.rules());
  if (known.empty() || !known[0]) throw UsageError("grammar: expected one with a text, found none");
  std::unordered_map<Bytes, int32_t> set_numbers;
  for (const std::vector<Symbols>& rule : grammar.rules()) {
    std::vector<int32_t>& firsts = alternatives_.emplace_back();
    for (const Symbols& alternative : rule) {
      const auto first = static_cast<int32_t>(symbols_.size());
      bool has_text = true;
      for (const auto& [number, bytes] : alternative) {
        if (number >= 0) {
          has_text = has_text && known[static_cast<size_t>(number)];
          symbols_.push_back({Entry::rule, number});
          continue;
        }
        has_text = has_text && bytes.any();
        const auto [at, added] = set_numbers.try_emplace(bytes, static_cast<int32_t>(sets_.size()));
        if (added) sets_.push_back(bytes);
        symbols_.push_back({Entry::byte, at->second});
      }
      symbols_.push_back({Entry::end, 0});
      if (has_text) {
        firsts.push_back(first);
      } else {
        symbols_.resize(static_cast<size_t>(first));
      }
    }
  }
}

int32_t Machine::number_of(Stack stack) {
  const auto [at, added] = stack_numbers_.try_emplace(stack, static_cast<int32_t>(stacks_.size()));
  if (added) stacks_.push_back(stack);
  return at->second;
}

void Machine::expand(Stack stack, std::set<Stack>& seen, Stacks& found) {
  std::vector<Stack> open{stack};
  while (!open.empty()) {
    const Stack own = open.back();
    open.pop_back();
    ++work_;
    if (!seen.insert(own).second) continue;
    const auto [position, below] = own;
    const auto& [kind, value] = symbols_[static_cast<size_t>(position)];
    if (kind == Entry::byte) {
      found.push_back(number_of(own));
    } else if (kind == Entry::end) {
      if (below == kBottom) {
        found.push_back(kBottom);
      } else {
        open.push_back(stacks_[static_cast<size_t>(below)]);
      }
    } else {
      // After a rule at the end nothing is left to do here: lists do not make the stack grow.
      const bool last = symbols_[static_cast<size_t>(position) + 1].kind == Entry::end;
      const int32_t rest = last ? below : number_of({position + 1, below});
      for (const int32_t first : alternatives_[static_cast<size_t>(value)]) open.emplace_back(first, rest);
    }
    constexpr size_t kMost = 100'000;
    if (seen.size() > kMost)
      throw UsageError(concat("grammar: expected at most ", kMost, " rules to expand at once, found more"));
  }
}

Machine::State Machine::state_of(Stacks stacks) {
  constexpr size_t kMostParses = 10'000;
  if (stacks.size() > kMostParses)
    throw UsageError(concat("grammar: expected at most ", kMostParses, " parses of a prefix, found more"));
  std::ranges::sort(stacks);
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  if (stacks.empty()) return kDead;
  const auto [at, added] = numbers_.try_emplace(stacks, static_cast<State>(states_.size()));
  if (added) {
    ends_.push_back(stacks.front() == kBottom);
    states_.push_back(std::move(stacks));
    nexts_.push_back(std::make_unique<std::array<int32_t, 256>>());
    nexts_.back()->fill(kUnknown);
  }
  return at->second;
}

Machine::State Machine::start() {
  if (start_ != kUnknown) return start_;
  Stacks found;
  std::set<Stack> seen;
  for (const int32_t first : alternatives_[0]) expand({first, kBottom}, seen, found);
  return start_ = state_of(std::move(found));
}

Machine::State Machine::find_next(State state, uint8_t byte) {
  Stacks found;
  std::set<Stack> seen;
  work_ += std::ssize(states_[static_cast<size_t>(state)]);
  for (const int32_t number : states_[static_cast<size_t>(state)]) {
    if (number == kBottom) continue;
    const auto [position, below] = stacks_[static_cast<size_t>(number)];
    if (sets_[static_cast<size_t>(symbols_[static_cast<size_t>(position)].value)].test(byte))
      expand({position + 1, below}, seen, found);
  }
  const State next = state_of(std::move(found));
  (*nexts_[static_cast<size_t>(state)])[byte] = next;
  return next;
}

void Machine::clear() {
  stacks_.clear();
  stack_numbers_.clear();
  numbers_.clear();
  states_.clear();
  nexts_.clear();
  ends_.clear();
  start_ = kUnknown;
}

}  // namespace qkv::grammar
