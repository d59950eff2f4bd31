#include "qkv/jinja/syntax/parser.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/jinja/syntax/expressions.h"

namespace qkv::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() { return body({}, ""); }

 private:
  static std::unique_ptr<Statement> statement(Statement::Kind kind, int line) {
    return std::make_unique<Statement>(Statement{.kind = kind,
                                                 .line = line,
                                                 .text = "",
                                                 .expressions = {},
                                                 .targets = {},
                                                 .bodies = {},
                                                 .signature = {}});
  }

  // Statements.

  // To the tag that begins with one of `ends`, which stays; to the end of the template if there are none.
  Body body(Words ends, std::string_view tag) {
    const Nested nested(*this);
    const int begin = current().line;
    Body all;
    while (true) {
      switch (current().kind) {
        case Token::Kind::data: {
          auto text = statement(Statement::Kind::text, current().line);
          text->text = take().text;
          all.push_back(std::move(text));
          break;
        }
        case Token::Kind::variable_begin: {
          auto print = statement(Statement::Kind::print, take().line);
          print->expressions.push_back(tuple());
          expect(Token::Kind::variable_end);
          all.push_back(std::move(print));
          break;
        }
        case Token::Kind::block_begin:
          take();
          if (is_any(ends)) return all;
          all.push_back(tag_statement(ends));
          expect(Token::Kind::block_end);
          break;
        default:
          if (ends.size() == 0) return all;
          fail(concat("expected '", *(ends.end() - 1), "' of the '", tag, "' in line ", begin,
                      ", found the end of the template"));
      }
    }
  }
  // The rest of a tag, then its body.
  Body block(Words ends, std::string_view tag) {
    skip_op(":");
    expect(Token::Kind::block_end);
    return body(ends, tag);
  }
  Body whole_block(std::string_view end, std::string_view tag) {
    Body inside = block({end}, tag);
    take();
    return inside;
  }

  std::unique_ptr<Statement> tag_statement(Words ends) {
    if (!is(Token::Kind::name)) expected("the name of a tag");
    const std::string& tag = current().text;
    const int line = current().line;
    if (tag == "for") return for_statement(line);
    if (tag == "if") return if_statement(line);
    if (tag == "set") return set_statement(line);
    if (tag == "macro") return macro_statement(line);
    if (tag == "call") return call_statement(line);
    if (tag == "print") return print_statement(line);
    if (tag == "with") return with_statement(line);
    take();
    if (tag == "filter") {
      auto made = statement(Statement::Kind::filter, line);
      made->expressions.push_back(filter(nullptr, /*first=*/true));
      made->bodies.push_back(whole_block("endfilter", tag));
      return made;
    }
    if (tag == "generation") {
      auto made = statement(Statement::Kind::scope, line);
      made->bodies.push_back(whole_block("endgeneration", tag));
      return made;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(name_, line, "'" + tag + "' outside a loop");
      return statement(tag == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop, line);
    }
    constexpr std::array kRefused = {"include", "import",     "from", "extends",
                                     "block",   "autoescape", "do",   "trans"};
    if (std::find(kRefused.begin(), kRefused.end(), tag) != kRefused.end())
      fail_at(name_, line, "the tag '" + tag + "' is not supported");
    std::string wanted;
    for (const std::string_view end : ends) wanted += concat(wanted.empty() ? "" : " or ", "'", end, "'");
    fail_at(name_, line,
            concat("expected ", wanted.empty() ? "a known tag" : wanted, ", found the tag '", tag, "'"));
  }

  std::unique_ptr<Statement> for_statement(int line) {
    take();
    auto made = statement(Statement::Kind::loop, line);
    ++for_nesting_;
    made->targets.push_back(target({.end = "in"}));
    expect_word("in");
    made->expressions.push_back(tuple({.conditional = false, .end = "recursive"}));
    made->expressions.push_back(skip_word("if") ? expression() : nullptr);
    made->recursive = skip_word("recursive");
    ++loops_;
    made->bodies.push_back(block({"else", "endfor"}, "for"));
    --loops_;
    if (take().text == "else") made->bodies.push_back(whole_block("endfor", "for"));
    --for_nesting_;
    return made;
  }

  std::unique_ptr<Statement> if_statement(int line) {
    take();
    auto made = statement(Statement::Kind::branch, line);
    while (true) {
      made->expressions.push_back(tuple({.conditional = false}));
      made->bodies.push_back(block({"elif", "else", "endif"}, "if"));
      const std::string& word = take().text;
      if (word == "elif") continue;
      if (word == "else") made->bodies.push_back(whole_block("endif", "if"));
      return made;
    }
  }

  std::unique_ptr<Statement> set_statement(int line) {
    take();
    auto made = statement(Statement::Kind::set, line);
    made->targets.push_back(target({.namespaced = true}));
    if (skip_op("=")) {
      made->expressions.push_back(tuple());
      return made;
    }
    made->kind = Statement::Kind::set_block;
    made->expressions.push_back(filter(nullptr, /*first=*/false));
    made->bodies.push_back(whole_block("endset", "set"));
    return made;
  }

  void signature(Signature& made) {
    expect_op("(");
    while (!is_op(")")) {
      if (!made.parameters.empty()) expect_op(",");
      std::string name = expect_name();
      check_target_name(name);
      if (std::find(made.parameters.begin(), made.parameters.end(), name) != made.parameters.end())
        fail("the parameter '" + name + "' is repeated");
      made.parameters.push_back(std::move(name));
      if (skip_op("="))
        made.defaults.push_back(expression());
      else if (!made.defaults.empty())
        fail("a parameter without a default follows one with a default");
    }
    expect_op(")");
  }

  // The body of a macro or call block, in which the names caller, kwargs and varargs are special.
  void macro_body(Statement& made, std::string_view end, std::string_view tag) {
    const Mentions outside = std::exchange(mentions_, Mentions{});
    const int loops = std::exchange(loops_, 0);
    made.bodies.push_back(whole_block(end, tag));
    loops_ = loops;
    made.signature.caller = mentions_.caller;
    made.signature.kwargs = mentions_.kwargs;
    made.signature.varargs = mentions_.varargs;
    mentions_ = {.caller = mentions_.caller || outside.caller,
                 .kwargs = mentions_.kwargs || outside.kwargs,
                 .varargs = mentions_.varargs || outside.varargs};
  }

  std::unique_ptr<Statement> macro_statement(int line) {
    take();
    auto made = statement(Statement::Kind::macro, line);
    made->text = expect_name();
    check_target_name(made->text);
    signature(made->signature);
    macro_body(*made, "endmacro", "macro");
    return made;
  }

  std::unique_ptr<Statement> call_statement(int line) {
    take();
    auto made = statement(Statement::Kind::call_block, line);
    if (is_op("(")) signature(made->signature);
    made->expressions.push_back(expression());
    if (made->expressions[0]->kind != Kind::call) fail_at(name_, line, "expected a call after 'call'");
    macro_body(*made, "endcall", "call");
    return made;
  }

  std::unique_ptr<Statement> print_statement(int line) {
    take();
    auto made = statement(Statement::Kind::print, line);
    while (!is(Token::Kind::block_end)) {
      if (!made->expressions.empty()) expect_op(",");
      made->expressions.push_back(expression());
    }
    return made;
  }

  std::unique_ptr<Statement> with_statement(int line) {
    take();
    auto made = statement(Statement::Kind::with, line);
    while (!is(Token::Kind::block_end)) {
      if (!made->targets.empty()) expect_op(",");
      made->targets.push_back(target({}));
      expect_op("=");
      made->expressions.push_back(expression());
    }
    made->bodies.push_back(whole_block("endwith", "with"));
    return made;
  }

  int loops_ = 0;  // around the current position, within its macro: those that `break` ends
};

}  // namespace

Body parse(std::string_view source, const std::string& name) { return Parser(source, name).run(); }

}  // namespace qkv::jinja
