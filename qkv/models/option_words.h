#pragma once
// The names of the kinds in configurations: words(kind) of an enum has all of its values.

#include "qkv/base/field_text.h"
#include "qkv/models/config.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/text_encoder.h"

namespace qkv::kernels {
Words<Activation> words(Activation kind);
Words<NormKind> words(NormKind kind);
}  // namespace qkv::kernels

namespace qkv::nn {
Words<NormPlacement> words(NormPlacement kind);
Words<PositionKind> words(PositionKind kind);
Words<RotaryScalingKind> words(RotaryScalingKind kind);
Words<QueryKeyNorm> words(QueryKeyNorm kind);
Words<SublayerOrder> words(SublayerOrder kind);
}  // namespace qkv::nn

namespace qkv::models {
Words<ClassificationTarget> words(ClassificationTarget kind);
Words<PooledRow> words(PooledRow kind);
Words<ImagePooler> words(ImagePooler kind);
Words<ProblemType> words(ProblemType kind);
Words<Tying> words(Tying kind);
}  // namespace qkv::models
