#include "qkv/jinja/run/operators.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/jinja/python/strings.h"
#include "qkv/jinja/run/objects.h"

namespace qkv::jinja {
namespace {

using Kind = Value::Kind;

constexpr const char* symbol(Operator op) {
  constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">="};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void fail_operands(Run& run, Operator op, const Value& a, const Value& b) {
  check_defined(run, a);
  check_defined(run, b);
  if (a.as<View>() != nullptr || b.as<View>() != nullptr)
    run.fail(
        concat("'", symbol(op), "' of a ", a.type_name(), " and a ", b.type_name(), " is not supported"));
  run.fail(concat("expected operands that fit '", symbol(op), "', found a ", a.type_name(), " and a ",
                  b.type_name()));
}

[[noreturn]] void fail_overflow(Run& run) {
  run.fail("expected an integer of at most 64 bits, found a larger result");
}

// -1, 0 or 1; 2 if one is NaN.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral())
    return (a.integral() > b.integral()) - (a.integral() < b.integral());
  // Exact: a long double holds every 64-bit integer, on x86-64 and Arm.
  const auto exact = [](const Value& value) {
    return value.is_integral() ? static_cast<long double>(value.integral())
                               : static_cast<long double>(value.number());
  };
  const long double x = exact(a);
  const long double y = exact(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return (x > y) - (x < y);
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Python's float_divmod.
std::pair<double, double> floor_divide(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return {whole, rest};
}

Value power(Run& run, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral() && b.integral() >= 0) {
    int64_t base = a.integral();
    int64_t result = 1;
    bool overflow = false;  // of the base, which counts if it is used
    for (uint64_t rest = static_cast<uint64_t>(b.integral()); rest > 0; rest >>= 1) {
      if ((rest & 1) != 0 && (overflow || __builtin_mul_overflow(result, base, &result))) fail_overflow(run);
      if (rest > 1) overflow |= __builtin_mul_overflow(base, base, &base);
    }
    return result;
  }
  const double x = a.number();
  const double y = b.number();
  if (x == 0 && y < 0) run.fail("expected a power that is not negative of zero, found a negative one");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
    run.fail("a power that is a complex number is not supported");
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y))
    run.fail("expected a power that a float can hold, found a larger one");
  return result;
}

Value arithmetic_of_numbers(Run& run, Operator op, const Value& a, const Value& b) {
  const bool divides = op == Operator::div || op == Operator::floordiv || op == Operator::mod;
  if (divides && b.number() == 0) run.fail("division by zero");
  if (op == Operator::pow) return power(run, a, b);
  if (a.is_integral() && b.is_integral() && op != Operator::div) {
    const int64_t x = a.integral();
    const int64_t y = b.integral();
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
      case Operator::add:
        overflow = __builtin_add_overflow(x, y, &result);
        break;
      case Operator::sub:
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
      case Operator::mul:
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
      case Operator::floordiv:
        overflow = x == INT64_MIN && y == -1;
        if (!overflow) result = floor_divide(x, y);
        break;
      default:
        result = y == -1 ? 0 : x - y * floor_divide(x, y);
    }
    if (overflow) fail_overflow(run);
    return result;
  }
  const double x = a.number();
  const double y = b.number();
  switch (op) {
    case Operator::add:
      return x + y;
    case Operator::sub:
      return x - y;
    case Operator::mul:
      return x * y;
    case Operator::div:
      // Python divides integers exactly, then rounds once.
      if (a.is_integral() && b.is_integral() && std::max(std::abs(x), std::abs(y)) > 0x1p53)
        return static_cast<double>(static_cast<long double>(a.integral()) /
                                   static_cast<long double>(b.integral()));
      return x / y;
    case Operator::floordiv:
      return floor_divide(x, y).first;
    default:
      return floor_divide(x, y).second;
  }
}

Value repeated(Run& run, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (value.is_string()) {
    const std::string& text = value.string();
    if (!text.empty() && count > run.limits().output_bytes / text.size() + 1) run.check_text(SIZE_MAX);
    run.check_text(text.size() * count);
    std::string all;
    all.reserve(text.size() * count);
    for (size_t i = 0; i < count && !text.empty(); ++i) all += text;
    return run.text_like(value, std::move(all));
  }
  const std::vector<Value>& items = value.items();
  std::vector<Value> all;
  for (size_t i = 0; i < count && !items.empty(); ++i) {
    run.step(items.size());
    run.check_text(all.size() * sizeof(Value));
    all.insert(all.end(), items.begin(), items.end());
  }
  return value.kind() == Kind::tuple ? run.tuple(std::move(all)) : run.list(std::move(all));
}

bool equal_items(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(run, a[i], b[i])) return false;
  }
  return true;
}

Value markup_sum(Run& run, const Value& a, const Value& b) {
  const auto safe = [](const Value& value) {
    return value.is_markup() ? value.string() : escape_html(value.string());
  };
  return run.text(safe(a) + safe(b), /*markup=*/true);
}

}  // namespace

void check_defined(Run& run, const Value& value) {
  if (value.is_undefined()) run.fail(value.why());
}

int64_t to_integer(Run& run, const Value& value, std::string_view what) {
  check_defined(run, value);
  if (!value.is_integral()) run.fail(concat(what, ": expected an integer, found a ", value.type_name()));
  return value.integral();
}

bool truth(Run& /*run*/, const Value& value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.integral() != 0;
    case Kind::number:
      return value.number() != 0;
    case Kind::string:
      return !value.string().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return value.dict().size() > 0;
    default:
      return value.object().truth();
  }
}

bool equal(Run& run, const Value& a, const Value& b) {
  run.step();
  if (a.is_numeric() && b.is_numeric()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.identity() != nullptr && a.identity() == b.identity()) return true;
  switch (a.kind()) {
    case Kind::string:
      run.step(a.string().size() / 1024);
      return a.string() == b.string();
    case Kind::list:
    case Kind::tuple:
      return equal_items(run, a.items(), b.items());
    case Kind::dict:
      if (a.dict().size() != b.dict().size()) return false;
      for (const auto& [key, value] : a.dict().items()) {
        const Value* other = b.dict().find(key);
        if (other == nullptr || !equal(run, value, *other)) return false;
      }
      return true;
    case Kind::object:
      if (const Range* x = a.as<Range>(), *y = b.as<Range>(); x != nullptr && y != nullptr)
        return x->size == y->size &&
               (x->size == 0 || (x->start == y->start && (x->size == 1 || x->step == y->step)));
      if (a.as<View>() != nullptr && b.as<View>() != nullptr)
        run.fail("comparing views of dictionaries is not supported");
      return false;
    default:
      return true;  // None, undefined
  }
}

bool ordered(Run& run, Operator op, const Value& a, const Value& b) {
  run.step();
  const auto holds = [&](int order) {
    switch (op) {
      case Operator::lt:
        return order < 0;
      case Operator::le:
        return order <= 0;
      case Operator::gt:
        return order > 0;
      default:
        return order >= 0;
    }
  };
  if (a.is_numeric() && b.is_numeric()) {
    const int order = compare_numbers(a, b);
    return order != 2 && holds(order);
  }
  if (a.is_string() && b.is_string()) {
    run.step(std::min(a.string().size(), b.string().size()) / 1024);
    return holds(a.string().compare(b.string()));  // bytes of UTF-8 have the order of code points
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const std::vector<Value>& x = a.items();
    const std::vector<Value>& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(run, x[i], y[i])) return ordered(run, op, x[i], y[i]);
    }
    return holds(x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  fail_operands(run, op, a, b);
}

bool contains(Run& run, const Value& container, const Value& item) {
  run.step();
  if (container.is_string()) {
    check_defined(run, item);
    if (!item.is_string()) run.fail(concat("expected a str on the left of 'in', found a ", item.type_name()));
    run.step(container.string().size() / 1024);
    return container.string().find(item.string()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (item.is_string()) run.step(item.string().size() / 1024);
    if (!key_text(item))
      run.fail(concat("expected a hashable value on the left of 'in', found a ", item.type_name()));
    return container.dict().find(item) != nullptr;
  }
  if (!is_iterable(container))
    run.fail(concat("expected a container on the right of 'in', found a ", container.type_name()));
  if (Iterator* iterator = container.as<Iterator>()) {
    while (const std::optional<Value> one = iterator->next(run)) {
      if (equal(run, *one, item)) return true;
    }
    return false;
  }
  const auto same = [&](const Value& one) { return equal(run, one, item); };
  if (container.is_sequence()) return std::any_of(container.items().begin(), container.items().end(), same);
  const std::vector<Value> items = iterate(run, container);
  return std::any_of(items.begin(), items.end(), same);
}

Value arithmetic(Run& run, Operator op, const Value& a, const Value& b) {
  if (a.is_numeric() && b.is_numeric()) return arithmetic_of_numbers(run, op, a, b);
  if (op == Operator::add) {
    if (a.is_string() && b.is_string()) {
      if (a.is_markup() || b.is_markup()) return markup_sum(run, a, b);
      run.check_text(a.string().size() + b.string().size());
      return run.text(a.string() + b.string());
    }
    if (a.is_sequence() && a.kind() == b.kind()) {
      std::vector<Value> all = a.items();
      run.step(all.size() + b.items().size());
      all.insert(all.end(), b.items().begin(), b.items().end());
      return a.kind() == Kind::tuple ? run.tuple(std::move(all)) : run.list(std::move(all));
    }
  }
  const auto repeats = [](const Value& value) { return value.is_string() || value.is_sequence(); };
  if (op == Operator::mul && repeats(a) && b.is_integral()) return repeated(run, a, b.integral());
  if (op == Operator::mul && repeats(b) && a.is_integral()) return repeated(run, b, a.integral());
  if (op == Operator::mod && a.is_string()) {
    if (a.is_markup()) run.fail("formatting the result of 'safe' is not supported");
    return run.text(format_percent(run, a.string(), b));
  }
  fail_operands(run, op, a, b);
}

Value negative(Run& run, const Value& value) {
  check_defined(run, value);
  if (value.kind() == Kind::number) return -value.number();
  if (!value.is_integral()) run.fail(concat("expected a number after '-', found a ", value.type_name()));
  if (value.integral() == INT64_MIN) fail_overflow(run);
  return -value.integral();
}

std::vector<Value> iterate(Run& run, const Value& value) {
  std::vector<Value> all;
  switch (value.kind()) {
    case Kind::undefined:
      return all;
    case Kind::list:
    case Kind::tuple:
      run.step(value.items().size());
      return value.items();
    case Kind::dict:
      run.step(value.dict().size());
      for (const auto& [key, item] : value.dict().items()) all.push_back(key);
      return all;
    case Kind::string: {
      const std::string& text = value.string();
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        next_character(text, at);
        all.push_back(run.text(text.substr(begin, at - begin)));
      }
      return all;
    }
    case Kind::object:
      if (std::optional<std::vector<Value>> items = value.object().iterate(run)) return std::move(*items);
      [[fallthrough]];
    default:
      run.fail(concat("expected values to visit, found a ", value.type_name()));
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return true;
    case Kind::object:
      return value.object().iterable();
    default:
      return false;
  }
}

std::optional<int64_t> length(Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      run.step(value.string().size() / 1024);
      return static_cast<int64_t>(count_characters(value.string()));
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().size());
    case Kind::object:
      return value.object().length(run);
    default:
      return std::nullopt;
  }
}

}  // namespace qkv::jinja
