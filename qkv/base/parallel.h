#pragma once
// One way to use several cores. Work is split over outputs, in pieces whose bounds do not depend on the
// number of threads, so that results are the same bits for any number of them.

#include <cstdint>
#include <functional>

namespace qkv {

// The number of threads that parallel_for uses; the number of cores until set.
int threads();

// Throws UsageError unless 1 <= count <= 1024.
void set_threads(int count);

// Calls body(begin, end) for consecutive pieces of [0, count), each of `grain` items (the last may be
// shorter), on up to threads() threads; a piece's bounds depend on count and grain only. Runs in the caller
// where only one piece or one thread is to be had, or inside another parallel_for. The first exception of a
// body is thrown again here, after all pieces under way have ended.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace qkv
