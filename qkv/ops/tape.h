#pragma once
// Reverse-mode differentiation: operations record their backward functions, and backward() runs them in
// reverse.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/ops/variable.h"

namespace qkv {

// While a Tape exists, operations on the thread that created it record themselves; otherwise they only
// compute values. Tapes do not nest. A tape may be destroyed on any thread.
class Tape {
  struct State;

 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // During its lifetime, the thread's tape does not record, and another one may be created.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::shared_ptr<State> paused_;
  };

  // A variable that a recorded operation reads. Until backward() its shape must not change, nor, if `saved`,
  // its value, because the backward function reads it.
  struct Input {
    Input(Variable read, bool read_by_backward = true)  // NOLINT(google-explicit-constructor)
        : variable(std::move(read)), saved(read_by_backward) {}
    Variable variable;
    bool saved;
  };

  // Whether a tape is recording on this thread.
  static bool records();
  // Whether an operation on these inputs must be recorded.
  static bool records(std::initializer_list<Variable> inputs) {
    return records(std::span(inputs.begin(), inputs.size()));
  }
  static bool records(std::span<const Variable> inputs);

  // Wraps an operation's value and records its backward function. `inputs` are the variables that the
  // operation has read; `backward` receives the gradient of the value, and is skipped if there is none.
  // Throws UsageError without a tape or a function, and for an input that another recording has computed (a
  // tape that has ended, or this one before its last backward()), because the input's gradient would go no
  // further.
  static Variable record(const char* operation, Tensor value, std::vector<Input> inputs,
                         std::function<void(const Tensor& gradient)> backward);

  // Runs the records in reverse from `loss` (one element, gradient 1), freeing them on the way. Gradients are
  // accumulated in the leaves. Throws ShapeError for a loss of several elements, and UsageError for a loss
  // that this tape has not recorded since its last backward(): a repeated backward(), or a loss that depends
  // on no parameter. Throws UsageError naming the operation if a value that it needs was changed after the
  // forward pass (Variable::version()), as PyTorch does. If it throws meanwhile, the records are gone, and
  // the leaves hold the gradients so far.
  void backward(const Variable& loss);
  // Likewise from any recorded value with the given gradient (f32, of the value's shape), which may be
  // overwritten.
  void backward(const Variable& output, const Tensor& gradient);

  // The first recorded value with a NaN or infinity, as "encoder.layers.3.self_attn: linear [12, 64]: NaN at
  // element 5", to locate the origin of a bad value.
  std::optional<std::string> first_non_finite() const;

 private:
  std::shared_ptr<State> state_;  // shared with the thread that records
};

}  // namespace qkv
