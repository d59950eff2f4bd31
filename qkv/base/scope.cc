#include "qkv/base/scope.h"

#include "qkv/base/per_thread.h"

namespace qkv {
namespace {

struct Path {
  std::string text;
};

std::string& path() { return per_thread<Path>().text; }

}  // namespace

NameScope::NameScope(std::string_view name) : outer_length_(path().size()) {
  std::string& own = path();
  own.reserve(own.size() + 1 + name.size());
  if (!own.empty()) own += '.';
  own += name;
}

NameScope::NameScope(std::string_view name, int index) : NameScope(name) {
  // Not "." + ...: GCC 12 warns of an overlap that std::string cannot have.
  std::string& own = path();
  own += '.';
  own += std::to_string(index);
}

NameScope::~NameScope() { path().resize(outer_length_); }

const std::string& NameScope::current() { return path(); }

}  // namespace qkv
