#pragma once
// Sums and means. The order of summation depends on the shape only. Negative axes count from the end.

#include "qkv/ops/tape.h"

namespace qkv {

// Whether the reduced axis remains with extent 1, so that the result broadcasts against the input.
enum class KeepAxis : bool { no, yes };

// Over all elements: [1].
Variable sum(const Variable& x);
Variable mean(const Variable& x);
// Over one axis: [4, 5, 3] and axis 1 give [4, 3], or [4, 1, 3] with KeepAxis::yes. Throws ShapeError for an
// invalid axis, and for a mean over an axis of extent 0.
Variable sum(const Variable& x, int axis, KeepAxis keep = KeepAxis::no);
Variable mean(const Variable& x, int axis, KeepAxis keep = KeepAxis::no);

}  // namespace qkv
