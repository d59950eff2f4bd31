#include "qkv/base/error.h"

#include "qkv/base/scope.h"

namespace qkv {

Error::Error(const std::string& message)
    : std::runtime_error(NameScope::current().empty() ? message : NameScope::current() + ": " + message) {}

}  // namespace qkv
