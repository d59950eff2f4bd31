#pragma once
// Parsing of expressions.

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/jinja/syntax/syntax.h"
#include "qkv/jinja/syntax/token_cursor.h"

namespace qkv::jinja {

class ExpressionParser : public TokenCursor {
 public:
  using TokenCursor::TokenCursor;

 protected:
  using Kind = Expression::Kind;

  struct TupleOptions {
    bool conditional = true;    // a conditional expression may follow
    bool target = false;        // only names and literals
    bool namespaced = false;    // with attributes of namespaces
    bool parentheses = false;   // an empty tuple is valid
    std::string_view end = "";  // a word that ends the tuple
  };
  // One expression, or several with commas between them.
  ExpressionPtr tuple(const TupleOptions& options);
  ExpressionPtr tuple() { return tuple(TupleOptions{}); }
  ExpressionPtr expression(bool conditional = true);
  // value | a | b: null if there is no filter and no value. `first`: without the '|' before the first.
  ExpressionPtr filter(ExpressionPtr value, bool first);
  // Names to assign to.
  ExpressionPtr target(TupleOptions options);
  void check_target_name(const std::string& name) const;

  // Names that were mentioned.
  struct Mentions {
    bool caller = false, kwargs = false, varargs = false;
  };
  Mentions mentions_;
  int for_nesting_ = 0;  // loops around the current position

 private:
  static ExpressionPtr make(Kind kind, int line, std::string name = "");
  template <class... Children>
  ExpressionPtr node(Kind kind, int line, Children... children) const {
    ExpressionPtr made = make(kind, line);
    (made->children.push_back(std::move(children)), ...);
    check_depth(*made);
    return made;
  }
  void check_depth(Expression& node) const;
  void check_target(const Expression& made) const;
  bool at_tuple_end(std::string_view end) const;

  // From the lowest precedence to the highest.
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr inverse();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr filtered_unary() { return unary(/*filters=*/true); }
  ExpressionPtr unary(bool filters);
  ExpressionPtr primary(bool namespaced);
  // Operators of equal precedence, from the left.
  using Operand = ExpressionPtr (ExpressionParser::*)();
  ExpressionPtr operators(std::span<const std::pair<std::string_view, Operator>> known, Operand operand);

  static ExpressionPtr constant(Value value, int line);
  ExpressionPtr items(ExpressionPtr made, std::string_view close);  // of a list or dictionary
  ExpressionPtr postfix(ExpressionPtr made);
  ExpressionPtr attribute(ExpressionPtr of);
  ExpressionPtr subscript(ExpressionPtr of);
  ExpressionPtr call(ExpressionPtr of);
  ExpressionPtr test(ExpressionPtr of);
  void arguments(Expression& made);
  std::string dotted_name();
};

}  // namespace qkv::jinja
