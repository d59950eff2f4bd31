// Memory grows with T, not with T x T: the kernel works tile by tile, in both directions.
#include <sys/resource.h>

#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

// The process's largest resident set so far.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main() {
  constexpr int64_t d = 64;
  constexpr double matrix = 8192.0 * 8192 * 4 / (1 << 20);
  const double before = peak_mib();
  for (const int64_t tokens : {2048, 4096, 8192}) {
    const auto q = Variable::parameter(lesson::normal({1, tokens, 1, d}, 1));
    const auto k = Variable::parameter(lesson::normal({1, tokens, 1, d}, 2));
    const auto v = Variable::parameter(lesson::normal({1, tokens, 1, d}, 3));
    reset_allocator_peak();
    {
      Tape tape;
      tape.backward(mean(scaled_dot_product_attention(q, k, v).output));
    }
    std::cout << "T = " << tokens << ": tensors"
              << lesson::cell(static_cast<double>(allocator_stats().peak_in_use) / (1 << 20), 1)
              << " MiB, a T x T matrix"
              << lesson::cell(static_cast<double>(tokens * tokens * 4) / (1 << 20), 0) << " MiB\n";
  }
  const double grown = peak_mib() - before;
  std::cout << "the process grew by" << lesson::cell(grown, 0, 4) << " MiB\n";
  return grown < matrix / 2 ? 0 : 1;
}
