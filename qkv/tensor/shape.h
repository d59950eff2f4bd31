#pragma once
// The extents of a tensor, outermost first: [tokens, features].

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

namespace qkv {

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  // Throws ShapeError for more than kMaxRank extents, a negative one, and 2^60 elements or more.
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  // Negative axes count from the end: shape[-1] is the innermost. Throws ShapeError outside the rank.
  int64_t operator[](int axis) const;
  int64_t numel() const;
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }

  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  std::array<int64_t, kMaxRank> extents_{};  // 0 from rank_ on
  int rank_ = 0;
};

// Formats as "[2, 3]".
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace qkv
