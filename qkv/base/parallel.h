#pragma once
// Data parallelism. Work is split over outputs, in pieces whose bounds do not depend on the number of
// threads, so that results have the same bits for any number of threads.

#include <cstdint>
#include <functional>

namespace qkv {

// The number of threads used by parallel_for. Default: the number of available processors, by the affinity
// mask and the cgroups' quotas.
int threads();

// Throws UsageError unless 1 <= count <= 1024.
void set_threads(int count);

// Calls body(begin, end) for consecutive pieces of [0, count), each of `grain` items (the last may be
// shorter), on up to threads() threads. The bounds depend on count and grain only. Runs on the calling thread
// if there is only one piece or one thread, or inside another parallel_for, or while another thread's
// parallel_for runs, so that any number of threads may call it. Uses fewer threads, with a warning in the
// log, if the system refuses to create them. A child after fork() starts threads of its own. Rethrows the
// first exception of a body after all running pieces have ended.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace qkv
