// The best tokens of each row, in place of copying all logits to the host.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/softmax.h"

namespace qkv::kernels::cuda {
namespace {

// The best of a thread's columns after those that it has given away, best first.
class Own {
 public:
  QKV_DEVICE Own(const Thread& thread, const float* x, float log_sum, int64_t cols)
      : thread_(thread), x_(x), log_sum_(log_sum), cols_(cols) {
    find();
  }
  QKV_DEVICE float value() const { return values_[0]; }
  QKV_DEVICE int32_t id() const { return ids_[0]; }  // -1: none is left

  QKV_DEVICE void pop() {
    last_value_ = values_[0];
    last_id_ = ids_[0];
    for (int i = 0; i + 1 < kKept; ++i) {
      values_[i] = values_[i + 1];
      ids_[i] = ids_[i + 1];
    }
    ids_[kKept - 1] = -1;
    if (--found_ == 0) find();
  }

 private:
  static constexpr int kKept = 4;

  QKV_DEVICE void find() {
    for (int i = 0; i < kKept; ++i) ids_[i] = -1;
    found_ = 0;
    for (int64_t c = thread_.index; c < cols_; c += thread_.count) {
      const float value = x_[c] - log_sum_;
      if (last_id_ >= 0 && (value > last_value_ || (value == last_value_ && c <= last_id_))) continue;
      if (found_ == kKept && !(value > values_[kKept - 1])) continue;
      int place = found_ < kKept ? found_++ : kKept - 1;
      for (; place > 0 && values_[place - 1] < value; --place) {
        values_[place] = values_[place - 1];
        ids_[place] = ids_[place - 1];
      }
      values_[place] = value;
      ids_[place] = static_cast<int32_t>(c);
    }
  }

  const Thread& thread_;
  const float* x_;
  float log_sum_;
  int64_t cols_;
  int found_ = 0;
  int32_t last_id_ = -1;
  float last_value_ = 0;
  float values_[kKept];
  int32_t ids_[kKept];
};

}  // namespace

void best_tokens(const BestTokens& a) {
  launch(a.rows, [=] QKV_DEVICE(const Thread& thread) {
    const float* const x = a.logits + thread.block * a.cols;
    const float log_sum = log_sum_exp(thread, x, nullptr, a.cols);
    Own own(thread, x, log_sum, a.cols);
    for (int64_t n = 0; n < a.count; ++n) {
      ScoredToken& to = a.best[thread.block * a.count + n];
      if (log_sum != log_sum) {  // the order of NaN is none
        if (thread.index == 0) to = {log_sum, static_cast<int32_t>(n)};
        continue;
      }
      const float value = thread.maximum(own.id() < 0 ? -INFINITY : own.value());
      const bool ties = own.id() >= 0 && own.value() == value;
      const auto id = static_cast<int32_t>(
          -thread.maximum(ties ? -static_cast<float>(own.id()) : -static_cast<float>(a.cols)));
      if (ties && own.id() == id) own.pop();
      if (thread.index == 0) to = {value, id};
    }
  });
}

}  // namespace qkv::kernels::cuda
