// Outputs of a grammar, in tokens.

#include "qkv/search/grammar_constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "qkv/grammar/json_schema.h"
#include "tests/grammar/accepts.h"
#include "tests/support/scratch.h"

namespace qkv::search {
namespace {

using qkv::testing::expect_throw;

// Token 0 ends, 1 has no bytes; parts of characters, of words, of several symbols.
const std::vector<std::string> kParts{
    "",   "",     "{",  "}",  "\"", "\":", "a",    "b",    "ab",       "{\"",      "\"}", ",\"",
    ": ", " ",    "\n", "1",  "-",  "12",  "\xC3", "\xA4", "\xF0\x9F", "\xE2\x82", "\\u", "00",
    "d8", "true", "tr", "ue", "}}", "[",   "]",    "null", ".",        "e",        "u"};
constexpr int32_t kEnd = 0;

const std::vector<std::string> kSchemas{
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "boolean"}}, "required": ["ab"]})",
    R"({"type": "array", "items": {"type": "string", "maxLength": 2}})",
    R"({"anyOf": [{"const": 1}, {"const": 12}, {"const": "a"}]})"};

// Whether a text may go on to one of the grammar's.
bool begins(grammar::Machine& machine, const std::string& text) {
  grammar::Machine::State state = machine.start();
  for (const char byte : text) {
    state = machine.next(state, static_cast<uint8_t>(byte));
    if (state == grammar::Machine::kDead) return false;
  }
  return true;
}

std::vector<float> scores_after(const Constraint& constraint, const std::vector<int32_t>& history,
                                int64_t prompt) {
  std::vector<float> scores(kParts.size());
  NextTokens next(scores);
  const std::vector<int32_t> ends{kEnd};
  constraint.apply({.history = history, .new_tokens = std::ssize(history) - prompt, .ends = ends}, next);
  return scores;
}

// All outputs of up to four tokens: what is allowed is what the machine reads byte by byte.
TEST(GrammarConstraint, AllowsTheTokensThatGoOn) {
  const auto tokens = std::make_shared<const TokenBytes>(kParts);
  int64_t ended = 0;
  for (const std::string& schema : kSchemas) {
    SCOPED_TRACE(schema);
    const grammar::Grammar described = grammar::grammar_of_json_schema(schema, "schema");
    const GrammarConstraint constraint(tokens, described);
    grammar::Machine machine(described);
    int64_t allowed = 0;
    std::vector<std::vector<int32_t>> open{{1, 6}};  // a prompt, which counts for nothing
    for (int length = 0; length < 4; ++length) {
      std::vector<std::vector<int32_t>> longer;
      for (const std::vector<int32_t>& history : open) {
        std::string text;
        for (size_t i = 2; i < history.size(); ++i) text += kParts[static_cast<size_t>(history[i])];
        const std::vector<float> scores = scores_after(constraint, history, 2);
        for (int32_t id = 0; id < std::ssize(kParts); ++id) {
          const std::string& own = kParts[static_cast<size_t>(id)];
          const bool expected =
              id == kEnd ? accepts(machine, text) : !own.empty() && begins(machine, text + own);
          ASSERT_EQ(scores[static_cast<size_t>(id)] != kImpossible, expected) << text << " + " << own;
          if (!expected) continue;
          ++allowed;
          ended += id == kEnd ? 1 : 0;
          if (id == kEnd) continue;
          longer.push_back(history);
          longer.back().push_back(id);
        }
      }
      open = std::move(longer);
    }
    EXPECT_GT(allowed, 5);
  }
  EXPECT_GT(ended, 5);
}

// All outputs of up to three tokens after an opening, against a search for the trigger in the whole text.
TEST(GrammarConstraint, LeavesTheTextBeforeATriggerFree) {
  const auto tokens = std::make_shared<const TokenBytes>(kParts);
  const grammar::Grammar described = grammar::grammar_of_json_schema(kSchemas[0], "schema");
  grammar::Machine machine(described);
  for (const bool first : {false, true}) {
    const GrammarStart start{.trigger = "{\"a", .first = first};
    const GrammarConstraint constraint(tokens, described, start);
    const auto counts_in = [&](const std::string& text) {
      const size_t at = text.find(start.trigger);
      return at != text.npos && (!first || text.find_first_not_of(" \t\n\r") == at);
    };
    int64_t free = 0, inside = 0, forbidden = 0;
    std::vector<std::vector<int32_t>> open{{}, {2, 4}, {13, 14}, {7, 2}, {2, 2}};
    for (int length = 0; length < 3; ++length) {
      std::vector<std::vector<int32_t>> longer;
      for (const std::vector<int32_t>& output : open) {
        std::string text;
        for (const int32_t id : output) text += kParts[static_cast<size_t>(id)];
        const std::vector<float> scores = scores_after(constraint, output, 0);
        for (int32_t id = 1; id < std::ssize(kParts); ++id) {
          const std::string& own = kParts[static_cast<size_t>(id)];
          const std::string reached = text + own;
          const bool expected =
              !counts_in(reached) ||
              (!own.empty() && begins(machine, reached.substr(reached.find(start.trigger))));
          ASSERT_EQ(scores[static_cast<size_t>(id)] != kImpossible, expected) << text << " + " << own;
          const bool is_inside = reached.find(start.trigger) != reached.npos;
          ++(!expected ? forbidden : is_inside ? inside : free);
          if (!expected || longer.size() > 3000) continue;
          longer.push_back(output);
          longer.back().push_back(id);
        }
        if (text.find(start.trigger) == text.npos) {
          EXPECT_NE(scores[kEnd], kImpossible) << "a text may end";
        }
      }
      open = std::move(longer);
    }
    EXPECT_GT(free, 1000);
    EXPECT_GT(inside, 10);
    EXPECT_GT(forbidden, 10);
  }
  expect_throw<UsageError>("texts that begin with \"x\"",
                           [&] { GrammarConstraint(tokens, described, {.trigger = "x"}); });
}

TEST(GrammarConstraint, FindsTokensOfAStateOnce) {
  std::vector<std::string> many(20'000);
  for (size_t i = 1; i < many.size(); ++i) many[i] = std::to_string(i);
  many[1] = "\"";
  const GrammarConstraint constraint(std::make_shared<const TokenBytes>(many),
                                     grammar::grammar_of_json_schema(R"({"type": "string"})", "schema"));
  std::vector<int32_t> history{1};
  std::vector<float> first(many.size());
  NextTokens next(first);
  constraint.apply({.history = history, .new_tokens = 1}, next);
  for (int i = 0; i < 300; ++i) {
    history.push_back(2 + i);
    std::vector<float> scores(many.size());
    NextTokens more(scores);
    constraint.apply({.history = history, .new_tokens = std::ssize(history)}, more);
    ASSERT_EQ(scores, first);
  }
}

// Tokens that other options have forbidden.
TEST(GrammarConstraint, OtherOptionsEndOrRefuseATextButDoNotCutIt) {
  const GrammarConstraint constraint(std::make_shared<const TokenBytes>(kParts),
                                     grammar::grammar_of_json_schema(R"({"type": "boolean"})", "schema"));
  const std::vector<int32_t> ends{kEnd};
  const auto apply = [&](const std::vector<int32_t>& history, int32_t forbidden) {
    std::vector<float> scores(kParts.size(), -1.0f);
    NextTokens next(scores);
    next.forbid(forbidden);
    constraint.apply({.history = history, .new_tokens = 1, .ends = ends}, next);
    return scores;
  };
  EXPECT_EQ(apply({25}, kEnd)[kEnd], 0.0f) << "\"true\" is forced to end, whatever the minimum of tokens";
  EXPECT_EQ(apply({26}, 6)[27], -1.0f);
  expect_throw<UsageError>("goes on after \"tru\", found all of them forbidden by other options", [&] {
    std::vector<float> scores(kParts.size());
    NextTokens next(scores);
    next.forbid(33);  // "e"
    const std::vector<int32_t> history{26, 34};
    constraint.apply({.history = history, .new_tokens = 2, .ends = ends}, next);
  });
}

// Every bracket doubles the number of parses.
TEST(GrammarConstraint, TooManyParsesAreAnError) {
  const GrammarConstraint constraint(
      std::make_shared<const TokenBytes>(
          std::vector<std::string>{"", std::string(9, '['), std::string(40, '[')}),
      grammar::grammar_of_json_schema(
          R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
                        {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}]})",
          "schema"));
  std::vector<float> scores(3);
  NextTokens next(scores);
  const std::vector<int32_t> history{1};
  expect_throw<UsageError>("expected at most 10000 parses of a prefix",
                           [&] { constraint.apply({.history = history, .new_tokens = 1}, next); });
}

// Few parses of each prefix, but a state of its own after every byte.
TEST(GrammarConstraint, TokensThatTakeTooLongToComputeAreAnError) {
  std::vector<std::string> tokens{"", "\""};
  for (char a = 'a'; a <= 'z'; ++a)
    for (int length = 1; length <= 60; ++length) tokens.emplace_back(static_cast<size_t>(length), a);
  const auto bytes = std::make_shared<const TokenBytes>(tokens);
  const auto apply_to = [&](int alternatives) {
    std::string schema;
    for (int i = 0; i < alternatives; ++i)
      schema += concat(schema.empty() ? "" : ",", R"({"type": "string", "maxLength": )", 100 + i, "}");
    const GrammarConstraint constraint(
        bytes, grammar::grammar_of_json_schema(concat(R"({"anyOf": [)", schema, "]}"), "schema"));
    std::vector<float> scores(tokens.size());
    NextTokens next(scores);
    const std::vector<int32_t> history{1};
    constraint.apply({.history = history, .new_tokens = 1}, next);
  };
  EXPECT_NO_THROW(apply_to(3));
  expect_throw<UsageError>("expected a less ambiguous grammar", [&] { apply_to(100); });
}

// Values with common beginnings, more than an output could follow one by one.
TEST(GrammarConstraint, AnEnumMayHaveManyValues) {
  std::string values;
  for (int i = 0; i < 8000; ++i) values += concat(values.empty() ? "" : ",", "\"item-", i, "\"");
  std::vector<std::string> tokens{"",    "\"",   "\"it", "em-", "i",    "7", "79",
                                  "799", "7999", "8",    "80",  "8000", "x"};
  std::string constants;
  for (int i = 0; i < 8000; ++i)
    constants += concat(constants.empty() ? "" : ",", "{\"const\": \"item-", i, "\"}");
  const auto constraint_of = [&](const std::string& schema) {
    return GrammarConstraint(std::make_shared<const TokenBytes>(tokens),
                             grammar::grammar_of_json_schema(schema, "schema"));
  };
  for (const std::string& schema :
       {concat(R"({"enum": [)", values, "]}"), concat(R"({"anyOf": [)", constants, "]}")}) {
    const GrammarConstraint constraint = constraint_of(schema);
    const auto allowed_after = [&](const std::vector<int32_t>& history) {
      std::vector<float> scores(tokens.size());
      NextTokens next(scores);
      constraint.apply({.history = history, .new_tokens = std::ssize(history)}, next);
      std::vector<std::string> allowed;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (std::isfinite(scores[i])) allowed.push_back(tokens[i]);
      }
      return allowed;
    };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(allowed_after({}), (Texts{"\"", "\"it"}));
    EXPECT_EQ(allowed_after({2, 3}), (Texts{"7", "79", "799", "7999", "8", "80"}));
    EXPECT_EQ(allowed_after({2, 3, 8}), (Texts{"\""}));
  }
}

TEST(GrammarConstraint, AVocabularyWithoutATokenIsAnError) {
  const GrammarConstraint constraint(std::make_shared<const TokenBytes>(kParts),
                                     grammar::grammar_of_json_schema(R"({"const": "xyz"})", "schema"));
  expect_throw<UsageError>("expected a vocabulary with a token that goes on after \"\\\"\", found none", [&] {
    scores_after(constraint, {1, 4}, 1);
  });
  // Another rule has forced a token that the grammar refuses: nothing may follow.
  for (const float score : scores_after(constraint, {1, 6}, 1)) EXPECT_EQ(score, kImpossible);
}

}  // namespace
}  // namespace qkv::search
