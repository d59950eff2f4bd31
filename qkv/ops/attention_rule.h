#pragma once

#include "qkv/kernels/attention.h"
#include "qkv/ops/attention.h"

namespace qkv {

// The description of an attention for the kernels: the options' tensors on a device, without the sequences.
kernels::AttentionRule attention_rule(const AttentionOptions& options, int64_t heads, int64_t d_k,
                                      Device device);

}  // namespace qkv
