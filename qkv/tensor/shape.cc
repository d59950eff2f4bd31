#include "qkv/tensor/shape.h"

#include "qkv/base/error.h"

namespace qkv {

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  if (extents.size() > kMaxRank) {
    throw ShapeError(concat("shape: expected at most ", kMaxRank, " extents, found ", extents.size()));
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 0) throw ShapeError(concat("shape: extent ", i, " is negative: ", extents[i]));
    extents_[i] = extents[i];
  }
  // Zero extents are ignored: strides are products of the others.
  constexpr int64_t kLimit = int64_t{1} << 60;
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent == 0) continue;
    if (extent >= kLimit || product > (kLimit - 1) / extent) {
      throw ShapeError(concat("shape: expected fewer than 2^60 elements, found ", *this));
    }
    product *= extent;
  }
}

int64_t Shape::operator[](int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  if (index < 0 || index >= rank_) throw ShapeError(concat("axis ", axis, " of a tensor of shape ", *this));
  return extents_[static_cast<size_t>(index)];
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t extent : extents()) product *= extent;
  return product;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

}  // namespace qkv
