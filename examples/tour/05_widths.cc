// Queries and keys must have the same width, as they are multiplied; values may have another, and there may
// be other numbers of queries and keys.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

int main() {
  constexpr int64_t heads = 2, d_k = 4, d_v = 6;
  const Tensor q = lesson::normal({1, 3, heads, d_k}, 1);  // 3 queries
  const Tensor k = lesson::normal({1, 5, heads, d_k}, 2),
               v = lesson::normal({1, 5, heads, d_v}, 3);  // 5 keys
  std::cout << "Q " << q.shape() << ", K " << k.shape() << ", V " << v.shape() << " -> "
            << scaled_dot_product_attention(q, k, v).output.shape() << '\n';
  try {
    scaled_dot_product_attention(q, v, v);
  } catch (const ShapeError& error) {
    std::cout << error.what() << '\n';
  }

  const nn::MultiheadAttention layer({.d_model = 10,
                                      .heads = heads,
                                      .d_k = d_k,
                                      .d_v = d_v,
                                      .variant = {.bias = nn::ProjectionBiases::all(false)}});
  layer.visit([](const std::string& name, const nn::Parameter& parameter) {
    std::cout << name << ' ' << parameter.shape << '\n';
  });
}
