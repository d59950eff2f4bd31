#pragma once
// A training task: a model, its data, its loss, and its evaluation. The Trainer knows tasks only through this
// interface; see docs/add-a-task.md.

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/communicator.h"
#include "qkv/data/batches.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/low_rank.h"
#include "qkv/nn/parameter.h"
#include "qkv/optim/optimizer.h"

namespace qkv::train {

// Counts of a batch, or of all batches of a step.
struct BatchSize {
  int64_t items = 0;   // examples: pairs, texts, images
  int64_t units = 0;   // tokens or images, in which training speed is reported
  int64_t labels = 0;  // predictions that the loss averages over

  BatchSize& operator+=(const BatchSize& other);
};

// The input of one forward and backward pass. Tasks derive their own.
struct Batch {
  virtual ~Batch() = default;
  BatchSize size;
};

// An endless sequence of batches, epoch by epoch. The Trainer calls it on a separate thread, ahead of the
// steps. Random choices (order, masked tokens, crops) are functions of the seed and the position, so that a
// checkpoint only stores the position.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual std::unique_ptr<Batch> next() = 0;
  // The position of the batch that next() returns next.
  virtual data::CursorState state() const = 0;
  virtual int64_t batches_in_epoch() const = 0;  // of state().epoch, at least 1
  // Of those, the batches that only the first epoch has.
  virtual int64_t warmup_batches() const { return 0; }
};

// A stream of batches that `make` makes of a cursor's positions.
template <class Cursor, class Make>
class CursorStream : public BatchStream {
 public:
  CursorStream(Cursor cursor, Make make) : cursor_(std::move(cursor)), make_(std::move(make)) {}
  std::unique_ptr<Batch> next() override { return make_(cursor_.next()); }
  data::CursorState state() const override { return cursor_.state(); }
  int64_t batches_in_epoch() const override { return cursor_.batches_in_epoch(); }
  int64_t warmup_batches() const override {
    if constexpr (requires { cursor_.warmup_batches(); }) return cursor_.warmup_batches();
    return 0;
  }

 private:
  Cursor cursor_;
  Make make_;
};

template <class Cursor, class Make>
std::unique_ptr<BatchStream> stream_of(Cursor cursor, Make make) {
  return std::make_unique<CursorStream<Cursor, Make>>(std::move(cursor), std::move(make));
}

// One curve of the training log: the sum over a batch, and the count to divide it by; 0 where the batch has
// no such value.
struct CurveShare {
  std::string name;
  double sum = 0, count = 0;
};

// A sum that the device may still compute: the host reads those of a whole step at once.
class CurveSum {
 public:
  CurveSum(double known) : known_(known) {}
  // Element i of an i64 tensor of the bits of doubles (kernels::total()).
  CurveSum(const Tensor& totals, int64_t i) : terms_{{totals.slice_rows(i, 1), 1}} {}
  explicit CurveSum(const Variable& sum);  // f32 [1]

  CurveSum& operator+=(const CurveSum& other);
  CurveSum& operator*=(double factor);

  // The tensors that value() needs the doubles of (kernels::doubles()), from the first of `found`, which it
  // removes.
  void append_to(std::vector<Tensor>& bits) const;
  double value(std::span<const double>& found) const;

 private:
  struct Term {
    Tensor bits;
    double factor;
  };
  double known_ = 0;
  std::vector<Term> terms_;
};

struct BatchCurve {
  std::string name;
  CurveSum sum;
  double count;
};

struct BatchLoss {
  // The start of the backward pass: this batch's part of the whole step's loss.
  Variable loss;
  // "loss", the minimised objective, followed by other curves. All batches have the same names.
  std::vector<BatchCurve> curves;
};

// The curves' numbers, of the first doubles of `found`, which it removes (CurveSum::value()).
std::vector<CurveShare> take(const std::vector<BatchCurve>& curves, std::span<const double>& found);
// The same of doubles that it reads itself. Waits for the device.
std::vector<CurveShare> read(const std::vector<BatchCurve>& curves);

struct Metric {
  std::string name;  // "bleu", "accuracy"
  bool higher_is_better = true;
};

struct Evaluation {
  double loss = 0;  // on held-out data, without dropout and smoothing; lower is better
  // The metrics of Task::metrics() that were computed; ratios are in 0 to 1.
  std::map<std::string, double> metrics;
  // Lines of text from the model, to be shown and logged.
  std::vector<std::string> samples = {};
  // What a metric was computed of, if not of all items: "BLEU of 120 of 1014 sentences".
  std::string extent = {};

  // A metric's value, or the loss for "loss".
  std::optional<double> value(const std::string& name) const;
};

struct EvaluationRequest {
  int64_t number = 0;                       // index of the evaluation within the run, from 0
  bool scheduled = true;                    // false: the additional evaluation at the end of a run
  const std::atomic<bool>* stop = nullptr;  // polled between batches; may be null
  int64_t items = 0;  // costly metrics are computed of the first items, this many; 0: all
  // Which all evaluate at the same time, and may divide the batches (division.h); all return the same.
  Communicator* ranks = &alone();
};

// A setting or fact recorded in checkpoints. A resumed run must agree in those that affect the weights.
struct Field {
  std::string name;  // with its namespace: "model.d_model"
  std::string value;
  bool decides_weights = true;
};

// A field's option of `qkv train`.
struct FieldFlag {
  std::string unit;        // of its value: STEPS, FILE, f32|bf16; "|": an enum's; empty: the option sets true
  std::string help;        // without the default, which is `value`, unless it says "(default: ...)"
  std::string flag = {};   // empty: --max-steps for train.max_steps
  bool on_resume = false;  // whether it may change when a run is resumed
  std::string field = {}, value = {};
};

class Settings;  // fields.h

// Descriptions for reports.
struct TaskInfo {
  std::string name;                                    // "translation"
  std::string items = "texts";                         // the unit of BatchSize::items
  std::string units = "tokens";                        // the unit of BatchSize::units
  int64_t train_items = 0, valid_items = 0;            // valid_items 0: no validation
  std::vector<std::pair<std::string, int64_t>> sizes;  // {"source_vocabulary", 8000}
};

class Task {
 public:
  virtual ~Task() = default;

  virtual TaskInfo info() const = 0;
  // Settings and fingerprints of the data, each once.
  virtual std::vector<Field> fields() const = 0;

  // Visits all parameters, always in the same order.
  virtual void visit(const nn::ParameterVisitor& visitor) const = 0;
  // Initialises the parameters of a new run: randomly, or with a pretrained model's.
  virtual void initialise(uint64_t seed) = 0;

  // Parameters with a learning rate or weight decay of their own, or frozen ones. The first group that
  // selects a parameter applies.
  virtual std::vector<optim::ParameterGroup> parameter_groups() const { return {}; }

  // The batches from a position on. The stream is used on another thread, and the task outlives it.
  virtual std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const = 0;

  // Runs the model forward on the current tape. `step`: the counts of all batches of the step, so that a mean
  // over labels is the sum over this batch divided by step.labels. May be called again with the same batch.
  virtual BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const = 0;

  // The metrics of evaluate() besides the loss; the first one selects the best weights. None: the loss does.
  virtual std::vector<Metric> metrics() const { return {}; }
  // Evaluates the current parameters (averaged ones if the run averages). May omit a metric in some
  // evaluations, which then count neither as better nor as worse. Returns nothing if *request.stop became
  // true on a rank. Only called if info().valid_items is not 0.
  virtual std::optional<Evaluation> evaluate(const EvaluationRequest& request) const = 0;

  // How many of the first items fit into about this many seconds, if evaluate() computes costly metrics of
  // them; 0: all, or there are no such metrics. Measured with the current parameters, for at most half of the
  // time.
  virtual int64_t items_within(double /*seconds*/, const EvaluationRequest& /*request*/) const { return 0; }

  // The work of evaluate(), in forward passes over the validation items: to estimate its time.
  virtual double evaluation_passes() const { return 1; }

  // Called when a new run starts in this folder: writes files that a resumed run needs besides the checkpoint
  // (a tokenizer).
  virtual void begin(const std::filesystem::path& /*folder*/) const {}
  // Writes the model with its current parameters, replacing the previous one.
  virtual void export_model(const std::filesystem::path& folder) const = 0;

  // For LoRA (lora_task.h), which tasks support that start from a model folder.
  // The folder; empty: the task does not start from one.
  virtual std::filesystem::path base_folder() const { return {}; }
  // Whether a parameter is trained in full beside the updates: a new classifier.
  virtual bool is_head(const std::string& /*parameter*/) const { return false; }
  // Writes an adapter instead of the model (models::save_adapter()).
  virtual void export_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter) const;
  // Throws what export_adapter() would throw for this adapter, before it is trained.
  virtual void require_exportable(const nn::LowRankAdapter& /*adapter*/) const {}
};

}  // namespace qkv::train
