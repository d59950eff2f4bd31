#include "qkv/grammar/machine.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/grammar/integers.h"
#include "tests/grammar/accepts.h"
#include "tests/support/scratch.h"

namespace qkv::grammar {
namespace {

using testing::expect_throw;

// Balanced brackets, and a list of any length.
TEST(Machine, ReadsNestedTexts) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  grammar.add(start, {});
  grammar.add(start, sequence(literal("("), rule(start), literal(")"), rule(start)));
  Machine machine(grammar);
  for (const char* text : {"", "()", "(())", "()(())()"}) EXPECT_TRUE(accepts(machine, text)) << text;
  for (const char* text : {"(", ")", "())", "(()"}) EXPECT_FALSE(accepts(machine, text)) << text;
  const std::string deep = std::string(1000, '(') + std::string(1000, ')');
  EXPECT_TRUE(accepts(machine, deep));
  EXPECT_FALSE(accepts(machine, deep + ")"));
  machine.clear();
  EXPECT_TRUE(accepts(machine, "()()"));
}

TEST(Machine, AListDoesNotNeedMoreStates) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  grammar.add(start, literal("."));
  grammar.add(start, sequence(byte_of("az"), rule(start)));
  Machine machine(grammar);
  EXPECT_TRUE(accepts(machine, std::string(10'000, 'k') + "."));
  EXPECT_LE(machine.states(), 3);
}

// A prefix may be ambiguous: all its parses go on.
TEST(Machine, FollowsAllParses) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  for (const char* text : {"ab", "abc", "abd", "b"}) grammar.add(start, literal(text));
  Machine machine(grammar);
  for (const char* text : {"ab", "abc", "abd", "b"}) EXPECT_TRUE(accepts(machine, text)) << text;
  for (const char* text : {"a", "abe", "abcd", ""}) EXPECT_FALSE(accepts(machine, text)) << text;
}

TEST(Machine, LeavesOutAlternativesWithoutATextAndRefusesGrammarsWithout) {
  Grammar grammar;
  const int32_t start = grammar.new_rule(), endless = grammar.new_rule(), empty = grammar.new_rule();
  grammar.add(endless, sequence(literal("x"), rule(endless)));
  grammar.add(start, sequence(literal("a"), rule(endless)));
  grammar.add(start, sequence(literal("a"), rule(empty)));
  expect_throw<UsageError>("expected one with a text, found none", [&] { Machine machine(grammar); });
  grammar.add(start, literal("ab"));
  Machine machine(grammar);
  const Machine::State after_a = machine.next(machine.start(), 'a');
  EXPECT_EQ(machine.next(after_a, 'x'), Machine::kDead);
  EXPECT_TRUE(accepts(machine, "ab"));
  expect_throw<UsageError>("found none", [] { Machine{Grammar()}; });
}

TEST(Machine, RefusesRulesThatBeginWithThemselves) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  grammar.add(start, literal("a"));
  grammar.add(start, sequence(rule(start), literal("b")));
  Machine machine(grammar);
  expect_throw<UsageError>("rules to expand at once", [&] { machine.start(); });
}

TEST(Grammar, HasALimit) {
  Grammar grammar;
  const int32_t start = grammar.new_rule();
  const Symbols thousand = literal(std::string(1000, 'a'));
  expect_throw<UsageError>("expected at most 200000 symbols", [&] {
    for (int i = 0; i < 201; ++i) grammar.add(start, thousand);
  });
}

// All intervals of small numbers, and the ends of large ones.
TEST(Integers, AreThoseOfTheInterval) {
  const auto machine_of = [](int64_t least, int64_t most) {
    Grammar grammar;
    integers_between(grammar, least, most);
    return Machine(grammar);
  };
  for (const auto& [least, most] : {std::pair(-12, 7),
                                    {0, 0},
                                    {1, 9},
                                    {5, 123},
                                    {-205, -99},
                                    {-1, 1},
                                    {99, 101},
                                    {-1000, 1000},
                                    {7, 7},
                                    {-100, -100}}) {
    Machine machine = machine_of(least, most);
    for (int x = -1200; x <= 1200; ++x)
      EXPECT_EQ(accepts(machine, std::to_string(x)), x >= least && x <= most)
          << least << " to " << most << ": " << x;
    for (const char* text : {"", "-", "00", "01", "-0", "+1", "1.0", "-01"})
      EXPECT_FALSE(accepts(machine, text)) << text;
  }
  Machine large = machine_of(-kMostInteger, kMostInteger - 1);
  EXPECT_TRUE(accepts(large, "9999999999999998"));
  EXPECT_FALSE(accepts(large, "9999999999999999"));
  EXPECT_TRUE(accepts(large, "-9999999999999999"));
  EXPECT_FALSE(accepts(large, "-10000000000000000"));
  expect_throw<UsageError>("found none", [&] { machine_of(2, 1); });
}

}  // namespace
}  // namespace qkv::grammar
