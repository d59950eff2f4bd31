#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/jinja/library/library.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"
#include "qkv/jinja/run/run.h"
#include "qkv/jinja/syntax/lexer.h"

namespace qkv::jinja {
namespace {

constexpr int kMaxValueDepth = 200;  // bounds the recursion of all that visits values
constexpr size_t kItemBytes = 2 * sizeof(Value);

}  // namespace

// Makes a scope current. One that a macro or a recursive loop refers to stays until the end.
class ScopeGuard {
 public:
  ScopeGuard(Run& run, Scope& outer) : run_(run), before_(run.scope_), scope_(std::make_shared<Scope>()) {
    scope_->outer = &outer;
    run.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    run_.scope_ = before_;
    if (scope_->referred) run_.captured_scopes_.push_back(std::move(scope_));
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

  Scope& scope() const { return *scope_; }

 private:
  Run& run_;
  Scope* before_;
  std::shared_ptr<Scope> scope_;
};

Run::Run(const std::string& name, const Dict& context, const Limits& limits, const Clock& clock)
    : budget_{.limit = limits.memory_bytes},
      name_(name),
      context_(context),
      limits_(limits),
      clock_(clock),
      steps_(limits.steps) {}

Run::~Run() {
  for (const auto& one : kept_) {
    if (auto* space = dynamic_cast<Namespace*>(one.get())) space->clear();
    if (auto* loop = dynamic_cast<Loop*>(one.get())) loop->clear();
  }
  for (const auto& scope : captured_scopes_) scope->variables.clear();
}

std::string Run::render(const Body& body) {
  Scope root;
  scope_ = &root;
  Output out;
  execute(body, out);
  return out;
}

void Run::fail(const std::string& what) const { fail_at(name_, line_, what); }

void Run::fail_steps() const {
  throw LimitError(
      concat(name_, ": line ", line_, ": expected at most ", limits_.steps, " steps, found more"));
}
void Run::fail_depth() {
  --depth_;
  throw LimitError(concat(name_, ": line ", line_, ": expected at most ", limits_.depth,
                          " nested evaluations, found more"));
}
void Run::check_depth(int depth) const {
  if (depth > kMaxValueDepth)
    throw LimitError(concat(name_, ": line ", line_, ": expected values of at most ", kMaxValueDepth,
                            " nested containers, found more"));
}
void Run::check_memory() const {
  if (budget_.used > budget_.limit)
    throw LimitError(concat(name_, ": line ", line_, ": expected at most ", budget_.limit,
                            " bytes of values, found more"));
}
void Run::check_text(size_t bytes) const {
  if (bytes > limits_.output_bytes)
    throw LimitError(concat(name_, ": line ", line_, ": expected a text of at most ", limits_.output_bytes,
                            " bytes, found a longer one"));
}

Value Run::text(std::string bytes, bool markup) {
  step(1 + bytes.size() / 1024);
  check_text(bytes.size());
  const size_t size = bytes.capacity() + sizeof(Text);
  auto made = std::make_shared<const Text>(Text{std::move(bytes), markup, Charge(budget_, size)});
  check_memory();
  return Value::of(std::move(made));
}

Value Run::sequence(std::vector<Value> items, bool is_tuple) {
  step(1 + items.size());
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  check_depth(depth + 1);
  const size_t size = items.capacity() * sizeof(Value) + sizeof(Sequence);
  auto made = std::make_shared<const Sequence>(Sequence{std::move(items), depth + 1, Charge(budget_, size)});
  check_memory();
  return Value::of(std::move(made), is_tuple);
}

Value Run::dict(Dict dict) {
  step(1 + dict.size());
  check_depth(dict.depth());
  size_t keys = 0;  // their bytes, which the dictionary has once more
  for (const auto& [key, value] : dict.items()) keys += key.is_string() ? key.string().size() : 0;
  step(keys / 1024);
  dict.hold(charge(dict.size() * 4 * kItemBytes + sizeof(Dict) + keys));
  return Value::of(std::make_shared<const Dict>(std::move(dict)));
}

void Run::set(Dict& dict, const Value& key, Value value) {
  if (!key_text(key)) fail(concat("expected a hashable value as a key, found a ", key.type_name()));
  dict.set(key, std::move(value));
}

void Run::write(Output& out, std::string_view text) {
  check_text(out.size() + text.size());
  budget_.used += text.size();  // until it is finished
  check_memory();
  out += text;
}

std::string Run::finished(Output& out) {
  budget_.used -= out.size();
  return std::move(out);
}

std::string Run::captured(const Body& body, Scope& outer, const std::function<void(Scope&)>& prepare) {
  ScopeGuard guard(*this, outer);
  if (prepare != nullptr) prepare(guard.scope());
  Output out;
  execute(body, out);
  return finished(out);
}

std::string Run::looped(const Statement& statement, const Value& iterable, Scope& outer, int depth) {
  Scope* before = std::exchange(scope_, &outer);
  Output out;
  loop(statement, iterable, out, depth);
  scope_ = before;
  return finished(out);
}

Run::Flow Run::execute(const Body& body, Output& out) {
  const Nested nested(*this);
  for (const std::unique_ptr<Statement>& one : body) {
    const Flow flow = execute(*one, out);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Run::Flow Run::execute(const Statement& s, Output& out) {
  using Kind = Statement::Kind;
  step();
  line_ = s.line;
  switch (s.kind) {
    case Kind::text:
      step(s.text.size() / 1024);
      write(out, s.text);
      return Flow::next;
    case Kind::print:
      for (const ExpressionPtr& one : s.expressions) write(out, str(*this, evaluate(*one)));
      return Flow::next;
    case Kind::branch:
      for (size_t i = 0; i < s.expressions.size(); ++i) {
        if (truth(*this, evaluate(*s.expressions[i]))) return execute(s.bodies[i], out);
      }
      return s.bodies.size() > s.expressions.size() ? execute(s.bodies.back(), out) : Flow::next;
    case Kind::loop: {
      const Value iterable = evaluate(*s.expressions[0]);
      line_ = s.line;
      if (!s.recursive) return loop(s, iterable, out, 0);
      write(out, looped(s, iterable, *scope_, 0));
      return Flow::next;
    }
    case Kind::set:
      assign(*s.targets[0], evaluate(*s.expressions[0]));
      return Flow::next;
    case Kind::set_block: {
      Value value = text(captured(s.bodies[0], *scope_));
      if (s.expressions[0] != nullptr) value = filtered(*s.expressions[0], &value);
      assign(*s.targets[0], value);
      return Flow::next;
    }
    case Kind::macro:
      scope_->variables[s.text] = caller_of(s);
      return Flow::next;
    case Kind::call_block: {
      const Value caller = caller_of(s);
      write(out, str(*this, call(*s.expressions[0], &caller)));
      return Flow::next;
    }
    case Kind::filter: {
      const Value value = text(captured(s.bodies[0], *scope_));
      write(out, str(*this, filtered(*s.expressions[0], &value)));
      return Flow::next;
    }
    case Kind::with: {
      std::vector<Value> values;
      for (const ExpressionPtr& one : s.expressions) values.push_back(evaluate(*one));
      const ScopeGuard guard(*this, *scope_);
      for (size_t i = 0; i < values.size(); ++i) assign(*s.targets[i], values[i]);
      return execute(s.bodies[0], out);
    }
    case Kind::scope:
      write(out, captured(s.bodies[0], *scope_));
      return Flow::next;
    case Kind::break_loop:
      return Flow::break_loop;
    case Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

void Run::assign(const Expression& target, const Value& value) {
  step();
  switch (target.kind) {
    case Expression::Kind::name:
      scope_->variables[target.name] = value;
      return;
    case Expression::Kind::namespaced: {
      const Value space = name(target.name);
      auto* found = space.as<Namespace>();
      if (found == nullptr)
        fail(concat("expected a namespace to set an attribute of, found '", target.name, "', a ",
                    space.type_name()));
      return found->set(*this, target.attribute, value);
    }
    default:
      break;
  }
  const std::vector<Value> values = iterate(*this, value);
  if (values.size() != target.children.size())
    fail(concat("expected ", target.children.size(), " values to unpack, found ", values.size()));
  for (size_t i = 0; i < values.size(); ++i) assign(*target.children[i], values[i]);
}

Value Run::caller_of(const Statement& statement) {
  for (Scope* scope = scope_; scope != nullptr && !scope->referred; scope = scope->outer) {
    scope->referred = true;
    budget_.used += sizeof(Scope) + 256;  // stays until the end
  }
  check_memory();
  return object<Macro>(statement, *scope_);
}

Run::Flow Run::loop(const Statement& s, const Value& iterable, Output& out, int depth) {
  Scope& outer = *scope_;
  Loop::Passes passes = nullptr;
  if (s.expressions[1] != nullptr) {
    passes = [&](const Value& item) {
      const ScopeGuard guard(*this, outer);
      assign(*s.targets[0], item);
      return truth(*this, evaluate(*s.expressions[1]));
    };
  }
  Function::Body recurse = nullptr;
  if (s.recursive) {
    for (Scope* scope = scope_; scope != nullptr; scope = scope->outer) scope->referred = true;
    recurse = [&s, &outer, depth](Run& run, const Arguments& arguments) -> Value {
      if (arguments.positional.size() != 1)
        run.fail("expected the values to visit as the argument of a loop");
      return run.text(run.looped(s, arguments.positional[0], outer, depth + 1));
    };
  }
  const auto state = std::make_shared<Loop>(*this, iterable, std::move(passes), std::move(recurse), depth);
  check_depth(state->depth());
  const Value loop_value = Value::of(std::shared_ptr<Object>(state));
  bool any = false;
  Flow flow = Flow::next;
  while (flow != Flow::break_loop) {
    const Value* item = state->advance(*this);
    if (item == nullptr) break;
    any = true;
    const ScopeGuard guard(*this, outer);
    guard.scope().variables["loop"] = loop_value;
    assign(*s.targets[0], *item);
    flow = execute(s.bodies[0], out);
  }
  state->close();
  if (any || s.bodies.size() < 2) return Flow::next;
  const ScopeGuard guard(*this, outer);
  return execute(s.bodies[1], out);
}

}  // namespace qkv::jinja
