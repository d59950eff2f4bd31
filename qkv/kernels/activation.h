#pragma once
// The activation functions of feed-forward blocks.

namespace qkv::kernels {

enum class Activation { identity, relu, gelu_exact, gelu_tanh, silu, tanh };

}  // namespace qkv::kernels
