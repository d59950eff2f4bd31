#include <qkv/qkv.h>

#include <iostream>

int main() {
  // Three tokens of two features, as queries, keys and values of one head: [batch, tokens, heads, features].
  const auto x = qkv::Tensor::from(std::vector{1.0f, 0.0f, 0.0f, 2.0f, 1.0f, 1.0f}, {1, 3, 1, 2});
  const auto attention = qkv::scaled_dot_product_attention(x, x, x, {.causal = true, .return_weights = true});
  const qkv::Tensor weights = attention.weights[0], y = attention.output.value();  // [heads, queries, keys]
  for (int64_t i = 0; i < 3; ++i) {
    std::cout << "token " << i << " attends with";
    for (int64_t j = 0; j <= i; ++j) std::cout << ' ' << weights.at(0, i, j);
    std::cout << " and becomes " << y.at(0, i, 0, 0) << ' ' << y.at(0, i, 0, 1) << '\n';
  }
}
