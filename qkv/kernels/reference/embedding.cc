#include "qkv/kernels/reference/embedding.h"

#include "qkv/kernels/reference/dropout.h"
#include "qkv/kernels/reference/weights.h"

namespace qkv::kernels::reference {

Doubles embedded(const EmbeddingForward& a) {
  Doubles y;
  for (int64_t t = 0; t < a.tokens; ++t) {
    for (int64_t c = 0; c < a.cols; ++c) {
      double v = double{a.factor} * element(a.table, a.ids[t], c);
      if (a.positions != nullptr) v += double{a.positions[a.position[t] * a.cols + c]};
      y.push_back(v * dropout_factor(a.dropout, t, c));
    }
  }
  return y;
}

void embedding_forward(const EmbeddingForward& a) { store(embedded(a), a.y); }

void embedding_backward(const float* dy, const int32_t* ids, float factor, int64_t tokens, int64_t cols,
                        int64_t vocabulary, const Dropout& dropout, float* table_gradient) {
  Doubles sums(static_cast<size_t>(vocabulary * cols));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < cols; ++c) {
      sums[at(ids[t], cols, c)] += double{factor} * double{dy[t * cols + c]} * dropout_factor(dropout, t, c);
    }
  }
  store(sums, table_gradient, Accumulate::yes);
}

}  // namespace qkv::kernels::reference
