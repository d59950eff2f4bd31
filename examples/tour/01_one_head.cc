// One head on two tokens of two features, small enough to compute by hand: equation 1.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

int main() {
  const Shape shape{1, 2, 1, 2};  // [batch, tokens, heads, features]
  const Tensor q = Tensor::from(std::vector{1.0f, 1.0f, 1.0f, 0.0f}, shape);
  const Tensor k = Tensor::from(std::vector{1.0f, 0.0f, 1.0f, 1.0f}, shape);
  const Tensor v = Tensor::from(std::vector{1.0f, 0.0f, 0.0f, 1.0f}, shape);
  const auto attention =
      scaled_dot_product_attention(q, k, v, {.return_weights = true, .return_scores = true});

  const Tensor scores = attention.scores[0], weights = attention.weights[0];  // [heads, queries, keys]
  const Tensor output = attention.output.value().reshape({2, 2});
  for (int64_t i = 0; i < 2; ++i) {
    std::cout << "token " << i + 1 << ": scores"
              << lesson::cells(scores.reshape({2, 2}).slice_rows(i, 1).values()) << "  weights"
              << lesson::cells(weights.reshape({2, 2}).slice_rows(i, 1).values()) << "  output"
              << lesson::cells(output.slice_rows(i, 1).values()) << '\n';
  }
}
