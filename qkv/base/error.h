#pragma once
// Errors. The library throws only these of its own; it never prints, exits or aborts.

#include <sstream>
#include <stdexcept>
#include <string>

namespace qkv {

// Messages name the thing, what was expected and what was found. An error thrown inside a module begins with
// the module's path: "encoder.layers.3.self_attn: ..." (NameScope).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// An unsupported shape or dtype.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// The caller's mistake: an option or configuration that is unknown, out of range or contradicts another.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A file that cannot be opened, read, mapped or written.
class IoError : public Error {
 public:
  using Error::Error;
};

// Invalid content of a file or text: truncated, malformed, of another format.
class DataError : public Error {
 public:
  using Error::Error;
};

// An unexpected NaN or infinity.
class NumericError : public Error {
 public:
  using Error::Error;
};

// Concatenates the parts as formatted by a stream: concat("d_k = ", 16). Throws std::bad_alloc, which a
// stream would catch and return a shorter text.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);
  (out << ... << parts);
  return out.str();
}

}  // namespace qkv
