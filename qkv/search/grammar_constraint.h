#pragma once
// Outputs that a grammar describes.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qkv/grammar/machine.h"
#include "qkv/search/constraint.h"

namespace qkv::search {

// The bytes of a vocabulary's tokens.
class TokenBytes {
 public:
  // Of each id; empty: the token is in no output.
  explicit TokenBytes(std::vector<std::string> bytes);

  int64_t size() const { return std::ssize(bytes_); }
  const std::string& of(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  // The ids with bytes, in the order of their bytes.
  const std::vector<int32_t>& sorted() const { return sorted_; }
  // The number of bytes that each of them and the one before begin with.
  const std::vector<int32_t>& shared() const { return shared_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<int32_t> sorted_, shared_;
};

// Where in an output the text of a grammar begins.
struct GrammarStart {
  // The output is free before the first occurrence of this text, with which all texts of the grammar begin;
  // it may have none. Empty: the whole output is a text of the grammar.
  std::string trigger = {};
  bool first = false;  // only a trigger that begins the output counts, after kBlanks
  static constexpr std::string_view kBlanks = " \t\n\r";
};

// Allows the tokens whose bytes continue a text of the grammar, and the end tokens where a text may end. A
// token may have the bytes of several symbols, or a part of a character. Before a trigger all tokens are
// allowed but those that end it and go on otherwise. The tokens of a state are computed once. Throws
// UsageError if the text is incomplete and no allowed token continues it (the vocabulary has none, or other
// options forbid them all), and if the grammar is too ambiguous to compute the tokens quickly.
class GrammarConstraint final : public Constraint {
 public:
  // Throws the errors of grammar::Machine, and UsageError if no text of the grammar begins with the trigger.
  GrammarConstraint(std::shared_ptr<const TokenBytes> tokens, const grammar::Grammar& grammar,
                    GrammarStart start = {});

  void apply(const StepContext& context, NextTokens& next) const override;

 private:
  struct Allowed {
    std::vector<bool> tokens;  // by id
    bool any = false, end = false;
    bool all = false;  // every token
  };
  // After a part of an output: a state of the grammar (0 or more); before the trigger, ~n after n of its
  // bytes.
  using Place = int32_t;
  static constexpr Place kDead = INT32_MIN, kFree = INT32_MIN + 1;  // no text; no trigger counts any more

  std::string text_of(Ids output) const;
  std::shared_ptr<const Allowed> after(Ids output) const;
  Place place_after(Ids output) const;
  Place start_place() const;
  Place after_byte(Place place, uint8_t byte) const;
  Place after_token(Place place, int32_t id) const;
  Allowed allowed_in(grammar::Machine::State state) const;
  Allowed allowed_before_trigger(Place place) const;

  std::shared_ptr<const TokenBytes> tokens_;
  GrammarStart begin_;
  std::vector<size_t> borders_;  // of the trigger's first n bytes: the longest proper prefix that ends them
  mutable std::mutex mutex_;
  mutable grammar::Machine machine_;
  mutable std::unordered_map<Place, std::shared_ptr<const Allowed>> allowed_;
  struct Walked {
    std::vector<int32_t> ids;
    Place place;
  };
  mutable std::vector<Walked> walked_;  // the last outputs
  mutable size_t oldest_ = 0;           // of them, counted on
  mutable int64_t most_states_;         // before the caches are cleared
};

}  // namespace qkv::search
