// Global functions.

#include <algorithm>
#include <array>
#include <ctime>

#include "qkv/base/error.h"
#include "qkv/jinja/library/library.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;

constexpr int64_t kMaxRange = 100'000;  // of jinja2's sandbox

Value range(Run& run, Args args) {
  if (!args.named.empty())
    run.fail("range: expected no named arguments, found '" + args.named[0].first + "'");
  const Bound bound(run, "range", args, {"start", "stop", "step"});
  to_integer(run, bound.required(0), "range");
  const bool only_stop = bound.find(1) == nullptr;
  const int64_t start = only_stop ? 0 : bound.integer_or(0, 0);
  const int64_t stop = only_stop ? bound.integer_or(0, 0) : bound.integer_or(1, 0);
  const int64_t step = bound.integer_or(2, 1);
  if (step == 0) run.fail("range: expected a step that is not zero, found 0");
  const bool any = step > 0 ? start < stop : start > stop;
  // The distance may exceed 63 bits.
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t size = any ? (distance - 1) / stride + 1 : 0;
  if (size > kMaxRange) run.fail(concat("range: expected at most ", kMaxRange, " values, found ", size));
  return run.object<Range>(start, stop, step, static_cast<int64_t>(size));
}

// The items of dict(...) and namespace(...): a dictionary or pairs, then named arguments.
Dict dictionary(Run& run, Args args, const char* what) {
  if (args.positional.size() > 1)
    run.fail(concat(what, ": expected at most 1 positional argument, found ", args.positional.size()));
  Dict made;
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    check_defined(run, from);
    if (from.is_dict()) {
      made = from.dict();
    } else {
      for (const Value& pair : iterate(run, from)) {
        const std::vector<Value> both = iterate(run, pair);
        if (both.size() != 2) run.fail(concat(what, ": expected pairs, found ", both.size(), " values"));
        run.set(made, both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) made.set(name, value);
  return made;
}

Value make_dict(Run& run, Args args) { return run.dict(dictionary(run, args, "dict")); }

Value make_namespace(Run& run, Args args) {
  auto made = std::make_shared<Namespace>();
  const Dict items = dictionary(run, args, "namespace");
  run.step(items.size());
  for (const auto& [key, value] : items.items()) {
    if (!key.is_string()) run.fail(concat("namespace: expected names, found a ", key.type_name()));
    made->set(run, key.string(), value);
  }
  run.keep(made);
  return Value::of(std::shared_ptr<Object>(made));
}

Value raise_exception(Run& run, Args args) {
  const Bound bound(run, "raise_exception", args, {"message"});
  run.fail(str(run, bound.required(0)));
}

Value strftime_now(Run& run, Args args) {
  const Bound bound(run, "strftime_now", args, {"format"});
  const std::string& format = bound.text(0);
  // What Python passes on, without the widths of glibc, which would take any memory.
  constexpr std::string_view kKnown = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%";
  std::string safe;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\0') run.fail("strftime_now: expected a format without null characters, found one");
    safe += format[i];
    if (format[i] != '%') continue;
    ++i;
    if (i < format.size() && std::string_view("-_0^#").find(format[i]) != std::string_view::npos)
      safe += format[i++];
    if (i >= format.size()) run.fail("strftime_now: expected a letter after '%', found the end");
    if (format[i] == 'z' || format[i] == 'Z') {  // Python's time without a zone has none
      safe.resize(safe.rfind('%'));
      continue;
    }
    if (kKnown.find(format[i]) == std::string_view::npos)
      run.fail(concat("strftime_now: the directive '%", format[i], "' is not supported"));
    safe += format[i];
  }
  const std::tm now = run.clock()();
  run.check_text(safe.size() * 64);
  std::string out(safe.size() * 64 + 1, '\0');
  out.resize(safe.empty() ? 0 : std::strftime(out.data(), out.size(), safe.c_str(), &now));
  return run.text(std::move(out));
}

Value joiner(Run& run, Args args) {
  const Bound bound(run, "joiner", args, {"sep"});
  const Value separator = bound.value_or(0, ", ");
  return run.object<Function>(
      [separator, used = false](Run& at, Args given) mutable -> Value {
        const Bound none(at, "a joiner", given, {});
        return std::exchange(used, true) ? separator : Value("");
      },
      separator.depth());
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  const char* type() const override { return "Cycler"; }
  int depth() const override { return items_.depth() + 1; }
  std::optional<Value> attribute(Run& run, std::string_view name) override {
    if (name == "current") return items_.items()[at_];
    if (name != "next" && name != "reset") return std::nullopt;
    return run.object<Function>(
        [self = shared_from_this(), next = name == "next"](Run& at, Args given) -> Value {
          const Bound none(at, "a cycler", given, {});
          const size_t now = self->at_;
          self->at_ = next ? (now + 1) % self->items_.items().size() : 0;
          return next ? self->items_.items()[now] : Value();
        },
        depth());
  }

 private:
  Value items_;
  size_t at_ = 0;
};

Value cycler(Run& run, Args args) {
  if (args.positional.empty() || !args.named.empty()) run.fail("cycler: expected at least one value");
  return run.object<Cycler>(run.list(args.positional));
}

Value lipsum(Run& run, Args /*args*/) { run.fail("the function 'lipsum' is not supported"); }

}  // namespace

std::optional<Value> global(std::string_view name) {
  using Named = std::pair<std::string_view, Value (*)(Run&, Args)>;
  constexpr std::array<Named, 8> kGlobals = {{{"range", range},
                                              {"dict", make_dict},
                                              {"namespace", make_namespace},
                                              {"raise_exception", raise_exception},
                                              {"strftime_now", strftime_now},
                                              {"joiner", joiner},
                                              {"cycler", cycler},
                                              {"lipsum", lipsum}}};
  const auto* found =
      std::find_if(kGlobals.begin(), kGlobals.end(), [&](const Named& one) { return one.first == name; });
  if (found == kGlobals.end()) return std::nullopt;
  return Value::of(std::shared_ptr<Object>(std::make_shared<Function>(found->second)));
}

}  // namespace qkv::jinja
