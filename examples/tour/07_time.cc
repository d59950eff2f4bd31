// Time grows as B T^2 d. Processor time of one thread, the least of five runs.
#include <ctime>
#include <limits>

#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

double seconds(int64_t batch, int64_t tokens, int64_t d) {
  const Tensor x = lesson::normal({batch, tokens, 1, d}, 1);
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const std::clock_t begin = std::clock();
    scaled_dot_product_attention(x, x, x);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace

int main() {
  set_threads(1);
  struct Sizes {
    int64_t batch, tokens, d;
  };
  const double first = seconds(1, 512, 64);
  double last = 0;
  std::cout << "    B      T      d   2 B T^2 d     time\n";
  for (const auto& [batch, tokens, d] :
       {Sizes{1, 512, 64}, {4, 512, 64}, {1, 512, 256}, {1, 1024, 64}, {1, 2048, 64}, {1, 4096, 64}}) {
    last = seconds(batch, tokens, d) / first;
    std::cout << std::setw(5) << batch << std::setw(7) << tokens << std::setw(7) << d << std::setw(12)
              << 2 * batch * tokens * tokens * d << lesson::cell(last, 1, 9) << '\n';
  }
  // 8 times the tokens are 64 times the products; linear growth would be 8.
  return last > 16 ? 0 : 1;
}
