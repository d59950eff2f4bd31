#pragma once
// Copies of f32 matrices in bf16, for the instructions for bf16.

#include "qkv/kernels/backend/matmul.h"
#include "qkv/kernels/cuda/memory.h"
#include "qkv/kernels/cuda/tiles.h"

namespace qkv::kernels::cuda {

// to [parts, rows, cols]: the parts of each number, whose sum it is, rounded to the last (part_of()).
inline void split(const Matrix& from, int parts, uint16_t* to) {
  const int64_t count = from.rows * from.cols;
  for_each(count, [=] QKV_DEVICE(int64_t i) {
    const float value = from.data[i / from.cols * from.stride + i % from.cols];
    for (int part = 0; part < parts; ++part) to[part * count + i] = part_of(value, part);
  });
}

class Parts {
 public:
  Parts(const Matrix& from, int parts) : size_(from.rows * from.cols), numbers_(parts * size_) {
    split(from, parts, numbers_.data());
  }
  const uint16_t* part(int i) const { return numbers_.data() + i * size_; }

 private:
  int64_t size_;
  Array<uint16_t> numbers_;
};

}  // namespace qkv::kernels::cuda
