#pragma once
// Errors. The library throws these and nothing else of its own; it never prints, exits or aborts.

#include <sstream>
#include <stdexcept>
#include <string>

namespace qkv {

// Every message names the thing, what was expected and what was found. One that is thrown inside a module of
// a model begins with the module's name: "encoder.layers.3.self_attn: ..." (NameScope).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// A shape or dtype that an operation cannot take.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// An option or configuration that is unknown, out of range or contradicts another: the caller's mistake.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A file that cannot be opened, read, mapped or written.
class IoError : public Error {
 public:
  using Error::Error;
};

// A file or text that was read but is not what it should be: truncated, foreign, malformed.
class DataError : public Error {
 public:
  using Error::Error;
};

// A NaN or an infinity where a number should be.
class NumericError : public Error {
 public:
  using Error::Error;
};

// The parts written one after the other, as a stream would write them: concat("d_k = ", 16).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace qkv
