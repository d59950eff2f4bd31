#include "qkv/jinja/run/objects.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {

Value Object::call(Run& run, const Arguments& /*arguments*/) {
  run.fail(concat("expected a function to call, found a ", type()));
}
std::optional<Value> Object::attribute(Run& /*run*/, std::string_view /*name*/) { return std::nullopt; }
std::optional<std::vector<Value>> Object::iterate(Run& /*run*/) { return std::nullopt; }
std::optional<int64_t> Object::length(Run& /*run*/) { return std::nullopt; }
std::optional<std::string> Object::repr(Run& /*run*/) { return std::nullopt; }

std::optional<std::vector<Value>> Range::iterate(Run& run) {
  run.step(static_cast<size_t>(size));
  std::vector<Value> all;
  for (int64_t i = 0; i < size; ++i) all.emplace_back(start + i * step);
  return all;
}
std::optional<int64_t> Range::length(Run& /*run*/) { return size; }
std::optional<std::string> Range::repr(Run& /*run*/) {
  if (step == 1) return concat("range(", start, ", ", stop, ")");
  return concat("range(", start, ", ", stop, ", ", step, ")");
}

std::optional<std::vector<Value>> View::iterate(Run& run) {
  run.step(items_.items().size());
  return items_.items();
}
std::optional<int64_t> View::length(Run& /*run*/) { return static_cast<int64_t>(items_.items().size()); }
std::optional<std::string> View::repr(Run& run) {
  return concat(type_, "(", qkv::jinja::repr(run, items_), ")");
}

std::optional<std::vector<Value>> Iterator::iterate(Run& run) {
  std::vector<Value> all;
  while (std::optional<Value> one = next(run)) all.push_back(std::move(*one));
  return all;
}
std::optional<Value> Iterator::next(Run& run) {
  run.step();
  if (at_ < items_.items().size()) return items_.items()[at_++];
  if (!error_.empty()) throw DataError(error_);
  return std::nullopt;
}

std::optional<Value> Namespace::attribute(Run& /*run*/, std::string_view name) {
  const Value* found = attributes_.find(name);
  if (found == nullptr) return std::nullopt;
  if (name.starts_with("_")) return Value::undefined(concat("access to attribute '", name, "' is unsafe."));
  return *found;
}
std::optional<std::string> Namespace::repr(Run& run) {
  std::string text = "<Namespace {";
  bool first = true;
  for (const auto& [name, value] : attributes_.items()) {
    text += concat(std::exchange(first, false) ? "" : ", ", string_repr(name.string()), ": ",
                   qkv::jinja::repr(run, value));
    run.check_text(text.size());
  }
  return text + "}>";
}
void Namespace::set(Run& run, const std::string& name, Value value) {
  if (name.starts_with("_"))
    run.fail("expected a name of a namespace's attribute that does not begin with '_', found " +
             string_repr(name));
  attributes_.set(name, std::move(value));
}

std::optional<std::string> Macro::repr(Run& /*run*/) {
  return statement_.kind == Statement::Kind::macro ? "<Macro " + string_repr(statement_.text) + ">"
                                                   : "<Macro anonymous>";
}

Value Macro::call(Run& run, const Arguments& arguments) {
  return run.text(
      run.captured(statement_.bodies[0], scope_, [&](Scope& scope) { bind(run, scope, arguments); }));
}

void Macro::bind(Run& run, Scope& scope, const Arguments& arguments) const {
  const Signature& signature = statement_.signature;
  const std::string name = "macro '" + statement_.text + "'";
  const size_t count = signature.parameters.size();
  Arguments rest = arguments;  // what no parameter takes
  const auto take_named = [&](const std::string& wanted) -> std::optional<Value> {
    const auto found = std::find_if(rest.named.begin(), rest.named.end(),
                                    [&](const auto& one) { return one.first == wanted; });
    if (found == rest.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    rest.named.erase(found);
    return value;
  };
  std::vector<size_t> missing;
  bool caller = std::find(signature.parameters.begin(), signature.parameters.end(), "caller") !=
                signature.parameters.end();
  for (size_t i = 0; i < count; ++i) {
    const std::string& parameter = signature.parameters[i];
    if (i < arguments.positional.size())
      scope.variables[parameter] = arguments.positional[i];
    else if (std::optional<Value> value = take_named(parameter))
      scope.variables[parameter] = std::move(*value);
    else
      missing.push_back(i);
  }
  const size_t taken = std::min(count, arguments.positional.size());
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<ptrdiff_t>(taken));
  if (signature.caller && !caller)
    scope.variables["caller"] = take_named("caller").value_or(Value::undefined("No caller defined"));
  if (signature.kwargs) {
    Dict kwargs;
    for (auto& [key, value] : rest.named) run.set(kwargs, key, std::move(value));
    scope.variables["kwargs"] = run.dict(std::move(kwargs));
  } else if (!rest.named.empty()) {
    run.fail(concat(name, " takes no argument '", rest.named[0].first, "'"));
  }
  if (signature.varargs)
    scope.variables["varargs"] = run.tuple(std::move(rest.positional));
  else if (!rest.positional.empty())
    run.fail(concat(name, " takes at most ", count, " arguments, found ", arguments.positional.size()));
  // Defaults may refer to parameters, of which those that follow are not defined yet.
  const size_t first_default = count - signature.defaults.size();
  for (const size_t i : missing)
    scope.variables[signature.parameters[i]] =
        Value::undefined(concat("parameter '", signature.parameters[i], "' was not provided"));
  for (const size_t i : missing) {
    if (i >= first_default)
      scope.variables[signature.parameters[i]] = run.evaluate(*signature.defaults[i - first_default]);
  }
}

Loop::Loop(Run& run, const Value& iterable, Passes passes, Function::Body recurse, int depth0)
    : iterable_(iterable),
      passes_(std::move(passes)),
      recurse_(std::move(recurse)),
      depth_(iterable.depth() + 1),
      depth0_(depth0) {
  lazy_ = passes_ != nullptr || iterable.as<Iterator>() != nullptr;
  if (iterable_.is_sequence()) {
    visited_ = &iterable_.items();
  } else if (iterable.as<Iterator>() == nullptr) {
    items_ = qkv::jinja::iterate(run, iterable);
    charge_.emplace(run.charge(items_.size() * sizeof(Value)));
  }
  if (!lazy_) length_ = static_cast<int64_t>(visited_->size());
}

std::optional<Value> Loop::pull(Run& run) {
  while (true) {
    run.step();
    std::optional<Value> one;
    if (Iterator* iterator = iterable_.as<Iterator>(); iterator != nullptr && lazy_)
      one = iterator->next(run);
    else if (at_ < visited_->size())
      one = (*visited_)[at_++];
    if (!one || passes_ == nullptr || passes_(*one)) return one;
  }
}

const std::optional<Value>& Loop::peek(Run& run) {
  if (!peeked_) after_ = pull(run);
  peeked_ = true;
  return after_;
}

const Value* Loop::advance(Run& run) {
  std::optional<Value> item = peek(run);
  if (!item) return nullptr;
  peeked_ = false;
  ++index0_;
  before_ = std::move(current_);
  current_ = std::move(item);
  return &*current_;
}

std::optional<int64_t> Loop::length(Run& run) {
  if (length_) return length_;
  // Visits the rest, as jinja2 does for a generator.
  const std::optional<Value> after = peeked_ ? after_ : std::nullopt;
  std::vector<Value> rest;
  while (std::optional<Value> one = pull(run)) rest.push_back(std::move(*one));
  length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (after ? 1 : 0);
  items_ = std::move(rest);
  visited_ = &items_;
  at_ = 0;
  passes_ = nullptr;
  lazy_ = false;
  return length_;
}

Value Loop::call(Run& run, const Arguments& arguments) {
  if (recurse_ == nullptr) run.fail("expected a loop marked 'recursive', found a call of another one");
  return recurse_(run, arguments);
}

std::optional<Value> Loop::attribute(Run& run, std::string_view name) {
  if (name == "index") return index0_ + 1;
  if (name == "index0") return index0_;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !peek(run).has_value();
  if (name == "length") return *length(run);
  if (name == "revindex") return *length(run) - index0_;
  if (name == "revindex0") return *length(run) - index0_ - 1;
  if (name == "depth") return depth0_ + 1;
  if (name == "depth0") return depth0_;
  if (name == "previtem")
    return index0_ > 0 && before_ ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek(run).value_or(Value::undefined("there is no next item"));
  if (name == "cycle") {
    return run.object<Function>(
        [self = shared_from_this()](Run& at, const Arguments& arguments) -> Value {
          if (arguments.positional.empty() || !arguments.named.empty())
            at.fail("loop.cycle: expected values");
          return arguments.positional[static_cast<size_t>(self->index0_) % arguments.positional.size()];
        },
        depth_);
  }
  if (name == "changed") {
    return run.object<Function>(
        [self = shared_from_this()](Run& at, const Arguments& arguments) -> Value {
          Value values = at.tuple(arguments.positional);
          if (self->last_changed_ && equal(at, *self->last_changed_, values)) return false;
          self->last_changed_ = std::move(values);
          if (!std::exchange(self->kept_, true)) at.keep(self);  // the values may contain this loop
          return true;
        },
        depth_);
  }
  return std::nullopt;
}

std::optional<std::string> Loop::repr(Run& run) {
  const int64_t all = *length(run);
  return concat("<LoopContext ", index0_ + 1, "/", all, ">");
}

}  // namespace qkv::jinja
