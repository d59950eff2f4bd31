#include "qkv/jinja/syntax/expressions.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/jinja/library/library.h"

namespace qkv::jinja {
namespace {

constexpr int kMaxDepth = 500;  // of the tree, which a chain of operators makes deep too

}  // namespace

std::string described(const Token& token) {
  switch (token.kind) {
    case Token::Kind::data:
      return "text";
    case Token::Kind::block_begin:
      return "'{%'";
    case Token::Kind::block_end:
      return "'%}'";
    case Token::Kind::variable_begin:
      return "'{{'";
    case Token::Kind::variable_end:
      return "'}}'";
    case Token::Kind::string:
      return "a string";
    case Token::Kind::integer:
    case Token::Kind::number:
      return "a number";
    case Token::Kind::end:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

ExpressionPtr ExpressionParser::make(Kind kind, int line, std::string name) {
  auto node = std::make_unique<Expression>(Expression{.kind = kind,
                                                      .line = line,
                                                      .name = std::move(name),
                                                      .attribute = "",
                                                      .value = {},
                                                      .children = {},
                                                      .operators = {},
                                                      .positional = {},
                                                      .named = {},
                                                      .star = nullptr,
                                                      .star_star = nullptr});
  return node;
}

void ExpressionParser::check_depth(Expression& node) const {
  int depth = 0;
  const auto count = [&](const ExpressionPtr& child) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  };
  std::for_each(node.children.begin(), node.children.end(), count);
  std::for_each(node.positional.begin(), node.positional.end(), count);
  for (const auto& [name, value] : node.named) count(value);
  count(node.star);
  count(node.star_star);
  node.depth = depth + 1;
  if (node.depth > kMaxDepth)
    fail_at(name_, node.line, concat("expected an expression of at most ", kMaxDepth, " levels, found more"));
}

void ExpressionParser::check_target_name(const std::string& name) const {
  constexpr std::array kConstants = {"true", "false", "none", "True", "False", "None"};
  if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end())
    fail("expected a name to assign to, found '" + name + "'");
}

ExpressionPtr ExpressionParser::target(TupleOptions options) {
  options.target = true;
  ExpressionPtr made = tuple(options);
  check_target(*made);
  return made;
}

void ExpressionParser::check_target(const Expression& made) const {
  if (made.kind == Kind::tuple) {
    for (const ExpressionPtr& one : made.children) check_target(*one);
  } else if (made.kind == Kind::name && made.name == "loop" && for_nesting_ > 0) {
    fail_at(name_, made.line, "expected a name to assign to, found 'loop' in a loop");
  } else if (made.kind != Kind::name && made.kind != Kind::namespaced) {
    fail_at(name_, made.line, "expected a name to assign to, found another expression");
  }
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
  return is(Token::Kind::variable_end) || is(Token::Kind::block_end) || is_op(")") ||
         (!end.empty() && is_word(end));
}

ExpressionPtr ExpressionParser::tuple(const TupleOptions& options) {
  ExpressionPtr all = make(Kind::tuple, current().line);
  bool comma = false;
  while (!at_tuple_end(options.end)) {
    all->children.push_back(options.target ? primary(options.namespaced) : expression(options.conditional));
    if (!skip_op(",")) break;
    comma = true;
  }
  if (!comma) {
    if (!all->children.empty()) return std::move(all->children[0]);
    if (!options.parentheses) expected("an expression");
  }
  check_depth(*all);
  return all;
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  const Nested nested(*this);
  if (!conditional) return either();
  const int line = current().line;
  ExpressionPtr value = either();
  while (skip_word("if")) {
    ExpressionPtr condition = either();
    ExpressionPtr otherwise = skip_word("else") ? expression() : nullptr;
    value = node(Kind::conditional, line, std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  const int line = current().line;
  ExpressionPtr left = both();
  while (skip_word("or")) left = node(Kind::either, line, std::move(left), both());
  return left;
}

ExpressionPtr ExpressionParser::both() {
  const int line = current().line;
  ExpressionPtr left = inverse();
  while (skip_word("and")) left = node(Kind::both, line, std::move(left), inverse());
  return left;
}

ExpressionPtr ExpressionParser::inverse() {
  if (!is_word("not")) return comparison();
  const Nested nested(*this);
  const int line = take().line;
  return node(Kind::inverse, line, inverse());
}

ExpressionPtr ExpressionParser::comparison() {
  constexpr std::array<std::pair<std::string_view, Operator>, 6> kComparisons = {{{"==", Operator::eq},
                                                                                  {"!=", Operator::ne},
                                                                                  {"<", Operator::lt},
                                                                                  {"<=", Operator::le},
                                                                                  {">", Operator::gt},
                                                                                  {">=", Operator::ge}}};
  ExpressionPtr all = make(Kind::compare, current().line);
  all->children.push_back(sum());
  while (true) {
    const auto* found = std::find_if(kComparisons.begin(), kComparisons.end(),
                                     [&](const auto& one) { return is_op(one.first); });
    if (found != kComparisons.end()) {
      take();
      all->operators.push_back(found->second);
    } else if (skip_word("in")) {
      all->operators.push_back(Operator::in);
    } else if (is_word("not") && is_word(next(), "in")) {
      take();
      take();
      all->operators.push_back(Operator::not_in);
    } else {
      break;
    }
    all->children.push_back(sum());
  }
  if (all->operators.empty()) return std::move(all->children[0]);
  check_depth(*all);
  return all;
}

ExpressionPtr ExpressionParser::operators(std::span<const std::pair<std::string_view, Operator>> known,
                                          Operand operand) {
  const int line = current().line;
  ExpressionPtr left = (this->*operand)();
  while (true) {
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return is_op(one.first); });
    if (found == known.end()) return left;
    take();
    left = node(Kind::binary, line, std::move(left), (this->*operand)());
    left->operators.push_back(found->second);
  }
}

ExpressionPtr ExpressionParser::sum() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 2> kSums = {
      {{"+", Operator::add}, {"-", Operator::sub}}};
  return operators(kSums, &ExpressionParser::joined);
}

ExpressionPtr ExpressionParser::joined() {
  ExpressionPtr all = make(Kind::concat, current().line);
  all->children.push_back(product());
  while (skip_op("~")) all->children.push_back(product());
  if (all->children.size() == 1) return std::move(all->children[0]);
  check_depth(*all);
  return all;
}

ExpressionPtr ExpressionParser::product() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 4> kProducts = {
      {{"*", Operator::mul}, {"/", Operator::div}, {"//", Operator::floordiv}, {"%", Operator::mod}}};
  return operators(kProducts, &ExpressionParser::power);
}

ExpressionPtr ExpressionParser::power() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 1> kPowers = {{{"**", Operator::pow}}};
  return operators(kPowers, &ExpressionParser::filtered_unary);
}

ExpressionPtr ExpressionParser::unary(bool filters) {
  const int line = current().line;
  ExpressionPtr made;
  if (is_op("-") || is_op("+")) {
    const Nested nested(*this);
    const Kind kind = take().text == "-" ? Kind::negative : Kind::positive;
    made = node(kind, line, unary(/*filters=*/false));
  } else {
    made = primary(/*namespaced=*/false);
  }
  made = postfix(std::move(made));
  while (filters) {
    if (is_op("|"))
      made = filter(std::move(made), /*first=*/false);
    else if (is_word("is"))
      made = test(std::move(made));
    else if (is_op("("))
      made = call(std::move(made));
    else
      break;
  }
  return made;
}

ExpressionPtr ExpressionParser::constant(Value value, int line) {
  ExpressionPtr made = make(Kind::constant, line);
  made->value = std::move(value);
  return made;
}

ExpressionPtr ExpressionParser::primary(bool namespaced) {
  const Token& token = current();
  switch (token.kind) {
    case Token::Kind::name: {
      take();
      const std::string& word = token.text;
      if (word == "true" || word == "True") return constant(true, token.line);
      if (word == "false" || word == "False") return constant(false, token.line);
      if (word == "none" || word == "None") return constant({}, token.line);
      if (namespaced && skip_op(".")) {
        ExpressionPtr made = make(Kind::namespaced, token.line, word);
        made->attribute = expect_name();
        return made;
      }
      mentions_.caller |= word == "caller";
      mentions_.kwargs |= word == "kwargs";
      mentions_.varargs |= word == "varargs";
      return make(Kind::name, token.line, word);
    }
    case Token::Kind::string: {
      std::string text;
      while (is(Token::Kind::string)) text += take().text;
      return constant(text, token.line);
    }
    case Token::Kind::integer:
    case Token::Kind::number:
      return constant(take().value, token.line);
    default:
      break;
  }
  const Nested nested(*this);
  if (skip_op("(")) {
    ExpressionPtr made = tuple({.parentheses = true});
    expect_op(")");
    return made;
  }
  if (skip_op("[")) return items(make(Kind::list, token.line), "]");
  if (skip_op("{")) return items(make(Kind::dict, token.line), "}");
  expected("an expression");
}

ExpressionPtr ExpressionParser::items(ExpressionPtr made, std::string_view close) {
  while (!is_op(close)) {
    if (!made->children.empty()) expect_op(",");
    if (is_op(close)) break;
    made->children.push_back(expression());
    if (made->kind != Kind::dict) continue;
    expect_op(":");
    made->children.push_back(expression());
  }
  expect_op(close);
  check_depth(*made);
  return made;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr made) {
  while (true) {
    if (is_op("."))
      made = attribute(std::move(made));
    else if (is_op("["))
      made = subscript(std::move(made));
    else if (is_op("("))
      made = call(std::move(made));
    else
      return made;
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr of) {
  const int line = take().line;
  if (is(Token::Kind::integer)) return node(Kind::item, line, std::move(of), constant(take().value, line));
  if (!is(Token::Kind::name)) expected("a name or a number after '.'");
  ExpressionPtr made = node(Kind::attribute, line, std::move(of));
  made->name = take().text;
  return made;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of) {
  const int line = take().line;
  if (skip_op("]")) return node(Kind::item, line, std::move(of), make(Kind::tuple, line));
  ExpressionPtr begin = is_op(":") ? nullptr : expression();
  if (begin != nullptr && !is_op(":")) {
    if (is_op(",")) {
      ExpressionPtr key = make(Kind::tuple, line);
      key->children.push_back(std::move(begin));
      while (!is_op("]")) {
        expect_op(",");
        key->children.push_back(expression());
      }
      check_depth(*key);
      begin = std::move(key);
    }
    expect_op("]");
    return node(Kind::item, line, std::move(of), std::move(begin));
  }
  expect_op(":");
  ExpressionPtr end = is_op(":") || is_op("]") ? nullptr : expression();
  ExpressionPtr step = skip_op(":") && !is_op("]") ? expression() : nullptr;
  expect_op("]");
  return node(Kind::slice, line, std::move(of), std::move(begin), std::move(end), std::move(step));
}

void ExpressionParser::arguments(Expression& made) {
  expect_op("(");
  bool first = true;
  while (!is_op(")")) {
    if (!first) {
      expect_op(",");
      if (is_op(")")) break;
    }
    first = false;
    const bool stars = made.star != nullptr || made.star_star != nullptr;
    if (is_op("*") && !stars) {
      take();
      made.star = expression();
    } else if (is_op("**") && made.star_star == nullptr) {
      take();
      made.star_star = expression();
    } else if (is(Token::Kind::name) && is_op(next(), "=") && made.star_star == nullptr) {
      std::string name = take().text;
      take();
      for (const auto& [known, value] : made.named) {
        if (known == name) fail("the argument '" + name + "' is repeated");
      }
      made.named.emplace_back(std::move(name), expression());
    } else if (!stars && made.named.empty()) {
      made.positional.push_back(expression());
    } else {
      fail("a positional argument follows named ones or '*'");
    }
  }
  expect_op(")");
}

ExpressionPtr ExpressionParser::call(ExpressionPtr of) {
  const Nested nested(*this);
  ExpressionPtr made = make(Kind::call, current().line);
  made->children.push_back(std::move(of));
  arguments(*made);
  check_depth(*made);
  return made;
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name.append(1, '.').append(expect_name());
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr value, bool first) {
  while (first || is_op("|")) {
    if (!first) take();
    first = false;
    ExpressionPtr made = make(Kind::filter, current().line);
    made->name = dotted_name();
    made->filter = find_filter(made->name);
    if (made->filter == nullptr)
      fail_at(name_, made->line, "the filter '" + made->name + "' is not supported");
    made->children.push_back(std::move(value));
    if (is_op("(")) arguments(*made);
    check_depth(*made);
    value = std::move(made);
  }
  return value;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of) {
  const int line = take().line;
  const bool inverted = skip_word("not");
  ExpressionPtr made = make(Kind::test, line);
  made->name = dotted_name();
  made->test = find_test(made->name);
  if (made->test == nullptr) fail_at(name_, line, "the test '" + made->name + "' is not supported");
  made->children.push_back(std::move(of));
  const bool begins_argument = is(Token::Kind::name) || is(Token::Kind::string) || is(Token::Kind::integer) ||
                               is(Token::Kind::number) || is_op("[") || is_op("{");
  if (is_op("(")) {
    arguments(*made);
  } else if (begins_argument && !is_any({"else", "or", "and"})) {
    if (is_word("is")) fail("expected one test, found a chain of 'is'");
    made->positional.push_back(postfix(primary(/*namespaced=*/false)));
  }
  check_depth(*made);
  return inverted ? node(Kind::inverse, line, std::move(made)) : std::move(made);
}

}  // namespace qkv::jinja
