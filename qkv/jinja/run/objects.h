#pragma once
// The kinds of objects.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/jinja/run/object.h"
#include "qkv/jinja/run/run.h"

namespace qkv::jinja {

// range(...)
class Range : public Object {
 public:
  Range(int64_t first, int64_t end, int64_t stride, int64_t count)
      : start(first), stop(end), step(stride), size(count) {}
  const char* type() const override { return "range"; }
  bool truth() const override { return size > 0; }
  bool iterable() const override { return true; }
  std::optional<std::vector<Value>> iterate(Run& run) override;
  std::optional<int64_t> length(Run& run) override;
  std::optional<std::string> repr(Run& run) override;

  const int64_t start, stop, step, size;
};

// dict.keys(), dict.values(), dict.items()
class View : public Object {
 public:
  View(const char* type, Value items) : type_(type), items_(std::move(items)) {}
  const char* type() const override { return type_; }
  int depth() const override { return items_.depth() + 1; }
  bool truth() const override { return !items_.items().empty(); }
  bool iterable() const override { return true; }
  std::optional<std::vector<Value>> iterate(Run& run) override;
  std::optional<int64_t> length(Run& run) override;
  std::optional<std::string> repr(Run& run) override;

 private:
  const char* type_;
  Value items_;  // a list
};

// A generator or reversed(...): its items can be visited once. Where computing an item failed, `error` is
// thrown in its place.
class Iterator : public Object {
 public:
  explicit Iterator(Value items, std::string error = "")
      : items_(std::move(items)), error_(std::move(error)) {}
  const char* type() const override { return "generator"; }
  int depth() const override { return items_.depth() + 1; }
  bool iterable() const override { return true; }
  std::optional<std::vector<Value>> iterate(Run& run) override;
  std::optional<Value> next(Run& run);

 private:
  Value items_;  // a list
  std::string error_;
  size_t at_ = 0;
};

// A function or a bound method.
class Function : public Object {
 public:
  using Body = std::function<Value(Run&, const Arguments&)>;
  // `depth` is that of the values that it holds.
  Function(Body body, int depth = 0) : body_(std::move(body)), depth_(depth) {}
  const char* type() const override { return "function"; }
  int depth() const override { return depth_ + 1; }
  bool callable() const override { return true; }
  Value call(Run& run, const Arguments& arguments) override { return body_(run, arguments); }

 private:
  Body body_;
  int depth_;
};

class Namespace : public Object {
 public:
  const char* type() const override { return "TemplateNamespace"; }
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  std::optional<std::string> repr(Run& run) override;
  void set(Run& run, const std::string& name, Value value);
  void clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

class Macro : public Object {
 public:
  // A call block's macro has no name.
  Macro(const Statement& statement, Scope& scope) : statement_(statement), scope_(scope) {}
  const char* type() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Run& run, const Arguments& arguments) override;
  std::optional<std::string> repr(Run& run) override;

 private:
  void bind(Run& run, Scope& scope, const Arguments& arguments) const;
  const Statement& statement_;
  Scope& scope_;
};

// The variable `loop`, and the source of a loop's items.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  using Passes = std::function<bool(const Value&)>;
  // `passes` is the loop's condition, null if it has none; `recurse` is null unless the loop is recursive.
  Loop(Run& run, const Value& iterable, Passes passes, Function::Body recurse, int depth0);
  const char* type() const override { return "LoopContext"; }
  int depth() const override { return depth_; }
  bool callable() const override { return true; }
  Value call(Run& run, const Arguments& arguments) override;
  std::optional<Value> attribute(Run& run, std::string_view name) override;
  std::optional<int64_t> length(Run& run) override;
  std::optional<std::string> repr(Run& run) override;

  // Moves to the next item, if there is one.
  const Value* advance(Run& run);
  void clear() { last_changed_.reset(); }
  // The loop is over: its condition must not run again.
  void close() { passes_ = nullptr; }

 private:
  std::optional<Value> pull(Run& run);
  const std::optional<Value>& peek(Run& run);

  Value iterable_;
  std::vector<Value> items_;  // of what is neither a list nor an iterator
  const std::vector<Value>* visited_ = &items_;
  std::optional<Charge> charge_;
  size_t at_ = 0;
  Passes passes_;
  Function::Body recurse_;
  int depth_, depth0_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> before_, current_, after_, last_changed_;
  bool peeked_ = false, kept_ = false, lazy_ = false;
};

}  // namespace qkv::jinja
