#pragma once
// One rendering of a template.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/jinja/run/object.h"
#include "qkv/jinja/syntax/syntax.h"
#include "qkv/jinja/template.h"

namespace qkv::jinja {

// An exceeded limit: an error at once, also where others are postponed.
class LimitError : public DataError {
 public:
  using DataError::DataError;
};

// Variables of a block. Macros and loops refer to the scope in which they were defined.
struct Scope {
  Scope* outer = nullptr;
  bool referred = false;  // by a macro or a recursive loop
  std::unordered_map<std::string, Value> variables;
};

// A place for output: the result, or the text of a macro or block.
using Output = std::string;

class Run {
 public:
  Run(const std::string& name, const Dict& context, const Limits& limits, const Clock& clock);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::string render(const Body& body);

  // Throws DataError "<name>: line <line>: <what>" for the current line.
  [[noreturn]] void fail(const std::string& what) const;

  // Work that takes about as long as evaluating `count` names.
  void step(size_t count = 1) {
    steps_ -= static_cast<int64_t>(count);
    if (steps_ < 0) fail_steps();
  }
  // Throws if a text of this many bytes is not allowed.
  void check_text(size_t bytes) const;

  // A share of the memory.
  Charge charge(size_t bytes) {
    Charge made(budget_, bytes);
    check_memory();
    return made;
  }

  // New values, which are charged to the rendering's memory and steps.
  Value text(std::string bytes, bool markup = false);
  Value text_like(const Value& like, std::string bytes) { return text(std::move(bytes), like.is_markup()); }
  Value list(std::vector<Value> items) { return sequence(std::move(items), /*tuple=*/false); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), /*tuple=*/true); }
  Value dict(Dict dict);
  template <class T, class... Args>
  Value object(Args&&... args) {
    step();
    auto made = std::make_shared<T>(std::forward<Args>(args)...);
    check_depth(made->depth());
    return Value::of(std::shared_ptr<Object>(std::move(made)));
  }
  // Sets a key; fails for one that is not hashable.
  void set(Dict& dict, const Value& key, Value value);

  // Expressions (evaluate.cc).
  Value evaluate(const Expression& expression);
  Value call(const Value& callee, const Arguments& arguments);

  // Statements (execute.cc).
  enum class Flow { next, break_loop, continue_loop };
  // The output of a body in a new scope within `outer`, which `prepare` fills.
  std::string captured(const Body& body, Scope& outer, const std::function<void(Scope&)>& prepare = nullptr);
  // The output of a loop over `iterable`.
  std::string looped(const Statement& loop, const Value& iterable, Scope& outer, int depth);

  // Objects that may refer to themselves; emptied at the end.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

  const Dict& context() const { return context_; }
  const Clock& clock() const { return clock_; }
  const Limits& limits() const { return limits_; }

  // Counts nested evaluations.
  class Nested {
   public:
    explicit Nested(Run& run) : run_(run) {
      if (++run_.depth_ > run_.limits_.depth) run_.fail_depth();
    }
    ~Nested() { --run_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Run& run_;
  };

 private:
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_depth();
  void check_depth(int depth) const;
  void check_memory() const;
  Value sequence(std::vector<Value> items, bool tuple);

  Value name(const std::string& name);
  Value slice(const Expression& expression);
  Value call(const Expression& expression, const Value* caller);
  Value filtered(const Expression& expression, const Value* text);
  Arguments arguments(const Expression& expression);
  bool compared(const Expression& expression, Value& result);

  Flow execute(const Body& body, Output& out);
  Flow execute(const Statement& statement, Output& out);
  void write(Output& out, std::string_view text);
  void assign(const Expression& target, const Value& value);
  std::string finished(Output& out);
  Value caller_of(const Statement& statement);
  Flow loop(const Statement& statement, const Value& iterable, Output& out, int depth);

  Budget budget_;
  const std::string& name_;
  const Dict& context_;
  const Limits& limits_;
  const Clock& clock_;
  int64_t steps_;
  int depth_ = 0;
  int line_ = 1;
  Scope* scope_ = nullptr;
  std::vector<std::shared_ptr<Object>> kept_;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
  friend class ScopeGuard;
};

}  // namespace qkv::jinja
