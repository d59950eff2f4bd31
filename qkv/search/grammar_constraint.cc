#include "qkv/search/grammar_constraint.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/base/utf8.h"

namespace qkv::search {
namespace {

using grammar::Machine;

// Caches are cleared beyond these sizes: a kilobyte a state, a bit a token and entry. An output with more
// states than that has room for twice as many as it has.
constexpr int64_t kMostStates = 50'000;
constexpr size_t kMostKept = 1'000;
constexpr size_t kMostWalked = 64;
constexpr int64_t kMostWork = 1'000'000;  // to compute the tokens of a state, in Machine::work()

}  // namespace

TokenBytes::TokenBytes(std::vector<std::string> bytes) : bytes_(std::move(bytes)) {
  for (int32_t id = 0; id < size(); ++id) {
    if (!of(id).empty()) sorted_.push_back(id);
  }
  std::ranges::sort(sorted_, [this](int32_t a, int32_t b) { return of(a) < of(b); });
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const std::string& own = of(sorted_[i]);
    const std::string_view before = i == 0 ? std::string_view() : of(sorted_[i - 1]);
    shared_.push_back(static_cast<int32_t>(std::ranges::mismatch(own, before).in1 - own.begin()));
  }
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<const TokenBytes> tokens,
                                     const grammar::Grammar& grammar, GrammarStart start)
    : tokens_(std::move(tokens)), begin_(std::move(start)), machine_(grammar), most_states_(kMostStates) {
  const std::string& trigger = begin_.trigger;
  borders_.assign(trigger.size() + 1, 0);
  for (size_t n = 1, border = 0; n < trigger.size(); ++n) {
    while (border > 0 && trigger[n] != trigger[border]) border = borders_[border];
    if (trigger[n] == trigger[border]) ++border;
    borders_[n + 1] = border;
  }
  Place place = start_place();
  for (const char byte : trigger) place = after_byte(place, static_cast<uint8_t>(byte));
  if (place == kDead)
    throw UsageError(
        concat("grammar: expected texts that begin with ", quoted_json(trigger), ", found none"));
}

GrammarConstraint::Place GrammarConstraint::start_place() const {
  return begin_.trigger.empty() ? machine_.start() : ~0;
}

GrammarConstraint::Place GrammarConstraint::after_byte(Place place, uint8_t byte) const {
  if (place == kDead || place == kFree) return place;
  if (place >= 0) {
    const Machine::State next = machine_.next(place, byte);
    return next == Machine::kDead ? kDead : next;
  }
  const std::string& trigger = begin_.trigger;
  const Place bytes = ~place;
  auto matched = static_cast<size_t>(bytes);
  if (begin_.first && static_cast<uint8_t>(trigger[matched]) != byte)
    return matched == 0 && GrammarStart::kBlanks.find(static_cast<char>(byte)) != std::string_view::npos
               ? place
               : kFree;
  while (matched > 0 && static_cast<uint8_t>(trigger[matched]) != byte) matched = borders_[matched];
  if (static_cast<uint8_t>(trigger[matched]) == byte) ++matched;
  if (matched < trigger.size()) return ~static_cast<Place>(matched);
  Machine::State state = machine_.start();
  for (const char one : trigger) {
    state = machine_.next(state, static_cast<uint8_t>(one));
    if (state == Machine::kDead) return kDead;
  }
  return state;
}

// Tokens without bytes, such as special ones, are in no text: a free text goes on, one of the grammar cannot.
GrammarConstraint::Place GrammarConstraint::after_token(Place place, int32_t id) const {
  if (id < 0 || id >= tokens_->size() || tokens_->of(id).empty()) return place >= 0 ? kDead : place;
  for (const char byte : tokens_->of(id)) place = after_byte(place, static_cast<uint8_t>(byte));
  return place;
}

GrammarConstraint::Allowed GrammarConstraint::allowed_before_trigger(Place place) const {
  Allowed allowed{
      .tokens = std::vector<bool>(static_cast<size_t>(tokens_->size()), true), .any = true, .end = true};
  allowed.all = true;
  for (const int32_t id : tokens_->sorted()) {
    if (place == kFree || after_token(place, id) != kDead) continue;
    allowed.tokens[static_cast<size_t>(id)] = allowed.all = false;
  }
  return allowed;
}

GrammarConstraint::Allowed GrammarConstraint::allowed_in(Machine::State state) const {
  Allowed allowed{.tokens = std::vector<bool>(static_cast<size_t>(tokens_->size())),
                  .end = machine_.may_end(state)};
  const int64_t before = machine_.work();
  std::vector<Machine::State> states{state};  // after 0, 1, ... bytes of the last token
  for (size_t i = 0; i < tokens_->sorted().size(); ++i) {
    const auto shared = static_cast<size_t>(tokens_->shared()[i]);
    // The last token was left after a byte that this one has as well.
    if (shared >= states.size()) continue;
    states.resize(shared + 1);
    const int32_t id = tokens_->sorted()[i];
    const std::string& bytes = tokens_->of(id);
    while (states.size() <= bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[states.size() - 1]);
      const Machine::State reached = machine_.next(states.back(), byte);
      if (reached == Machine::kDead) break;
      states.push_back(reached);
    }
    if (machine_.work() - before > kMostWork)
      throw UsageError(
          "grammar: expected a less ambiguous grammar, found one whose allowed tokens take too long to "
          "compute");
    if (states.size() <= bytes.size()) continue;
    allowed.any = allowed.tokens[static_cast<size_t>(id)] = true;
  }
  return allowed;
}

std::string GrammarConstraint::text_of(Ids output) const {
  std::string text;
  for (const int32_t id : output) text += tokens_->of(id);
  return repair_utf8(text).text;
}

// Outputs mostly go on by a token since the last call.
GrammarConstraint::Place GrammarConstraint::place_after(Ids output) const {
  const Walked* longest = nullptr;
  for (const Walked& one : walked_) {
    if (one.ids.size() <= output.size() && (longest == nullptr || one.ids.size() > longest->ids.size()) &&
        std::equal(one.ids.begin(), one.ids.end(), output.begin()))
      longest = &one;
  }
  Place place = longest == nullptr ? start_place() : longest->place;
  for (const int32_t id : output.subspan(longest == nullptr ? 0 : longest->ids.size()))
    place = after_token(place, id);
  if (place == kDead) return place;
  if (walked_.size() < kMostWalked) {
    walked_.push_back({{output.begin(), output.end()}, place});
  } else {
    walked_[oldest_++ % kMostWalked] = {{output.begin(), output.end()}, place};
  }
  return place;
}

std::shared_ptr<const GrammarConstraint::Allowed> GrammarConstraint::after(Ids output) const {
  const std::lock_guard lock(mutex_);
  if (allowed_.size() > kMostKept) allowed_.clear();
  if (machine_.states() > most_states_) {
    allowed_.clear();
    walked_.clear();
    machine_.clear();
  }
  const Place place = place_after(output);
  if (place == kDead) return nullptr;
  if (machine_.states() > most_states_) most_states_ = 2 * machine_.states();
  std::shared_ptr<const Allowed>& known = allowed_[place];
  if (!known)
    known = std::make_shared<const Allowed>(place >= 0 ? allowed_in(place) : allowed_before_trigger(place));
  return known;
}

void GrammarConstraint::apply(const StepContext& context, NextTokens& next) const {
  const std::shared_ptr<const Allowed> allowed = after(context.output());
  if (allowed && !allowed->any && !allowed->end) {
    throw UsageError(concat("grammar: expected a vocabulary with a token that goes on after ",
                            quoted_json(text_of(context.output())), ", found none"));
  }
  if (allowed && allowed->all) return;
  bool left = false;
  for (int32_t id = 0; id < next.vocabulary(); ++id) {
    const bool known = allowed && id < tokens_->size() && allowed->tokens[static_cast<size_t>(id)];
    const bool ends = allowed && allowed->end && std::ranges::find(context.ends, id) != context.ends.end();
    if (!known && !ends) next.forbid(id);
    left = left || next.allows(id);
  }
  if (left || !allowed) return;
  // The text is complete: a minimum of tokens cannot make it longer.
  if (allowed->end && !context.ends.empty()) return next.force(context.ends.front());
  throw UsageError(concat("grammar: expected a token that goes on after ",
                          quoted_json(text_of(context.output())),
                          ", found all of them forbidden by other options"));
}

}  // namespace qkv::search
