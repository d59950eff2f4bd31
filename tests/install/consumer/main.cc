#include <qkv/qkv.h>

#include <iostream>
#include <vector>

// One query, two keys: the scores are 1 / sqrt(2) and 0, so the output is (1 e^0.7071 + 3) / (e^0.7071 + 1).
int main() {
  const qkv::Tensor query = qkv::Tensor::from(std::vector{1.0f, 0.0f}, {1, 1, 1, 2});
  const qkv::Tensor keys = qkv::Tensor::from(std::vector{1.0f, 0.0f, 0.0f, 1.0f}, {1, 2, 1, 2});
  const qkv::Tensor values = qkv::Tensor::from(std::vector{1.0f, 3.0f}, {1, 2, 1, 1});
  std::cout << qkv::scaled_dot_product_attention(query, keys, values).output.value().item() << '\n';
}
