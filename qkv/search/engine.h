#pragma once
// Decoding sentences that come and go.

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "qkv/search/search.h"

namespace qkv::search {

// What became of a request.
struct Decoded {
  uint64_t request_id = 0;        // what submit() gave for it
  NBest hypotheses = {};          // at most options.nbest, best first
  std::exception_ptr error = {};  // why there are none; null: there are
};

// Continuous batching (Yu et al. 2022, Orca): sentences are decoded side by side, a token a step; one that is
// done gives its place to one that waits, in the order in which they came. A result depends on its request
// and options alone: not on its companions, nor on when it came. One engine is for one thread at a time;
// several may share a model.
class Engine {
 public:
  // stepper must outlive the engine and have no sentences of its own. batch_tokens: source tokens decoded
  // side by side (a longer source is decoded alone): memory against speed. Throws UsageError for fewer than
  // one and for an </s> outside the stepper's vocabulary.
  Engine(StepModel& step_model, const SpecialIds& special, int64_t batch_tokens = 1024);
  ~Engine();

  // Queues a request, and gives the number that its result will have: 0, 1, 2, ... What it points to must
  // live until then. Throws UsageError for bad options, a bad prefix and options that this model cannot
  // follow, and what StepModel::check() throws; the engine is then as it was.
  uint64_t submit(Request request, const SearchOptions& options);
  // Whether all that was submitted is done.
  bool idle() const { return queue_.empty() && running_.empty(); }
  // Takes in what waits, as far as there is room, and goes one token further with all that it has. Returns
  // those that this has ended. An error of one request (NumericError for a logit that is NaN or +infinity,
  // DataError where every first token is forbidden, what its on_token throws) leaves the others unharmed.
  std::vector<Decoded> step();

 private:
  struct Sentence;
  using Sentences = std::deque<std::unique_ptr<Sentence>>;

  void admit();
  void restrict_logits();
  void advance(const Tensor& logits);
  std::vector<Decoded> retire_finished();

  StepModel& model_;
  SpecialIds special_;
  int64_t batch_tokens_;
  uint64_t submitted_ = 0;
  Sentences queue_, running_;
  int64_t running_tokens_ = 0;    // of the living sentences' sources
  Offsets hypothesis_offsets_;    // of the living
  std::vector<int32_t> ids_;      // by row: what the next step reads
  std::vector<int32_t> columns_;  // the tokens that the logits are of; empty: all
  bool may_restrict_ = false;     // differently than they are: somebody came or went
};

// Submits all, the longest source first, and steps until they are done. In the order of the requests; the
// engine must be idle.
std::vector<Decoded> decode_all(Engine& engine, std::span<const Request> requests,
                                const SearchOptions& options);

// The hypotheses of each; throws the first error.
std::vector<NBest> hypotheses_of(std::vector<Decoded> decoded);

}  // namespace qkv::search
