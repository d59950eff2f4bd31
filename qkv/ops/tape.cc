#include "qkv/ops/tape.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "qkv/base/per_thread.h"
#include "qkv/base/scope.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/convert.h"
#include "qkv/ops/on_gradient.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/require.h"

namespace qkv {
namespace {

uint64_t next_recording() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

const OnGradient*& next_on_gradient() { return per_thread<const OnGradient*>(); }

}  // namespace

struct Tape::State {
  struct Read {
    Input input;
    Shape shape;
    uint64_t version;
  };
  struct Record {
    const char* operation;
    std::string scope;
    Variable output;
    std::vector<Read> reads;
    std::function<void(const Tensor&)> backward;

    void require_unchanged() const;
  };

  std::vector<Record> records;
  uint64_t recording = next_recording();  // globally unique; backward() begins a new one
  std::atomic<int> pauses = 0;
  std::atomic<bool> ended = false;

  void run_last() {
    const Record record = std::move(records.back());
    records.pop_back();
    if (!record.output.has_grad()) return;
    const ProfileScope profile = ProfileScope::backward(record.operation, record.scope);
    {
      const NameScope scope(record.scope);
      record.require_unchanged();
    }
    record.backward(record.output.grad());
  }
  void end_recording() {
    records.clear();
    recording = next_recording();
  }

  // The tapes created on this thread, latest last. Those that have ended remain until they are the last.
  static std::vector<std::shared_ptr<State>>& of_thread() {
    return per_thread<std::vector<std::shared_ptr<State>>>();
  }
  static const std::shared_ptr<State>& latest() {
    static const std::shared_ptr<State> none;
    auto& tapes = of_thread();
    while (!tapes.empty() && tapes.back()->ended) tapes.pop_back();
    return tapes.empty() ? none : tapes.back();
  }
  // The one that records; null: none.
  static State* active() {
    State* const last = latest().get();
    return last && last->pauses == 0 ? last : nullptr;
  }
  static bool is_live(uint64_t recording) {
    return std::ranges::any_of(
        of_thread(), [&](const auto& tape) { return !tape->ended && tape->recording == recording; });
  }
};

void Tape::State::Record::require_unchanged() const {
  const auto require = [&](const char* what, const Variable& now, const Shape& shape, uint64_t version,
                           bool saved) {
    if (now.shape() == shape && (!saved || now.version() == version)) return;
    throw UsageError(concat(operation, ": backward: expected ", what, " ", shape,
                            " as in the forward pass, found it changed since (", now.shape(), ", version ",
                            now.version(), " instead of ", version,
                            "); change values before the forward pass or after backward()"));
  };
  require("its result", output, output.shape(), 0, true);
  for (const auto& [input, shape, version] : reads)
    require("its input", input.variable, shape, version, input.saved);
}

Tape::Tape() : state_(std::make_shared<State>()) {
  if (State::active()) throw UsageError("a tape is already recording on this thread");
  State::of_thread().push_back(state_);
}

Tape::~Tape() {
  state_->records.clear();
  state_->ended = true;
}

Tape::Pause::Pause() : paused_(State::latest()) {
  if (paused_) ++paused_->pauses;
}

Tape::Pause::~Pause() {
  if (paused_) --paused_->pauses;
}

bool Tape::records() { return State::active() != nullptr; }

bool Tape::records(std::span<const Variable> inputs) {
  return records() && std::ranges::any_of(inputs, &Variable::requires_grad);
}

Variable Tape::record(const char* operation, Tensor value, std::vector<Input> inputs,
                      std::function<void(const Tensor&)> backward) {
  State* const tape = State::active();
  if (tape == nullptr) throw UsageError(concat(operation, ": record: expected a tape, found none"));
  if (!backward) throw UsageError(concat(operation, ": record: expected a backward function, found none"));
  std::vector<State::Read> reads;
  for (Input& input : inputs) {
    if (!input.variable.defined()) continue;
    const Variable::Node& node = input.variable.whole();
    if (node.record != 0 && node.record != tape->recording && !State::is_live(node.record)) {
      throw UsageError(concat(
          operation, ": expected inputs of this recording, found one of shape ", input.variable.shape(),
          " from a tape that has ended or has run backward(); compute it again, or pass its "
          "value() as a constant"));
    }
    const Shape shape = input.variable.shape();
    const uint64_t version = node.version;
    reads.push_back({std::move(input), shape, version});
  }
  Variable output{std::move(value)};
  output.node_->requires_grad = true;
  output.node_->record = tape->recording;
  tape->records.push_back({operation, NameScope::current(), output, std::move(reads), std::move(backward)});
  return output;
}

void Tape::backward(const Variable& loss) {
  if (loss.shape().numel() != 1)
    throw ShapeError(concat("backward: expected one element, found ", loss.shape()));
  backward(loss, Tensor::full(loss.shape(), 1.0f, loss.value().device()));
}

void Tape::backward(const Variable& output, const Tensor& gradient) {
  if (output.whole().record != state_->recording) {
    throw UsageError(
        concat("backward: expected a value that this tape has recorded since its last backward(), "
               "found one of shape ",
               output.shape(), " that it has not"));
  }
  const DType dtype = output.value().dtype();
  if (!gradient.defined() || gradient.dtype() != dtype || gradient.shape() != output.shape()) {
    throw ShapeError(concat("backward: the gradient needs ", name_of(dtype), " and the value's shape ",
                            output.shape(), ", found ",
                            gradient.defined() ? name_of(gradient.dtype()) : "an undefined tensor", " ",
                            gradient.shape()));
  }
  // Backward functions read gradients as contiguous.
  if (output.has_grad() || output.node_->base || !gradient.contiguous()) {
    output.add_grad(gradient);
  } else {
    output.node_->grad = gradient;
    output.node_->has_grad = true;
  }
  struct End {
    State& state;
    ~End() { state.end_recording(); }
  };
  const End end{*state_};
  // Tapes within backward functions have none.
  const OnGradient* const on_gradient = std::exchange(next_on_gradient(), nullptr);
  std::vector<std::vector<size_t>> complete(state_->records.size());  // leaves by record
  if (on_gradient) {
    const std::vector<Variable>& leaves = on_gradient->leaves_;
    std::unordered_map<const Variable::Node*, size_t> unread;
    for (size_t i = 0; i < leaves.size(); ++i) unread.emplace(&leaves[i].whole(), i);
    // The first record that has read a leaf is the last one that adds to its gradient.
    std::vector<size_t> last(leaves.size(), 0);
    for (size_t k = 0; k < complete.size(); ++k) {
      for (const State::Read& read : state_->records[k].reads) {
        const auto found = unread.find(&read.input.variable.whole());
        if (found == unread.end()) continue;
        last[found->second] = k;
        unread.erase(found);
      }
    }
    for (size_t i = 0; i < leaves.size(); ++i) complete.at(last[i]).push_back(i);
  }
  while (!state_->records.empty()) {
    state_->run_last();
    for (const size_t leaf : complete[state_->records.size()]) on_gradient->ready_(leaf);
  }
}

OnGradient::OnGradient(std::vector<Variable> leaves, std::function<void(size_t)> ready)
    : leaves_(std::move(leaves)), ready_(std::move(ready)) {
  next_on_gradient() = this;
}

OnGradient::~OnGradient() { next_on_gradient() = nullptr; }

std::optional<std::string> Tape::first_non_finite() const {
  for (const State::Record& record : state_->records) {
    const Tensor& value = record.output.value();
    if (!is_activation(value) || !value.contiguous() || kernels::all_finite(value)) continue;
    const Tensor host = to_host(to_f32(value).value());
    const auto numbers = host.values();
    const auto bad = std::ranges::find_if(numbers, [](float x) { return !std::isfinite(x); });
    return concat(record.scope, ": ", record.operation, " ", value.shape(), ": ",
                  std::isnan(*bad) ? "NaN" : "infinity", " at element ", bad - numbers.begin());
  }
  return std::nullopt;
}

}  // namespace qkv
