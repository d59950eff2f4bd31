#pragma once
// A random attention problem with separate memory for inputs, masks and results.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/kernels/cpu/kernels.h"

namespace qkv::kernels {

enum class Mask { none, rows, full };  // one mask row broadcast over queries, or one per (sequence, query)

struct AttentionOptions {
  std::vector<int> queries{7}, keys{7};
  int64_t heads = 2, d_k = 8, d_v = 8;
  int64_t key_heads = 0;  // 0: same as heads
  bool alibi = false;
  bool relative = false;
  bool causal = false;
  Alignment alignment = Alignment::last_key;
  float softcap = 0;
  int64_t window = 0;
  bool sinks = false;
  Mask keep = Mask::none, bias = Mask::none;
  float dropout = 0;
  float size = 1;          // of queries and keys
  int64_t spare = 0;       // elements between the rows of a matrix
  bool empty_row = false;  // the first query of every sequence may attend to
                           // nothing (with Mask::full keep)
  uint64_t seed = 1;
};

// Rows of a wider matrix, at an unaligned address.
struct Rows {
  Rows() = default;
  Rows(int64_t rows, int64_t cols, int64_t spare)
      : rows_(rows),
        cols_(cols),
        stride(cols + spare),
        memory(static_cast<size_t>(rows * stride + 1), 777.0f) {}

  float* data() { return memory.data() + 1; }
  const float* data() const { return memory.data() + 1; }
  float at(int64_t r, int64_t c) const { return memory[static_cast<size_t>(r * stride + c + 1)]; }

  // The values without the gaps between rows.
  std::vector<float> values() const {
    std::vector<float> all;
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) all.push_back(at(r, c));
    }
    return all;
  }
  bool spare_untouched() const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = cols_; c < stride; ++c) {
        if (at(r, c) != 777.0f) return false;
      }
    }
    return memory[0] == 777.0f;
  }

  int64_t rows_ = 0, cols_ = 0;
  int64_t stride = 0;
  std::vector<float> memory;
};

class AttentionCase {
 public:
  explicit AttentionCase(const AttentionOptions& options) : options_(options), random_(options.seed) {
    int most_queries = 0, most_keys = 0;
    int64_t weights = 0;
    for (size_t s = 0; s < options.queries.size(); ++s) {
      query_offsets_.push_back(query_offsets_.back() + options.queries[s]);
      key_offsets_.push_back(key_offsets_.back() + options.keys[s]);
      weights += options.heads * options.queries[s] * options.keys[s];
      most_queries = std::max(most_queries, options.queries[s]);
      most_keys = std::max(most_keys, options.keys[s]);
    }
    const int64_t heads = options.heads;
    query = random_rows(query_tokens(), heads * options.d_k, options.size);
    key = random_rows(key_tokens(), key_heads() * options.d_k, options.size);
    value = random_rows(key_tokens(), key_heads() * options.d_v, 1);
    grad_output = random_rows(query_tokens(), heads * options.d_v, 1);
    weight_count = weights;
    // The reference backend's layout.
    weight_offsets.resize(static_cast<size_t>(options.heads * query_tokens()));
    int64_t offset = 0;
    for (size_t s = 0; s < options.queries.size(); ++s) {
      for (int64_t h = 0; h < options.heads; ++h) {
        for (int64_t i = 0; i < options.queries[s]; ++i, offset += options.keys[s]) {
          weight_offsets[static_cast<size_t>(h * query_tokens() + query_offsets_[s] + i)] = offset;
        }
      }
    }

    shape.sequences = static_cast<int64_t>(options.queries.size());
    shape.query_offsets = query_offsets_.data();
    shape.key_offsets = key_offsets_.data();
    shape.heads = heads;
    shape.key_heads = options.key_heads;
    if (options.alibi) {
      for (int64_t h = 0; h < heads; ++h) slopes_.push_back(number(0.5f));
      shape.alibi_slopes = slopes_.data();
    }
    if (options.relative) {
      const int64_t longest = std::max(most_queries, most_keys);
      shape.relative = {nullptr, 2 * longest + 1, longest};  // one spare number on each side
      for (int64_t i = 0; i < heads * shape.relative.head_stride; ++i) relative_.push_back(number(2));
      shape.relative.data = relative_.data();
    }
    shape.d_k = options.d_k;
    shape.d_v = options.d_v;
    shape.scale = 1 / std::sqrt(static_cast<float>(options.d_k));
    shape.causal = options.causal;
    shape.alignment = options.alignment;
    shape.softcap = options.softcap;
    shape.window = options.window;
    if (options.sinks) {
      for (int64_t h = 0; h < heads; ++h) sinks_.push_back(number(3));
      shape.sinks = sinks_.data();
    }
    shape.dropout = {
        .rate = options.dropout, .seed = 0x123456789ABCDEFull, .step = 5, .site = 3, .first_row = 11};
    if (options.keep == Mask::rows) shape.keep = {nullptr, most_keys, 0, 0};
    if (options.keep == Mask::full) {
      shape.keep = {nullptr, heads * most_queries * most_keys, most_queries * most_keys, most_keys};
    }
    if (options.keep != Mask::none) {
      keep_.resize(static_cast<size_t>(shape.sequences * shape.keep.batch_stride));
      for (auto& k : keep_) k = random_.next() % 4 != 0 ? 3 : 0;
      if (options.empty_row) {
        for (size_t i = 0; i < keep_.size(); ++i) {
          if (static_cast<int>(i / static_cast<size_t>(most_keys)) % most_queries == 0) keep_[i] = 0;
        }
      }
      shape.keep.data = keep_.data();
    }
    if (options.bias == Mask::rows) shape.bias = {nullptr, 0, most_keys, 0};
    if (options.bias == Mask::full) {
      shape.bias = {nullptr, heads * most_queries * most_keys, most_queries * most_keys, most_keys};
    }
    if (options.bias != Mask::none) {
      bias_.resize(static_cast<size_t>(shape.bias.batch_stride > 0 ? shape.sequences * shape.bias.batch_stride
                                                                   : heads * most_keys));
      for (auto& b : bias_) {
        b = random_.next() % 8 == 0 ? -std::numeric_limits<float>::infinity() : number(2);
      }
      shape.bias.data = bias_.data();
    }
    input = {query.data(), key.data(), value.data(), query.stride, key.stride, value.stride};
  }
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;

  int64_t query_tokens() const { return query_offsets_.back(); }
  int64_t key_tokens() const { return key_offsets_.back(); }
  const AttentionOptions& options() const { return options_; }
  int64_t key_heads() const { return options_.key_heads > 0 ? options_.key_heads : options_.heads; }

  std::vector<float>& sinks() { return sinks_; }

  // Uniform in [-size, size).
  float number(float size) { return (random_.uniform() * 2 - 1) * size; }

  Rows random_rows(int64_t rows, int64_t cols, float size) {
    Rows matrix(rows, cols, options_.spare);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) matrix.data()[r * matrix.stride + c] = number(size);
    }
    return matrix;
  }

  struct Forward {
    Rows output;
    std::vector<float> log_sum_exp, weights;
  };
  Forward forward(bool with_weights = false) const {
    Forward result;
    result.output = Rows(query_tokens(), options_.heads * options_.d_v, options_.spare);
    result.log_sum_exp.resize(static_cast<size_t>(query_tokens() * options_.heads), 777.0f);
    if (with_weights) result.weights.resize(static_cast<size_t>(weight_count), 777.0f);
    cpu::attention_forward(shape, input,
                           {.output = result.output.data(),
                            .output_stride = result.output.stride,
                            .log_sum_exp = result.log_sum_exp.data(),
                            .capture = {.offsets = with_weights ? weight_offsets.data() : nullptr,
                                        .weights = result.weights.data()}});
    return result;
  }

  struct Backward {
    Rows query, key, value;
    std::vector<float> bias, relative, sinks;
  };
  // start: initial value of the gradients, which Accumulate::yes adds to.
  // The gradients to compute.
  struct Wanted {
    bool query = true, key = true, value = true;
  };
  Backward backward(const Forward& result, Accumulate accumulate = Accumulate::no, float start = 777.0f,
                    const Wanted& wanted = {true, true, true}) const {
    Backward g;
    g.query = Rows(query_tokens(), options_.heads * options_.d_k, options_.spare);
    g.key = Rows(key_tokens(), key_heads() * options_.d_k, options_.spare);
    g.value = Rows(key_tokens(), key_heads() * options_.d_v, options_.spare);
    for (Rows* rows : {&g.query, &g.key, &g.value}) {
      for (int64_t r = 0; r < rows->rows_; ++r)
        std::fill_n(rows->data() + r * rows->stride, rows->cols_, start);
    }
    g.bias.resize(bias_.size(), 0.25f);
    g.relative.resize(relative_.size(), 0.25f);
    g.sinks.resize(sinks_.size(), 0.25f);
    cpu::attention_backward(shape, input, result.output.data(), result.output.stride,
                            result.log_sum_exp.data(), grad_output.data(), grad_output.stride,
                            {.query = wanted.query ? g.query.data() : nullptr,
                             .key = wanted.key ? g.key.data() : nullptr,
                             .value = wanted.value ? g.value.data() : nullptr,
                             .query_stride = g.query.stride,
                             .key_stride = g.key.stride,
                             .value_stride = g.value.stride,
                             .query_accumulate = accumulate,
                             .key_accumulate = accumulate,
                             .value_accumulate = accumulate,
                             .bias = g.bias.empty() ? nullptr : g.bias.data(),
                             .relative = g.relative.empty() ? nullptr : g.relative.data(),
                             .sinks = g.sinks.empty() ? nullptr : g.sinks.data()});
    return g;
  }

  AttentionShape shape;
  AttentionInput input;
  Rows query, key, value, grad_output;
  std::vector<int64_t> weight_offsets;
  int64_t weight_count = 0;

 private:
  AttentionOptions options_;
  RandomStream random_;
  std::vector<int32_t> query_offsets_{0}, key_offsets_{0};
  std::vector<uint8_t> keep_;
  std::vector<float> bias_, slopes_, relative_, sinks_;
};

inline std::vector<float> some_rows(const Rows& rows, int64_t first, int64_t count) {
  std::vector<float> all;
  for (int64_t r = first; r < first + count; ++r) {
    for (int64_t c = 0; c < rows.cols_; ++c) all.push_back(rows.at(r, c));
  }
  return all;
}

// A problem with the same rows: sequence `sequence` alone, or only its last queries.
inline void take_rows(const AttentionCase& from, int64_t query_row, int64_t key_row, AttentionCase& to) {
  const auto copy = [](const Rows& source, int64_t first, Rows& target) {
    for (int64_t r = 0; r < target.rows_; ++r) {
      std::copy_n(source.data() + (first + r) * source.stride, target.cols_,
                  target.data() + r * target.stride);
    }
  };
  copy(from.query, query_row, to.query);
  copy(from.key, key_row, to.key);
  copy(from.value, key_row, to.value);
  copy(from.grad_output, query_row, to.grad_output);
}

}  // namespace qkv::kernels
