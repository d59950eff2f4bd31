#pragma once
// Matrices in bf16, for the instructions for bf16.

#include <optional>

#include "qkv/kernels/backend/matmul.h"
#include "qkv/kernels/cuda/elements.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/tiles.h"

namespace qkv::kernels::cuda {

// to [parts, rows, cols]: the parts of each number, whose sum it is, rounded to the last (part_of()).
inline void split(const Matrix& from, int parts, uint16_t* to) {
  const int64_t count = from.rows * from.cols;
  for_each(count, [=] QKV_DEVICE(int64_t i) {
    const float value = get(from.data, i / from.cols * from.stride + i % from.cols);
    for (int part = 0; part < parts; ++part) to[part * count + i] = part_of(value, part);
  });
}

// A matrix split into parts of bf16. A matrix of bf16 has one part, which is read in place.
class Parts {
 public:
  Parts(const Matrix& from, int parts) : size_(from.rows * from.cols), stride_(from.cols) {
    if (from.data.dtype == DType::bf16 && parts == 1) {
      numbers_ = static_cast<const uint16_t*>(from.data.data);
      stride_ = from.stride;
      return;
    }
    copy_.emplace(parts * size_);
    split(from, parts, copy_->data());
    numbers_ = copy_->data();
  }
  const uint16_t* part(int i) const { return numbers_ + i * size_; }
  int64_t stride() const { return stride_; }  // of rows

 private:
  int64_t size_, stride_;
  std::optional<Array<uint16_t>> copy_;
  const uint16_t* numbers_ = nullptr;
};

}  // namespace qkv::kernels::cuda
