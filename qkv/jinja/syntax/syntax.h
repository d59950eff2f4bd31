#pragma once
// The syntax tree.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "qkv/jinja/value.h"

namespace qkv::jinja {

struct Arguments;
class Run;
using Filter = Value (*)(Run& run, const Value& value, const Arguments& arguments);
using Test = bool (*)(Run& run, const Value& value, const Arguments& arguments);

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class Operator { add, sub, mul, div, floordiv, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

struct Expression {
  enum class Kind {
    constant,     // value
    name,         // name
    namespaced,   // name.attribute, as a target only
    attribute,    // children[0].name
    item,         // children[0][children[1]]
    slice,        // children[0][children[1]:children[2]:children[3]], each of the three may be null
    call,         // children[0](arguments)
    filter,       // children[0] | name(arguments); children[0] is null for the block's text
    test,         // children[0] is name(arguments)
    negative,     // - children[0]
    positive,     // + children[0]
    inverse,      // not children[0]
    binary,       // children[0] op children[1]
    compare,      // children[0] ops[0] children[1] ops[1] children[2] ...
    both,         // children[0] and children[1]
    either,       // children[0] or children[1]
    conditional,  // children[1] if children[0] else children[2], which may be null
    concat,       // children[0] ~ children[1] ~ ...
    list,         // [children...]
    tuple,        // (children...)
    dict,         // {children[0]: children[1], ...}
  };
  Kind kind;
  int line = 1;
  int depth = 1;  // 1 + the largest depth of a child
  std::string name, attribute;
  Value value;
  std::vector<ExpressionPtr> children;
  std::vector<Operator> operators;

  // Arguments of calls, filters and tests.
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, star_star;
  Filter filter = nullptr;
  Test test = nullptr;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// Parameters and body of a macro or of a call block.
struct Signature {
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;                   // of the last parameters
  bool caller = false, kwargs = false, varargs = false;  // which of these the body mentions
};

struct Statement {
  enum class Kind {
    text,        // text
    print,       // expressions
    branch,      // tests[i]: bodies[i]; one more body is the else branch
    loop,        // for target in expressions[0] if expressions[1] (or null): bodies[0]; bodies[1] else
    set,         // target = expressions[0]
    set_block,   // target = bodies[0] | expressions[0] (or null)
    macro,       // text is its name
    call_block,  // expressions[0] is the call
    filter,      // bodies[0] | expressions[0]
    with,        // targets and expressions, pairwise
    scope,       // bodies[0], for `generation`
    break_loop,
    continue_loop,
  };
  Kind kind;
  int line = 1;
  std::string text;
  std::vector<ExpressionPtr> expressions, targets;
  std::vector<Body> bodies;
  bool recursive = false, has_else = false;
  Signature signature;
};

}  // namespace qkv::jinja
