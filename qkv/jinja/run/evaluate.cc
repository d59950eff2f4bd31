#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/library/library.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"
#include "qkv/jinja/run/run.h"

namespace qkv::jinja {
namespace {

using NodeKind = Expression::Kind;

// Python's slice.indices(): the first position, the last (excluded), for a step.
struct Positions {
  int64_t start, stop, step;
  int64_t size() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
};

Positions positions(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t length) {
  const int64_t least = step < 0 ? -1 : 0;
  const int64_t most = step < 0 ? length - 1 : length;
  const auto clamped = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    if (*at < 0) return std::max(*at + length, least);
    return std::min(*at, most);
  };
  return {clamped(start, step < 0 ? most : least), clamped(stop, step < 0 ? least : most), step};
}

}  // namespace

Value Run::evaluate(const Expression& e) {
  const Nested nested(*this);
  step();
  line_ = e.line;
  const auto child = [&](size_t i) {
    Value value = evaluate(*e.children[i]);
    line_ = e.line;
    return value;
  };
  switch (e.kind) {
    case NodeKind::constant:
      return e.value;
    case NodeKind::name:
      return name(e.name);
    case NodeKind::attribute:
      return attribute(*this, child(0), e.name);
    case NodeKind::item: {
      const Value of = child(0);
      return item(*this, of, child(1));
    }
    case NodeKind::slice:
      return slice(e);
    case NodeKind::call:
      return call(e, nullptr);
    case NodeKind::filter:
      return filtered(e, nullptr);
    case NodeKind::test: {
      const Value value = child(0);
      const Arguments given = arguments(e);
      line_ = e.line;
      return e.test(*this, value, given);
    }
    case NodeKind::negative:
      return negative(*this, child(0));
    case NodeKind::positive: {
      Value value = child(0);
      check_defined(*this, value);
      if (!value.is_numeric()) fail(concat("expected a number after '+', found a ", value.type_name()));
      if (value.is_boolean()) return value.integral();
      return value;
    }
    case NodeKind::inverse:
      return !truth(*this, child(0));
    case NodeKind::binary: {
      const Value left = child(0);
      return arithmetic(*this, e.operators[0], left, child(1));
    }
    case NodeKind::compare: {
      Value result;
      compared(e, result);
      return result;
    }
    case NodeKind::both:
    case NodeKind::either: {
      Value left = child(0);
      return truth(*this, left) == (e.kind == NodeKind::either) ? left : child(1);
    }
    case NodeKind::conditional:
      if (truth(*this, child(0))) return child(1);
      if (e.children[2] != nullptr) return child(2);
      return Value::undefined(concat("the inline if-expression on line ", e.line,
                                     " evaluated to false and no else section was defined."));
    case NodeKind::concat: {
      std::string all;
      for (size_t i = 0; i < e.children.size(); ++i) {
        const std::string part = str(*this, child(i));
        check_text(all.size() + part.size());
        all += part;
      }
      return text(std::move(all));
    }
    case NodeKind::list:
    case NodeKind::tuple: {
      std::vector<Value> items;
      for (size_t i = 0; i < e.children.size(); ++i) items.push_back(child(i));
      return e.kind == NodeKind::list ? list(std::move(items)) : tuple(std::move(items));
    }
    case NodeKind::dict: {
      Dict made;
      for (size_t i = 0; i < e.children.size(); i += 2) {
        const Value key = child(i);
        set(made, key, child(i + 1));
      }
      return dict(std::move(made));
    }
    case NodeKind::namespaced:
      break;
  }
  fail("expected a value, found a target");
}

Value Run::name(const std::string& name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    step();
    const auto found = scope->variables.find(name);
    if (found != scope->variables.end()) return found->second;
  }
  if (const Value* found = context_.find(name)) return *found;
  if (std::optional<Value> found = global(name)) return *found;
  return Value::undefined("'" + name + "' is undefined");
}

bool Run::compared(const Expression& e, Value& result) {
  Value left = evaluate(*e.children[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    line_ = e.line;
    switch (e.operators[i]) {
      case Operator::eq:
        result = equal(*this, left, right);
        break;
      case Operator::ne:
        result = !equal(*this, left, right);
        break;
      case Operator::in:
        result = contains(*this, right, left);
        break;
      case Operator::not_in:
        result = !contains(*this, right, left);
        break;
      default:
        result = ordered(*this, e.operators[i], left, right);
    }
    if (!result.boolean()) return false;
    left = std::move(right);
  }
  return true;
}

Value Run::slice(const Expression& e) {
  const Value value = evaluate(*e.children[0]);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.children[i + 1] == nullptr) continue;
    const Value bound = evaluate(*e.children[i + 1]);
    line_ = e.line;
    if (!bound.is_none()) bounds[i] = to_integer(*this, bound, "a slice");
  }
  check_defined(*this, value);
  const auto* range = value.as<Range>();
  if (!value.is_string() && !value.is_sequence() && range == nullptr)
    fail(concat("expected a str, list or tuple to slice, found a ", value.type_name()));
  if (bounds[2] == 0) fail("expected a slice with a step that is not zero, found 0");
  const int64_t size = *length(*this, value);
  // A longer step than the text has the effect of one as long.
  const int64_t step_size = std::clamp<int64_t>(bounds[2].value_or(1), -size - 1, size + 1);
  const Positions at = positions(bounds[0], bounds[1], step_size, size);
  step(static_cast<size_t>(at.size()));
  if (range != nullptr)
    return object<Range>(range->start + at.start * range->step, range->start + at.stop * range->step,
                         range->step * at.step, at.size());
  if (!value.is_string()) {
    std::vector<Value> items;
    for (int64_t i = 0, from = at.start; i < at.size(); ++i, from += at.step)
      items.push_back(value.items()[static_cast<size_t>(from)]);
    return value.kind() == Value::Kind::tuple ? tuple(std::move(items)) : list(std::move(items));
  }
  const std::string& all = value.string();
  step(all.size() / 256);
  const std::u32string characters = decode_utf8(all);
  std::string made;
  for (int64_t i = 0, from = at.start; i < at.size(); ++i, from += at.step)
    append_utf8(made, characters[static_cast<size_t>(from)]);
  return text_like(value, std::move(made));
}

Arguments Run::arguments(const Expression& e) {
  Arguments all;
  for (const ExpressionPtr& one : e.positional) all.positional.push_back(evaluate(*one));
  for (const auto& [name, one] : e.named) all.named.emplace_back(name, evaluate(*one));
  if (e.star != nullptr) {
    for (Value& one : iterate(*this, evaluate(*e.star))) all.positional.push_back(std::move(one));
  }
  if (e.star_star != nullptr) {
    const Value more = evaluate(*e.star_star);
    if (!more.is_dict()) fail(concat("expected a dict after '**', found a ", more.type_name()));
    for (const auto& [key, value] : more.dict().items()) {
      if (!key.is_string()) fail("expected names as keys of the dict after '**', found another value");
      for (const auto& [known, ignored] : all.named) {
        if (known == key.string()) fail("the argument '" + known + "' is repeated");
      }
      all.named.emplace_back(key.string(), value);
    }
  }
  return all;
}

Value Run::call(const Expression& e, const Value* caller) {
  const Value callee = evaluate(*e.children[0]);
  Arguments given = arguments(e);
  if (caller != nullptr) given.named.emplace_back("caller", *caller);
  line_ = e.line;
  return call(callee, given);
}

Value Run::call(const Value& callee, const Arguments& given) {
  check_defined(*this, callee);
  if (callee.kind() != Value::Kind::object || !callee.object().callable())
    fail(concat("expected a function to call, found a ", callee.type_name()));
  return callee.object().call(*this, given);
}

Value Run::filtered(const Expression& e, const Value* block) {
  // A chain in a filter block or block set begins with the block's text.
  const ExpressionPtr& of = e.children[0];
  const Value value = of == nullptr ? *block : block == nullptr ? evaluate(*of) : filtered(*of, block);
  const Arguments given = arguments(e);
  line_ = e.line;
  return e.filter(*this, value, given);
}

}  // namespace qkv::jinja
