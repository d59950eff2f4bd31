#pragma once
// Kernels in plain loops, which take no significant time in any model.

#include "qkv/kernels/backend/broadcast.h"
#include "qkv/kernels/backend/label_loss.h"
#include "qkv/kernels/backend/product.h"
#include "qkv/kernels/backend/segments.h"

namespace qkv::kernels::cpu {

void binary(const Broadcast& arguments);
void sum_axis(const AxisSum& arguments);
void batched_product(const BatchedProduct& arguments);
void segment_mean(const SegmentMean& arguments);
void segment_mean_backward(const SegmentMeanBackward& arguments);
void segment_max(const SegmentMax& arguments);
void segment_max_backward(const SegmentMaxBackward& arguments);
void label_loss(const LabelLossForward& arguments);
void label_loss_backward(const LabelLossBackward& arguments);
void softmax_backward(const SoftmaxBackward& arguments);

}  // namespace qkv::kernels::cpu
