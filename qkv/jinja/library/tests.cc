#include <algorithm>
#include <array>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/jinja/library/methods.h"
#include "qkv/jinja/run/objects.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {
namespace {

using Args = const Arguments&;
using Kind = Value::Kind;

const Value& only(Run& run, Args args) {
  if (args.positional.size() != 1 || !args.named.empty()) run.fail("a test: expected one argument");
  return args.positional[0];
}
// Throws if a test without arguments has one.
bool alone(Run& run, Args args) {
  const Bound bound(run, "a test without arguments", args, {});
  return true;
}
// The remainder of a division, as a number.
bool remainder_is(Run& run, const Value& value, const Value& divisor, int64_t wanted) {
  return equal(run, arithmetic(run, Operator::mod, value, divisor), wanted);
}
template <Operator op>
bool relation(Run& run, const Value& value, Args args) {
  return ordered(run, op, value, only(run, args));
}
bool is_sequence_type(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict() ||
         value.as<Range>() != nullptr;
}
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.kind() == Kind::object && value.object().callable());
}
bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.identity() != nullptr) return a.identity() == b.identity();
  return a.is_none() || (a.is_integral() && a.integral() == b.integral());
}

constexpr std::array<std::pair<std::string_view, Test>, 39> kTests = {{
    {"odd", [](Run& run, const Value& v, Args) { return remainder_is(run, v, 2, 1); }},
    {"even", [](Run& run, const Value& v, Args) { return remainder_is(run, v, 2, 0); }},
    {"divisibleby", [](Run& run, const Value& v, Args a) { return remainder_is(run, v, only(run, a), 0); }},
    {"defined", [](Run& run, const Value& v, Args a) { return alone(run, a) && (!v.is_undefined()); }},
    {"undefined", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_undefined(); }},
    {"none", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_none(); }},
    {"boolean", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_boolean(); }},
    {"false",
     [](Run& run, const Value& v, Args a) { return alone(run, a) && (v.is_boolean() && !v.boolean()); }},
    {"true",
     [](Run& run, const Value& v, Args a) { return alone(run, a) && (v.is_boolean() && v.boolean()); }},
    {"integer",
     [](Run& run, const Value& v, Args a) { return alone(run, a) && (v.kind() == Kind::integer); }},
    {"float", [](Run& run, const Value& v, Args a) { return alone(run, a) && (v.kind() == Kind::number); }},
    {"number", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_numeric(); }},
    {"string", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_string(); }},
    {"mapping", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_dict(); }},
    {"sequence", [](Run& run, const Value& v, Args a) { return alone(run, a) && is_sequence_type(v); }},
    {"iterable", [](Run& run, const Value& v, Args a) { return alone(run, a) && is_iterable(v); }},
    {"callable", [](Run& run, const Value& v, Args a) { return alone(run, a) && is_callable(v); }},
    {"escaped", [](Run& run, const Value& v, Args a) { return alone(run, a) && v.is_markup(); }},
    {"lower", [](Run& run, const Value& v, Args) { return has_case(str(run, v), /*upper=*/false); }},
    {"upper", [](Run& run, const Value& v, Args) { return has_case(str(run, v), /*upper=*/true); }},
    {"sameas", [](Run& run, const Value& v, Args a) { return same(v, only(run, a)); }},
    {"in", [](Run& run, const Value& v, Args a) { return contains(run, only(run, a), v); }},
    {"filter",
     [](Run&, const Value& v, Args) { return v.is_string() && find_filter(v.string()) != nullptr; }},
    {"test", [](Run&, const Value& v, Args) { return v.is_string() && find_test(v.string()) != nullptr; }},
    {"eq", [](Run& run, const Value& v, Args a) { return equal(run, v, only(run, a)); }},
    {"==", [](Run& run, const Value& v, Args a) { return equal(run, v, only(run, a)); }},
    {"equalto", [](Run& run, const Value& v, Args a) { return equal(run, v, only(run, a)); }},
    {"ne", [](Run& run, const Value& v, Args a) { return !equal(run, v, only(run, a)); }},
    {"!=", [](Run& run, const Value& v, Args a) { return !equal(run, v, only(run, a)); }},
    {"gt", relation<Operator::gt>},
    {">", relation<Operator::gt>},
    {"greaterthan", relation<Operator::gt>},
    {"ge", relation<Operator::ge>},
    {">=", relation<Operator::ge>},
    {"lt", relation<Operator::lt>},
    {"<", relation<Operator::lt>},
    {"lessthan", relation<Operator::lt>},
    {"le", relation<Operator::le>},
    {"<=", relation<Operator::le>},
}};

}  // namespace

Test find_test(std::string_view name) {
  const auto* found =
      std::find_if(kTests.begin(), kTests.end(), [&](const auto& one) { return one.first == name; });
  return found == kTests.end() || name.empty() ? nullptr : found->second;
}

}  // namespace qkv::jinja
