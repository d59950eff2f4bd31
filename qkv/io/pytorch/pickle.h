#pragma once
// Python's pickle format, protocols 2 to 5 (pickletools.py documents the instructions), as data: a call of a
// function or class is recorded, and nothing is run.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

class Pickle {
 public:
  using Ref = uint32_t;  // of a value, of this pickle
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,     // within 64 bits
    number,      // a real number, whose value is not kept
    text,        // str or bytes; an integer beyond 64 bits, as its bytes
    list,        // of items; tuples and sets too
    dictionary,  // keys and values by turns
    name,        // a global: "module name"
    call,        // of items: the function, and its arguments as a list; of a class too
    persistent,  // of items: the id
  };
  struct Value {
    Kind kind = Kind::none;
    int64_t integer = 0;
    std::string text = {};
    std::vector<Ref> items = {};
  };

  // Reads the pickle at the beginning of `bytes`. Throws DataError, naming the file, for one that is
  // truncated or malformed, of an older protocol, or has more than kMostValues values or kMostBytes of texts
  // and items.
  Pickle(std::span<const std::byte> bytes, const std::string& file);
  static constexpr size_t kMostValues = 4'000'000, kMostBytes = size_t{64} << 20;

  const Value& operator[](Ref ref) const { return values_[ref]; }
  const Value& result() const { return values_[result_]; }
  Ref count() const { return static_cast<Ref>(values_.size()); }
  size_t size() const { return size_; }  // bytes

 private:
  class Reader;
  std::deque<Value> values_;
  Ref result_ = 0;
  size_t size_ = 0;
};

}  // namespace qkv::io
