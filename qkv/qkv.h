#pragma once
// The public headers, lowest layer first. They and those that they include are installed. Each can be
// included alone too.

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/base/reserved_memory.h"

#include "qkv/tensor/ragged.h"
#include "qkv/tensor/tensor.h"

#include "qkv/text/tokenizer.h"

#include "qkv/kernels/counters.h"

#include "qkv/data/image.h"

#include "qkv/ops/attention.h"
#include "qkv/ops/general/arithmetic.h"
#include "qkv/ops/general/losses.h"
#include "qkv/ops/general/matmul.h"
#include "qkv/ops/general/pooling.h"
#include "qkv/ops/general/reduce.h"
#include "qkv/ops/general/reshape.h"
#include "qkv/ops/general/slice.h"
#include "qkv/ops/general/softmax.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/tape.h"
#include "qkv/ops/variable.h"

#include "qkv/nn/attention/attention.h"
#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/parameter.h"
#include "qkv/nn/positions.h"
#include "qkv/nn/residual_branches.h"
#include "qkv/nn/weights_file.h"

#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

#include "qkv/optim/adafactor.h"
#include "qkv/optim/adagrad.h"
#include "qkv/optim/adam.h"
#include "qkv/optim/optimizer.h"
#include "qkv/optim/rmsprop.h"
#include "qkv/optim/sgd.h"

#include "qkv/search/capture.h"
#include "qkv/search/constraint.h"
#include "qkv/search/engine/engine.h"
#include "qkv/search/search.h"

#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/chat.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/pipelines/rerank.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/translate.h"

#include "qkv/train/schedule.h"
