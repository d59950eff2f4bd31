#pragma once
// Reverse-mode differentiation: operations record how to undo themselves, and backward() runs the records in
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

// While a Tape lives, the operations of its thread record themselves on it; without one they compute values
// only, and nothing is kept. Tapes do not nest.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // While it lives, operations of this thread do not record, and another tape may.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Tape* paused_;
  };

  // Whether operations on this thread may have to record themselves.
  static bool records();
  // Whether an operation on these inputs has to record itself.
  static bool records(std::initializer_list<Variable> inputs) {
    return records(std::span(inputs.begin(), inputs.size()));
  }
  static bool records(std::span<const Variable> inputs);

  // Wraps an operation's value and records how its gradient goes on to its inputs. Called where records()
  // said so. `backward` gets the gradient that has arrived at the value; it is skipped where none has.
  static Variable record(const char* operation, Tensor value,
                         std::function<void(const Tensor& gradient)> backward);

  // Runs the records in reverse, from a gradient of 1 at `loss` (one element), and forgets them as it goes:
  // memory falls while it runs. The gradients of leaves are left in them, added to those that were there.
  // Throws ShapeError for a loss of several elements, and UsageError for one that this tape has not recorded
  // since its last backward(): a second backward() of a loss, or a loss that no parameter led to.
  void backward(const Variable& loss);
  // The same from any recorded value, whose gradient is `gradient` (f32, of the value's shape). That may be
  // used up.
  void backward(const Variable& output, const Tensor& gradient);

  // The first recorded value that holds a NaN or an infinity, as "encoder.layers.3.self_attn: linear [12,
  // 64]: NaN at element 5"; for saying where a bad number came from.
  std::optional<std::string> first_non_finite() const;

 private:
  struct Record {
    const char* operation;
    std::string scope;
    Variable output;
    std::function<void(const Tensor&)> backward;
  };
  std::vector<Record> records_;
  uint64_t recording_;  // in the process's order; backward() begins a new one
};

}  // namespace qkv
