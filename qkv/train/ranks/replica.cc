#include "qkv/train/ranks/replica.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/ops/on_gradient.h"
#include "qkv/ops/profile.h"
#include "qkv/ops/tape.h"
#include "qkv/train/ranks/rank_messages.h"

namespace qkv::train {
namespace {

using nlohmann::json;

std::vector<int64_t> batches_by_rank(int64_t batches, int ranks) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const BatchRange range = batches_of_rank(batches, rank, ranks);
    counts.push_back(range.end - range.begin);
  }
  return counts;
}

// The root's values replace the others'.
void broadcast(Communicator& ranks, Tensor& tensor) {
  Tensor host = to_host(tensor);
  ranks.broadcast(writable_bytes(host));
  if (tensor.device() != Device::cpu && !ranks.is_root()) tensor.copy_from(host);
}

// To milliseconds.
double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

}  // namespace

Replica::Replica(Task& task, const TrainOptions& options, Communicator& ranks, const std::atomic<bool>* stop)
    : task_(task),
      options_(options),
      ranks_(ranks),
      stop_(stop),
      parameters_(nn::parameters_of(task)),
      sum_(parameters_, options.accumulate, options.bucket_bytes, options.gradient_dtype,
           device_of_rank(options.device, ranks), ranks),
      weights_(parameters_, sum_.owners(), options.bucket_bytes, ranks),
      slow_(batches_by_rank(options.accumulate, ranks.size())) {
  for (const auto& [name, parameter] : parameters_) leaves_.push_back(parameter.variable);
  options_.device = device_of_rank(options.device, ranks);
  options_.require_batches_for(ranks_.size());
  if (ranks_.size() > 1) require_equal_ranks(ranks_, task_, options);
}

void Replica::announce(Call call) {
  if (ranks_.size() == 1) return;
  ranks_.broadcast(std::as_writable_bytes(std::span(&call, 1)));
  enter(call);
}

// The weights of the last step are sent after the call, which would wait behind them. Only a step, whose
// forward pass reads one after the other, begins before all have arrived.
void Replica::enter(const Call& call) {
  weights_.begin();
  if (call.function != Call::step) weights_.complete();
}

void Replica::follow() {
  for (;;) {
    Call call{};
    ranks_.broadcast(std::as_writable_bytes(std::span(&call, 1)));
    enter(call);
    const data::CursorState cursor{.epoch = call.epoch, .batch = call.batch};
    switch (call.function) {
      case Call::start:
      case Call::resume:
        start_here(call.function == Call::resume, nullptr, cursor);
        break;
      case Call::restart:
        restart_here(cursor);
        break;
      case Call::restart_feed:
        restart_feed_here(cursor);
        break;
      case Call::step:
        try {
          step_here(call);
        } catch (const NumericError&) {  // the root, which has it too, decides
        }
        break;
      case Call::state:
        state();
        break;
      case Call::averages:
        averages();
        break;
      case Call::evaluate:
        evaluate_here(
            {.number = call.evaluation, .scheduled = call.scheduled != 0, .stop = stop_, .items = call.items},
            call.replaced != 0);
        break;
      case Call::complete_weights:
        break;
      case Call::end:
        return;
    }
  }
}

void Replica::end() { announce({.function = Call::end}); }

void Replica::start(const Checkpoint* checkpoint, data::CursorState from) {
  announce({.function = checkpoint ? Call::resume : Call::start, .epoch = from.epoch, .batch = from.batch});
  start_here(checkpoint != nullptr, checkpoint, from);
}

void Replica::start_here(bool resumes, const Checkpoint* checkpoint, data::CursorState from) {
  if (resumes) {
    for (const auto& [name, parameter] : parameters_) {
      const MemoryScope memory(MemoryUse::weights);
      Variable variable = parameter.variable;
      Tensor value = checkpoint ? checkpoint->file.tensor("weights/" + name, parameter.shape).clone()
                                : Tensor::empty(parameter.shape);
      if (ranks_.size() > 1) ranks_.broadcast(writable_bytes(value));
      variable.set_value(from_host(value, options_.device));
    }
  } else {
    task_.initialise(options_.seed);
    nn::move_to(task_, options_.device);
  }
  make_own_optimizer();
  if (resumes) restore_optimizer(checkpoint ? &checkpoint->file : nullptr);
  restart_feed_here(from);
}

// Each rank restores its share, in the order of Optimizer::restore().
void Replica::restore_optimizer(const io::SafetensorsFile* file) {
  if (!file) {
    optimizer_->restore([&](const std::string& name, const Shape& shape) {
      Tensor saved = Tensor::empty(shape, name.ends_with(".steps") ? DType::i32 : DType::f32);
      ranks_.receive(0, writable_bytes(saved));
      return saved;
    });
    return;
  }
  optimizer_->restore(*file);
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    ranks_.send(rank, optimizer_->step_counts().tensor.as_bytes());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (sum_.owners()[i] != rank) continue;
      for (const auto& [name, shape] : optimizer_->layout_of(i))
        ranks_.send(rank, file->tensor(name, shape).as_bytes());
    }
  }
}

void Replica::restart(data::CursorState from) {
  announce({.function = Call::restart, .epoch = from.epoch, .batch = from.batch});
  restart_here(from);
}

void Replica::restart_here(data::CursorState from) {
  if (ranks_.size() > 1) {
    for (const auto& [name, parameter] : parameters_) {
      Variable variable = parameter.variable;
      broadcast(ranks_, variable.mutable_value());
    }
  }
  make_own_optimizer();
  restart_feed_here(from);
}

void Replica::restart_feed(data::CursorState from) {
  announce({.function = Call::restart_feed, .epoch = from.epoch, .batch = from.batch});
  restart_feed_here(from);
}

void Replica::restart_feed_here(data::CursorState from) {
  feed_.reset();  // only one stream at a time
  feed_ = std::make_unique<Prefetcher>(task_.batches(options_.seed, from), options_.accumulate);
}

void Replica::make_own_optimizer() {
  optimizer_.reset();  // only one optimizer's state at a time
  TrainOptions own = options_;
  for (const int owner : sum_.owners()) own.optimizer.share.push_back(owner == ranks_.rank());
  optimizer_ = make_optimizer(own, parameters_, task_.parameter_groups());
}

const StepBatches& Replica::load() {
  const ProfileScope profile("data");
  batches_ = feed_->next();
  return batches_;
}

StepResult Replica::step(double learning_rate, int64_t step, int64_t batches_before) {
  const Call call{.function = Call::step,
                  .learning_rate = learning_rate,
                  .step_number = step,
                  .batches_before = batches_before};
  const Communicator::Traffic before = ranks_.traffic();
  announce(call);
  StepResult result = step_here(call);
  const Communicator::Traffic after = ranks_.traffic();
  result.exchange.bytes_sent = after.bytes_sent - before.bytes_sent;
  result.exchange.waited = after.waiting - before.waiting;
  return result;
}

// The tensors of the curves, of one number each.
std::vector<Tensor> Replica::bits_of(const std::vector<Submitted>& batches) {
  std::vector<Tensor> bits;
  for (const Submitted& batch : batches) {
    for (const BatchCurve& curve : batch.curves) curve.sum.append_to(bits);
  }
  return bits;
}

StepResult Replica::step_here(const Call& call) {
  Share own;
  std::vector<Submitted> batches;
  struct Clear {
    Replica& replica;
    ~Clear() {
      replica.sum_.clear();
      replica.optimizer_->clear_gradients();
    }
  };
  const Clear clear{*this};
  if (sums()) sum_.begin();
  const auto from = std::chrono::steady_clock::now();
  try {
    if (!ranks_.is_root()) load();
    const double waited = weights_.waited();
    const BatchRange range = batches_of_rank(options_.accumulate, ranks_.rank(), ranks_.size());
    for (int64_t i = range.begin; i < range.end; ++i) batches.push_back(submit(i, call));
    if (ranks_.size() > 1) own.curves = shares_of(batches, kernels::doubles(bits_of(batches)), call);
    own.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    own.computing = own.seconds - (weights_.waited() - waited);
  } catch (...) {
    if (ranks_.size() == 1) throw;
    own.error = std::current_exception();
  }
  own.stop = stop_ && *stop_;
  if (sums()) sum_.finish();

  StepResult result;
  double longest = own.seconds;
  if (ranks_.size() == 1) {
    result.stop = own.stop;
  } else {
    const std::vector<json> all = all_gather(ranks_, to_json(own));
    take_shares(ranks_, all, result);
    std::vector<double> computing;
    for (const json& one : all) {
      computing.push_back(one["computing"]);
      longest = std::max(longest, one["seconds"].get<double>());
    }
    if (ranks_.is_root()) warn_of_slow_ranks(computing);
  }
  if (sums()) sum_.give();

  std::vector<double> squares;
  if (ranks_.size() == 1) {  // the host waits for the device here only
    std::vector<Tensor> bits = bits_of(batches);
    const size_t of_curves = bits.size();
    bits.push_back(optimizer_->squares());
    const std::vector<double> found = kernels::doubles(bits);
    result.curves = shares_of(batches, found, call);
    squares = optimizer_->squared_norms(std::span(found).subspan(of_curves));
  } else {
    squares = optimizer_->squared_norms();
    const std::vector<json> all = all_gather(ranks_, squares);
    for (size_t i = 0; i < squares.size(); ++i) squares[i] = all[static_cast<size_t>(sum_.owners()[i])][i];
  }
  weights_.complete();  // own ones may still be on their way
  try {
    result.gradient_norm = optimizer_->step(call.learning_rate, squares);
  } catch (const NumericError& error) {
    fail_not_finite(error.what(), squares);
  }
  if (ranks_.size() > 1) share_parameters(squares);
  const auto [first, last] = sum_.period();
  const double gradients = std::chrono::duration<double>(last - first).count();
  const double after_backward = std::chrono::duration<double>(last - from).count() - longest;
  const WeightExchange::Times weights = weights_.take_times();
  result.exchange = {.gradients = gradients,
                     .gradients_hidden = gradients - std::clamp(after_backward, 0.0, gradients),
                     .weights = weights.under_way,
                     .weights_hidden = weights.hidden};
  return result;
}

BatchLoss Replica::forward(int64_t index, const Call& call) const {
  nn::ForwardContext context{.training = true,
                             .seed = options_.seed,
                             .step = static_cast<uint32_t>(call.batches_before + index + 1),
                             .recompute = options_.recompute,
                             .operands = options_.precision};
  BatchLoss result = task_.loss(*batches_.batches.at(static_cast<size_t>(index)), batches_.size, context);
  if (result.curves.empty()) throw UsageError("task: expected the curve of a batch's loss, found none");
  return result;
}

Replica::Submitted Replica::submit(int64_t index, const Call& call) {
  Tape tape;
  BatchLoss result = forward(index, call);
  std::optional<OnGradient> take;
  if (sums()) take.emplace(leaves_, [this, index](size_t leaf) { sum_.take(leaf, index); });
  tape.backward(result.loss);
  return {index, std::move(result.curves)};
}

std::vector<std::vector<CurveShare>> Replica::shares_of(const std::vector<Submitted>& batches,
                                                        std::span<const double> found,
                                                        const Call& call) const {
  std::vector<std::vector<CurveShare>> all;
  for (const auto& [index, curves] : batches) {
    all.push_back(take(curves, found));
    const double loss = all.back().front().sum;
    if (std::isfinite(loss)) continue;
    const Tape tape;
    forward(index, call);  // the same numbers again, as the weights have not changed
    throw NumericError(concat("step ", call.step_number, ": the loss is ",
                              std::isnan(loss) ? "NaN" : "infinite", ", first seen in ",
                              tape.first_non_finite().value_or("the loss itself")));
  }
  return all;
}

void Replica::warn_of_slow_ranks(const std::vector<double>& seconds) {
  for (const SlowRanks::Found& slow : slow_.add(seconds)) {
    log_warning(concat(ranks_.name(slow.rank), " computes a batch in ", rounded(slow.seconds),
                       " s, and the median of the ranks is ", rounded(slow.median),
                       " s: all wait for it in each step"));
  }
}

// The owner of the first bad gradient cannot tell whose it is: it has the sum.
void Replica::fail_not_finite(const std::string& what, const std::vector<double>& squares) {
  if (ranks_.size() == 1) throw NumericError(what);
  const auto bad = static_cast<size_t>(
      std::ranges::find_if(squares, [](double own) { return !std::isfinite(own); }) - squares.begin());
  const std::vector<json> all = all_gather(ranks_, sum_.has_non_finite(bad));
  const auto found = std::ranges::find(all, json(true));
  const int rank = found == all.end() ? sum_.owners()[bad] : static_cast<int>(found - all.begin());
  throw NumericError(concat(what, ", on ", ranks_.name(rank)));
}

void Replica::share_parameters(const std::vector<double>& squares) {
  std::vector<bool> changed;
  for (const double own : squares) changed.push_back(own != optim::Optimizer::kNoGradient);
  weights_.updated(changed, [this] {
    if (!ranks_.is_root()) throw Error("ranks: expected no read of a weight between two calls of the root");
    announce({.function = Call::complete_weights});
  });
}

std::vector<io::NamedTensor> Replica::state() {
  if (ranks_.is_root()) announce({.function = Call::state});
  std::vector<io::NamedTensor> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int owner = sum_.owners()[i];
    if (owner == ranks_.rank()) {
      for (io::NamedTensor& one : optimizer_->state_of(i)) {
        if (!ranks_.is_root()) ranks_.send(0, to_host(one.tensor).as_bytes());
        all.push_back(std::move(one));
      }
    } else if (ranks_.is_root()) {
      for (const auto& [name, shape] : optimizer_->layout_of(i)) {
        all.push_back({name, Tensor::empty(shape)});
        ranks_.receive(owner, writable_bytes(all.back().tensor));
      }
    }
  }
  if (!ranks_.is_root()) return {};
  all.push_back(optimizer_->step_counts());
  for (const auto& [name, parameter] : parameters_)
    all.push_back({"weights/" + name, parameter.variable.value()});
  return all;
}

std::optional<Evaluation> Replica::evaluate(const EvaluationRequest& request, bool replaced) {
  announce({.function = Call::evaluate,
            .evaluation = request.number,
            .scheduled = request.scheduled ? 1 : 0,
            .items = request.items,
            .replaced = replaced ? 1 : 0});
  return evaluate_here(request, replaced);
}

std::optional<Evaluation> Replica::evaluate_here(EvaluationRequest request, bool replaced) {
  struct Restore {
    std::vector<Variable>& leaves;
    std::vector<Tensor> trained;
    ~Restore() {
      for (size_t i = 0; i < trained.size(); ++i) leaves[i].set_value(trained[i]);
    }
  };
  Restore restore{leaves_, {}};
  if (replaced && ranks_.size() > 1) {
    for (Variable& leaf : leaves_) {
      Tensor value = leaf.value();
      if (!ranks_.is_root()) {
        restore.trained.push_back(value);
        value = empty_like(value);
      }
      broadcast(ranks_, value);
      if (!ranks_.is_root()) leaf.set_value(value);
    }
  }
  request.ranks = &ranks_;
  return task_.evaluate(request);
}

std::vector<Tensor> Replica::averages() {
  if (ranks_.is_root()) announce({.function = Call::averages});
  std::vector<Tensor> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int owner = sum_.owners()[i];
    if (owner == ranks_.rank()) {
      all.push_back(optimizer_->average(i));
      if (!ranks_.is_root()) ranks_.send(0, to_host(all.back()).as_bytes());
    } else if (ranks_.is_root()) {
      Tensor average = Tensor::empty(parameters_[i].parameter.shape);
      ranks_.receive(owner, writable_bytes(average));
      all.push_back(from_host(average, options_.device));
    }
  }
  return all;
}

}  // namespace qkv::train
