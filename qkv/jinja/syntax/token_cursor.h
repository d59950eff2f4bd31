#pragma once
// The tokens of a template, from the first to the last.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/jinja/syntax/lexer.h"

namespace qkv::jinja {

using Words = std::initializer_list<std::string_view>;

std::string described(const Token& token);  // for messages

class TokenCursor {
 public:
  TokenCursor(std::string_view source, const std::string& name)
      : name_(name), tokens_(tokenize(source, name)) {}

 protected:
  // Counts the recursion.
  class Nested {
   public:
    explicit Nested(TokenCursor& parser) : depth_(parser.nesting_) {
      if (++depth_ > kMaxNesting) {
        --depth_;
        parser.fail(
            concat("expected at most ", kMaxNesting, " nested blocks, brackets and operators, found more"));
      }
    }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int& depth_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at(name_, current().line, what); }
  [[noreturn]] void expected(const std::string& what) const {
    fail("expected " + what + ", found " + described(current()));
  }
  bool is(Token::Kind kind) const { return current().kind == kind; }
  static bool is_word(const Token& token, std::string_view word) {
    return token.kind == Token::Kind::name && token.text == word;
  }
  bool is_word(std::string_view word) const { return is_word(current(), word); }
  bool is_any(Words words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
  }
  static bool is_op(const Token& token, std::string_view op) {
    return token.kind == Token::Kind::op && token.text == op;
  }
  bool is_op(std::string_view op) const { return is_op(current(), op); }
  bool skip_word(std::string_view word) {
    const bool found = is_word(word);
    if (found) take();
    return found;
  }
  bool skip_op(std::string_view op) {
    const bool found = is_op(op);
    if (found) take();
    return found;
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) expected(concat("'", op, "'"));
  }
  void expect_word(std::string_view word) {
    if (!skip_word(word)) expected(concat("'", word, "'"));
  }
  void expect(Token::Kind kind) {
    if (!is(kind)) expected(described({.kind = kind, .text = "", .value = {}}));
    take();
  }
  std::string expect_name() {
    if (!is(Token::Kind::name)) expected("a name");
    return take().text;
  }

  const std::string& name_;

 private:
  static constexpr int kMaxNesting = 100;  // of brackets, blocks, unary and conditional operators

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace qkv::jinja
