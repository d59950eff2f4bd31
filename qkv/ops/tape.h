#pragma once
// Reverse-mode differentiation: operations record their backward functions, and backward() runs them in
// reverse.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/ops/variable.h"

namespace qkv {

// While a Tape exists, operations on its thread record themselves; otherwise they only compute values. Tapes
// do not nest.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // During its lifetime, operations on this thread are not recorded, and another tape may be created.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Tape* paused_;
  };

  // Whether a tape is recording on this thread.
  static bool records();
  // Whether an operation on these inputs must be recorded.
  static bool records(std::initializer_list<Variable> inputs) {
    return records(std::span(inputs.begin(), inputs.size()));
  }
  static bool records(std::span<const Variable> inputs);

  // Wraps an operation's value and records its backward function. `backward` receives the gradient of the
  // value; it is skipped if there is none. Throws UsageError without a tape or a function.
  static Variable record(const char* operation, Tensor value,
                         std::function<void(const Tensor& gradient)> backward);

  // Runs the records in reverse from `loss` (one element, gradient 1), freeing them on the way. Gradients are
  // accumulated in the leaves. Throws ShapeError for a loss of several elements, and UsageError for a loss
  // that this tape has not recorded since its last backward(): a repeated backward(), or a loss that depends
  // on no parameter.
  void backward(const Variable& loss);
  // Likewise from any recorded value with the given gradient (f32, of the value's shape), which may be
  // overwritten.
  void backward(const Variable& output, const Tensor& gradient);

  // The first recorded value with a NaN or infinity, as "encoder.layers.3.self_attn: linear [12, 64]: NaN at
  // element 5", to locate the origin of a bad value.
  std::optional<std::string> first_non_finite() const;

 private:
  struct Record {
    const char* operation;
    std::string scope;
    Variable output;
    std::function<void(const Tensor&)> backward;
  };
  std::vector<Record> records_;
  uint64_t recording_;  // globally unique; backward() begins a new one
};

}  // namespace qkv
