#pragma once
// Arguments of matrix products. Matrices are row-major with a row stride in elements.

#include <cstdint>

#include "qkv/kernels/backend/elements.h"
#include "qkv/kernels/weight_rows.h"

namespace qkv::kernels {

struct Matrix {
  Elements data = {};
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;
};

struct MutableMatrix {
  MutableElements data = {};
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;
};

// A right-hand side prepared by a backend.
class PreparedMatrix {
 public:
  PreparedMatrix() = default;
  PreparedMatrix(const PreparedMatrix&) = delete;
  PreparedMatrix& operator=(const PreparedMatrix&) = delete;
  virtual ~PreparedMatrix() = default;
};

}  // namespace qkv::kernels
