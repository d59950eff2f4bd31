#pragma once
// Sums and means. The order of a sum depends on the shape only. Negative axes count from the back.

#include "qkv/ops/tape.h"

namespace qkv {

// Whether an axis that is summed over stays, with extent 1, so that the result broadcasts against what it was
// made of.
enum class KeepAxis : bool { no, yes };

// Of all elements: [1].
Variable sum(const Variable& x);
Variable mean(const Variable& x);
// Along an axis: [4, 5, 3] and axis 1 give [4, 3], or [4, 1, 3] with KeepAxis::yes. Throws ShapeError for an
// axis that there is not, and for the mean along one of extent 0.
Variable sum(const Variable& x, int axis, KeepAxis keep = KeepAxis::no);
Variable mean(const Variable& x, int axis, KeepAxis keep = KeepAxis::no);

}  // namespace qkv
