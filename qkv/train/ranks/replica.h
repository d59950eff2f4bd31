#pragma once
// Data parallelism: each rank has a replica of the model, runs some batches of each step, and owns a share of
// the optimizer (ZeRO stage 1, Rajbhandari et al. 2020). Steps have the same bits for any number of ranks.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/train/checkpoint.h"
#include "qkv/train/observer.h"
#include "qkv/train/options.h"
#include "qkv/train/prefetcher.h"
#include "qkv/train/ranks/gradient_sum.h"
#include "qkv/train/ranks/slow_ranks.h"
#include "qkv/train/ranks/weight_exchange.h"

namespace qkv::train {

struct StepResult {
  std::vector<std::vector<CurveShare>> curves;  // of each batch
  double gradient_norm = 0;                     // before clipping
  bool stop = false;                            // a rank was requested to stop
  ExchangeReport exchange;
};

// The root's trainer calls the functions; those of the other ranks follow() them.
class Replica {
 public:
  // Throws UsageError on all ranks if there are more ranks than batches in a step, or if their settings, data
  // or builds differ, naming the rank and the setting.
  Replica(Task& task, const TrainOptions& options, Communicator& ranks,
          const std::atomic<bool>* stop = nullptr);

  // Gives the parameters initial values, or those of a checkpoint, and makes the optimizer. Throws DataError
  // for a checkpoint that lacks a tensor.
  void start(const Checkpoint* checkpoint, data::CursorState from);
  // A new optimizer and stream of batches for the root's weights.
  void restart(data::CursorState from);
  void restart_feed(data::CursorState from);

  // The batches of the next step.
  const StepBatches& load();
  // Runs them. `step`: its number, from 1; `batches_before`: run in earlier steps, which keys dropout. Throws
  // NumericError naming step, layer, tensor and rank for a NaN or infinity; the weights then have not
  // changed.
  StepResult step(double learning_rate, int64_t step, int64_t batches_before);

  // The optimizer's state, and the weights: for a checkpoint. From their owners, those of one's own share are
  // not copied.
  std::vector<io::NamedTensor> state();
  // The moving averages of the weights, by parameter.
  std::vector<Tensor> averages();
  // Task::evaluate() on all ranks, which divide its batches. `replaced`: the parameters are not those of the
  // last step, for example averages, and the others get them.
  std::optional<Evaluation> evaluate(const EvaluationRequest& request, bool replaced);
  // Ends follow() of the other ranks.
  void end();

  // On the other ranks: returns after end().
  void follow();

  const optim::Optimizer& optimizer() const { return *optimizer_; }
  const std::vector<nn::NamedParameter>& parameters() const { return parameters_; }
  int ranks() const { return ranks_.size(); }
  const Prefetcher& feed() const { return *feed_; }

 private:
  // A function of the root, with its arguments.
  struct Call {
    enum Function : int64_t {
      start,
      resume,
      restart,
      restart_feed,
      step,
      state,
      averages,
      evaluate,
      complete_weights,
      end
    } function;
    int64_t epoch = 0, batch = 0;
    double learning_rate = 0;
    int64_t step_number = 0, batches_before = 0;
    int64_t evaluation = 0, scheduled = 0, items = 0, replaced = 0;
  };
  void announce(Call call);
  void enter(const Call& call);
  void start_here(bool resumes, const Checkpoint* checkpoint, data::CursorState from);
  void restart_here(data::CursorState from);
  void restart_feed_here(data::CursorState from);
  StepResult step_here(const Call& call);
  bool sums() const { return options_.accumulate > 1 || options_.gradient_dtype != DType::f32; }
  // A batch of the step, whose passes a device may still run.
  struct Submitted {
    int64_t index;
    std::vector<BatchCurve> curves;
  };
  BatchLoss forward(int64_t index, const Call& call) const;
  Submitted submit(int64_t index, const Call& call);
  static std::vector<Tensor> bits_of(const std::vector<Submitted>& batches);
  // `found` begins with the doubles of the batches' curves. Throws NumericError for a loss that is not
  // finite.
  std::vector<std::vector<CurveShare>> shares_of(const std::vector<Submitted>& batches,
                                                 std::span<const double> found, const Call& call) const;
  void warn_of_slow_ranks(const std::vector<double>& seconds);
  std::optional<Evaluation> evaluate_here(EvaluationRequest request, bool replaced);
  void share_parameters(const std::vector<double>& squared_norms);
  void make_own_optimizer();
  void restore_optimizer(const io::SafetensorsFile* file);
  [[noreturn]] void fail_not_finite(const std::string& what, const std::vector<double>& squared_norms);

  Task& task_;
  TrainOptions options_;
  Communicator& ranks_;
  const std::atomic<bool>* stop_;
  std::vector<nn::NamedParameter> parameters_;
  std::vector<Variable> leaves_;  // the parameters
  GradientSum sum_;
  WeightExchange weights_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Prefetcher> feed_;
  SlowRanks slow_;
  StepBatches batches_;
};

}  // namespace qkv::train
