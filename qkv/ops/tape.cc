#include "qkv/ops/tape.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "qkv/base/scope.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/profile.h"

namespace qkv {
namespace {
thread_local Tape* active = nullptr;

uint64_t next_recording() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}
}  // namespace

Tape::Tape() : recording_(next_recording()) {
  if (active) throw UsageError("a tape is already recording on this thread");
  active = this;
}

Tape::~Tape() { active = nullptr; }

Tape::Pause::Pause() : paused_(active) { active = nullptr; }

Tape::Pause::~Pause() { active = paused_; }

bool Tape::records() { return active != nullptr; }

bool Tape::records(std::span<const Variable> inputs) {
  return active && std::ranges::any_of(inputs, [](const Variable& input) { return input.requires_grad(); });
}

Variable Tape::record(const char* operation, Tensor value, std::function<void(const Tensor&)> backward) {
  if (active == nullptr) throw UsageError(concat(operation, ": record: expected a tape, found none"));
  if (!backward) throw UsageError(concat(operation, ": record: expected a backward function, found none"));
  Variable output{std::move(value)};
  output.node_->requires_grad = true;
  output.node_->record = active->recording_;
  active->records_.push_back({operation, NameScope::current(), output, std::move(backward)});
  return output;
}

void Tape::backward(const Variable& loss) {
  if (loss.shape().numel() != 1)
    throw ShapeError(concat("backward: expected one element, found ", loss.shape()));
  backward(loss, Tensor::full(loss.shape(), 1.0f, loss.value().device()));
}

void Tape::backward(const Variable& output, const Tensor& gradient) {
  const Variable::Node& node = output.node().base ? *output.node_->base : *output.node_;
  if (node.record != recording_) {
    throw UsageError(
        concat("backward: expected a value that this tape has recorded since its last backward(), "
               "found one of shape ",
               output.shape(), " that it has not"));
  }
  if (!gradient.defined() || gradient.dtype() != DType::f32 || gradient.shape() != output.shape()) {
    throw ShapeError(concat(
        "backward: the gradient needs f32 and the value's shape ", output.shape(), ", found ",
        gradient.defined() ? name_of(gradient.dtype()) : "an undefined tensor", " ", gradient.shape()));
  }
  // Backward functions read gradients as contiguous.
  if (output.has_grad() || output.node_->base || !gradient.contiguous()) {
    output.add_grad(gradient);
  } else {
    output.node_->grad = gradient;
    output.node_->has_grad = true;
  }
  while (!records_.empty()) {
    const Record record = std::move(records_.back());
    records_.pop_back();
    if (!record.output.has_grad()) continue;
    const ProfileScope profile = ProfileScope::backward(record.operation, record.scope);
    record.backward(record.output.grad());
  }
  recording_ = next_recording();
}

std::optional<std::string> Tape::first_non_finite() const {
  for (const Record& record : records_) {
    const Tensor& value = record.output.value();
    if (value.dtype() != DType::f32 || !value.contiguous() || kernels::all_finite(value)) continue;
    const Tensor host = to_host(value);
    const auto numbers = host.values();
    const auto bad = std::ranges::find_if(numbers, [](float x) { return !std::isfinite(x); });
    return concat(record.scope, ": ", record.operation, " ", value.shape(), ": ",
                  std::isnan(*bad) ? "NaN" : "infinity", " at element ", bad - numbers.begin());
  }
  return std::nullopt;
}

}  // namespace qkv
