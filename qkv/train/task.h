#pragma once
// What a training run is about: a model, its data, its loss, and how good it is. The Trainer knows a task by
// this interface only; docs/add-a-task.md walks through one.

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/data/batches.h"
#include "qkv/nn/forward_context.h"
#include "qkv/nn/parameter.h"

namespace qkv::train {

// Counts of a batch, or of all batches of a step.
struct BatchSize {
  int64_t items = 0;   // examples: pairs, texts, images
  int64_t units = 0;   // what the rate of training is counted in: tokens, images
  int64_t labels = 0;  // predictions that the loss is a mean over

  BatchSize& operator+=(const BatchSize& other);
};

// One forward and backward pass is over one batch. A task derives its own.
struct Batch {
  virtual ~Batch() = default;
  BatchSize size;
};

// An endless sequence of batches, epoch after epoch. The Trainer calls it on a thread of its own, ahead of
// the steps. Random choices (order, masked tokens, crops) are functions of the seed and the position in the
// sequence, so that a position is all that a checkpoint has to remember.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual std::unique_ptr<Batch> next() = 0;
  // The position of the batch that next() returns next.
  virtual data::CursorState state() const = 0;
  virtual int64_t batches_in_epoch() const = 0;  // of state().epoch, at least 1
};

// One curve of the training log: the sum over a batch, and the count that its mean is over.
struct CurveShare {
  std::string name;
  double sum = 0, count = 0;
};

struct BatchLoss {
  // What the backward pass starts from: this batch's share of the loss of the whole step.
  Variable loss;
  // "loss", the objective that is minimised, first; then what else is worth a curve. The names are those of
  // every batch.
  std::vector<CurveShare> curves;
};

struct Metric {
  std::string name;  // "bleu", "accuracy"
  bool higher_is_better = true;
};

struct Evaluation {
  double loss = 0;                        // on held-out data, without dropout or smoothing; lower is better
  std::map<std::string, double> metrics;  // those of Task::metrics() that were computed; shares are 0 to 1

  // A metric's value, or the loss by the name "loss".
  std::optional<double> value(const std::string& name) const;
};

struct EvaluationRequest {
  int64_t number = 0;                       // of the evaluation within the run, from 0
  bool scheduled = true;                    // false: the additional one at the end of a run
  const std::atomic<bool>* stop = nullptr;  // looked at between batches; may be null
};

// One setting or fact that a checkpoint records. A resumed run must agree in those that decide the weights.
struct Field {
  std::string name;  // with its namespace: "model.d_model"
  std::string value;
  bool decides_weights = true;
};

// For reports.
struct TaskInfo {
  std::string name;                                    // "translation"
  std::string items = "texts";                         // what BatchSize::items counts
  std::string units = "tokens";                        // what BatchSize::units counts
  int64_t train_items = 0, valid_items = 0;            // valid_items 0: there is no validation
  std::vector<std::pair<std::string, int64_t>> sizes;  // {"source_vocabulary", 8000}
};

class Task {
 public:
  virtual ~Task() = default;

  virtual TaskInfo info() const = 0;
  // Settings and fingerprints of the data, each once.
  virtual std::vector<Field> fields() const = 0;

  // All parameters, in the same order each time.
  virtual void visit(const nn::ParameterVisitor& visitor) const = 0;
  // Gives the parameters of a new run their first numbers: random ones, or those of a pretrained model.
  virtual void initialise(uint64_t seed) = 0;

  // The batches from a position on. The stream is used on another thread than the task, and the task outlives
  // it.
  virtual std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const = 0;

  // Runs the model forward on the living tape. `step` counts all batches of the step: a mean over labels is
  // the sum over this batch divided by step.labels. May be called again with the same batch.
  virtual BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const = 0;

  // The metrics of evaluate() beside the loss, the one that decides what is best first. None: the loss
  // decides.
  virtual std::vector<Metric> metrics() const { return {}; }
  // Judges the parameters as they are (averaged ones, where the run averages). A metric may be left out of
  // some evaluations, which then do not count as better or worse. Nothing where *request.stop became true.
  // Only called where info().valid_items is not 0.
  virtual std::optional<Evaluation> evaluate(const EvaluationRequest& request) const = 0;

  // A new run begins in this folder: writes what a resumed run needs besides the checkpoint (a tokenizer).
  virtual void begin(const std::filesystem::path& /*folder*/) const {}
  // Writes the model, with the parameters as they are, in place of the one that is there.
  virtual void export_model(const std::filesystem::path& folder) const = 0;
};

}  // namespace qkv::train
