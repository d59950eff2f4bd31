#pragma once
// The vectors of texts or images.

#include <array>

#include "python/bind/pipelines.h"
#include "qkv/pipelines/results.h"

namespace qkv::python {

inline Words<pipelines::Pooling> words(pipelines::Pooling /*pooling*/) {
  using pipelines::Pooling;
  static constexpr std::array<std::pair<std::string_view, Pooling>, 7> kWords{
      {{"mean", Pooling::mean},
       {"cls", Pooling::cls},
       {"max", Pooling::max},
       {"last", Pooling::last_token},
       {"weighted-mean", Pooling::weighted_mean},
       {"mean-sqrt-len", Pooling::mean_sqrt_len},
       {"pooler", Pooling::pooler}}};
  return kWords;
}

inline void take_pooling(nb::dict& given, pipelines::EmbedOptions& options) {
  std::string pooling;
  if (take_value(given, "pooling", pooling))
    parse_field("pooling", pooling, words(options.pooling), options.pooling);
}

// f32 [count, d_model], or as wide as the first vector.
class Vectors {
 public:
  Vectors(int64_t count, int64_t d_model) : count_(count), all_(Tensor::empty({0, d_model})) {}

  void set(size_t index, const pipelines::Embedded& one) {
    require_result(one.error, index, static_cast<size_t>(count_));
    if (all_.numel() == 0) all_ = Tensor::empty({count_, std::ssize(one.values)});
    Tensor row = all_.slice_rows(static_cast<int64_t>(index), 1);
    row.copy_from(Tensor::from(one.values, row.shape()));
  }
  const Tensor& tensor() const { return all_; }

 private:
  int64_t count_;
  Tensor all_;
};

}  // namespace qkv::python
