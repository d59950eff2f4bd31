// An encoder layer on a ragged batch: two concatenated sentences of different lengths, without padding. The
// second sentence has the same result alone, bit for bit.
#include <qkv/qkv.h>

#include <cmath>
#include <cstring>
#include <iostream>

int main() {
  constexpr int64_t d_model = 64;
  const qkv::nn::EncoderLayer layer({.d_model = d_model, .heads = 4, .d_ff = 256, .dropout = 0.1f});
  qkv::nn::initialise(layer, /*seed=*/1);

  const auto offsets = qkv::Offsets::of_lengths(std::vector<int32_t>{5, 3});
  qkv::Tensor x = qkv::Tensor::empty({offsets.tokens(), d_model});
  for (int64_t i = 0; i < x.numel(); ++i) x.values()[i] = std::sin(0.37f * static_cast<float>(i));

  qkv::nn::ForwardContext context;  // inference: no dropout
  const qkv::Tensor both = layer(x, offsets, {}, context).value();

  layer.visit([](const std::string& name, const qkv::nn::Parameter& parameter) {
    std::cout << name << ' ' << parameter.shape << '\n';
  });
  std::cout << qkv::nn::count_parameters(layer) << " parameters\n";

  qkv::nn::ForwardContext second_pass;
  const qkv::Tensor alone =
      layer(x.slice_rows(offsets.begin(1), 3), qkv::Offsets::uniform(1, 3), {}, second_pass).value();
  const qkv::Tensor in_batch = both.slice_rows(offsets.begin(1), 3);
  const bool same = std::memcmp(alone.data(), in_batch.data(), alone.bytes()) == 0;
  std::cout << "[5 + 3 tokens, " << d_model << "] -> " << both.shape() << "; alone and in the batch "
            << (same ? "the same bits" : "different") << '\n';
  return same ? 0 : 1;
}
