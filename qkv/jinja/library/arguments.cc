#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/jinja/library/library.h"
#include "qkv/jinja/run/operators.h"

namespace qkv::jinja {

Bound::Bound(Run& run, std::string_view what, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters)
    : run_(run), what_(what) {
  std::copy(parameters.begin(), parameters.end(), parameters_.begin());
  if (arguments.positional.size() > parameters.size())
    run.fail(concat(what, ": expected at most ", parameters.size(), " arguments, found ",
                    arguments.positional.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) run.fail(concat(what, ": the argument '", name, "' is not supported"));
    const Value*& place = values_[static_cast<size_t>(found - parameters.begin())];
    if (place != nullptr) run.fail(concat(what, ": the argument '", name, "' is repeated"));
    place = &value;
  }
}

const Value& Bound::required(size_t parameter) const {
  if (values_[parameter] == nullptr)
    run_.fail(concat(what_, ": expected the argument '", parameters_[parameter], "', found none"));
  return *values_[parameter];
}
Value Bound::value_or(size_t parameter, const Value& otherwise) const {
  return values_[parameter] != nullptr ? *values_[parameter] : otherwise;
}
bool Bound::truth_or(size_t parameter, bool otherwise) const {
  return values_[parameter] != nullptr ? truth(run_, *values_[parameter]) : otherwise;
}
int64_t Bound::integer_or(size_t parameter, int64_t otherwise) const {
  if (values_[parameter] == nullptr) return otherwise;
  return to_integer(run_, *values_[parameter], concat(what_, ": ", parameters_[parameter]));
}
const std::string& Bound::text(size_t parameter) const {
  const Value& value = required(parameter);
  check_defined(run_, value);
  if (!value.is_string())
    run_.fail(concat(what_, ": ", parameters_[parameter], ": expected a str, found a ", value.type_name()));
  return value.string();
}

}  // namespace qkv::jinja
