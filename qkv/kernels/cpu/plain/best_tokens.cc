#include <algorithm>
#include <vector>

#include "qkv/base/parallel.h"
#include "qkv/kernels/backend/loss.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels::cpu {

void best_tokens(const BestTokens& a) {
  parallel_for(a.rows, std::max<int64_t>(1, 16384 / a.cols), [&](int64_t begin, int64_t end) {
    std::vector<float> log_p(static_cast<size_t>(a.cols));
    std::vector<ScoredToken> row(log_p.size());
    for (int64_t r = begin; r < end; ++r) {
      log_softmax(a.logits + r * a.cols, nullptr, log_p.data(), 1, a.cols);
      for (size_t c = 0; c < row.size(); ++c) row[c] = {log_p[c], static_cast<int32_t>(c)};
      const auto better = [](const ScoredToken& x, const ScoredToken& y) {
        return x.log_probability != y.log_probability ? x.log_probability > y.log_probability : x.id < y.id;
      };
      std::ranges::partial_sort(row, row.begin() + a.count, better);
      std::copy_n(row.begin(), a.count, a.best + r * a.count);
    }
  });
}

}  // namespace qkv::kernels::cpu
