// Heads are blocks of columns of Q, K and V. Multi-head attention keeps the products of a block with itself.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

int main() {
  constexpr int64_t tokens = 5, d = 8, heads = 2, d_k = d / heads;
  const Tensor q = lesson::normal({tokens, d}, 1), k = lesson::normal({tokens, d}, 2),
               v = lesson::normal({tokens, d}, 3);
  const auto block = [](const Tensor& x, int64_t head) { return slice(x, 1, head * d_k, d_k); };

  // Each head by equation 1, from its columns; then side by side.
  std::vector<Variable> by_hand;
  for (int64_t h = 0; h < heads; ++h) {
    const Variable scores = matmul(block(q, h), transpose(block(k, h))) / std::sqrt(static_cast<float>(d_k));
    by_hand.push_back(matmul(softmax(scores), block(v, h)));
  }
  const Variable concatenated = concatenate(by_hand, 1);
  std::cout << "multi-head attention, and its heads one by one: the difference is"
            << lesson::cell(lesson::difference(multihead_attention(q, k, v, heads, {}).output.value(),
                                               concatenated.value()),
                            5, 8)
            << '\n';

  // Without the softmax, one head over all columns is a sum of products of blocks.
  const Variable full = matmul(matmul(q, transpose(k)), v);
  for (int64_t j = 0; j < heads; ++j) {
    Variable sum = Tensor::zeros({tokens, d_k});
    for (int64_t i = 0; i < heads; ++i) {
      const Variable product = matmul(matmul(block(q, i), transpose(block(k, i))), block(v, j));
      sum = sum + product;
      std::cout << "Q_" << i + 1 << " K_" << i + 1 << "^T V_" << j + 1
                << (i == j ? "  kept by head " + std::to_string(j + 1) : "  in full attention only") << '\n';
    }
    std::cout << "their sum, and columns of (Q K^T) V: the difference is"
              << lesson::cell(lesson::difference(sum.value(), block(full.value(), j).value()), 4) << '\n';
  }

  for (const int64_t n : {1, 2}) {
    const uint64_t before = kernels::counted_macs();
    multihead_attention(q, k, v, n, {});
    std::cout << n << (n == 1 ? " head:  " : " heads: ") << kernels::counted_macs() - before
              << " multiply-accumulates\n";
  }
}
