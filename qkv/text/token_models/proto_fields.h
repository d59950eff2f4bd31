#pragma once
// Reads serialized protocol buffer messages, such as SentencePiece's models.

#include <cstdint>
#include <optional>
#include <string_view>

namespace qkv::text {

// Iterates over the fields of a serialized protocol buffer message.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  // Moves to the next field; false at the end, or if the message is malformed.
  bool next() {
    if (rest_.empty()) return false;
    malformed_ = !take_field();
    return !malformed_;
  }
  // After next() has returned false: the message is malformed.
  bool malformed() const { return malformed_; }

  uint64_t number() const { return number_; }
  // The field's content: of text, bytes and messages; the 4 or 8 bytes of a number of fixed size.
  std::string_view bytes() const { return value_; }
  // The value of an integer of variable size.
  uint64_t integer() const { return integer_; }

 private:
  bool take_field() {
    const auto tag = varint();
    if (!tag || *tag >> 3 == 0) return false;
    number_ = *tag >> 3;
    value_ = {};
    integer_ = 0;
    constexpr uint64_t kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5;
    switch (*tag & 7) {
      case kVarint: {
        const auto value = varint();
        integer_ = value.value_or(0);
        return value.has_value();
      }
      case kEightBytes:
        return take(8);
      case kFourBytes:
        return take(4);
      case kBytes: {
        const auto size = varint();
        return size && take(*size);
      }
      default:
        return false;
    }
  }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  bool take(uint64_t size) {
    if (size > rest_.size()) return false;
    value_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_, value_;
  uint64_t number_ = 0, integer_ = 0;
  bool malformed_ = false;
};

}  // namespace qkv::text
