#include "qkv/base/scope.h"

namespace qkv {
namespace {
thread_local std::string path;
}  // namespace

NameScope::NameScope(std::string_view name) : outer_length_(path.size()) {
  if (!path.empty()) path += '.';
  path += name;
}

NameScope::NameScope(std::string_view name, int index) : NameScope(name) {
  path += '.';
  path += std::to_string(index);
}

NameScope::~NameScope() { path.resize(outer_length_); }

const std::string& NameScope::current() { return path; }

}  // namespace qkv
