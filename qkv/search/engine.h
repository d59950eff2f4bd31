#pragma once
// Decoding of requests that come and go (continuous batching: Yu et al. 2022, Orca).

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "qkv/search/search.h"

namespace qkv::search {

struct EngineOptions {
  // Source tokens of the requests under way together: more is faster, up to a point. A longer source is
  // decoded alone. 0: no bound.
  int64_t batch_tokens = 1024;
  // Bytes of keys and values that the requests under way can come to hold together, each for all its rows up
  // to its limit (StepModel::cache_bytes): whatever is admitted fits. 0: no bound.
  int64_t cache_bytes = 0;
  // Tokens of prompts that are read in a step, beside the one token of each row. A longer prompt takes
  // several steps, in which the other requests advance.
  int64_t prefill_tokens = 1024;

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// The end of a request.
struct Decoded {
  uint64_t request_id = 0;        // from submit()
  NBest hypotheses = {};          // at most options.nbest, best first
  std::exception_ptr error = {};  // why there are none; null: there are, or the request was cancelled
  bool cancelled = false;
};

// Decodes requests side by side, a token a step. A request enters when there is room for it, in the order of
// submission, and leaves with its rows and its cache in the step that ends it. Its result depends on the
// request alone: not on its companions, on when it came, on the engine's options or on the number of threads.
//
// An exception ends the requests that it concerns, each with that exception as its error, and no others:
// - of one request's own logits, constraints or on_token: that request;
// - of StepModel::open(): that request;
// - of StepModel::read() and admit(): each request of the group is tried again alone, and those that throw
//   alone are ended;
// - of StepModel::step() and reorder(): all requests that have rows, as nobody knows what state those are in.
//   Requests that wait or are being read are decoded afterwards.
//
// One engine is for one thread at a time; several may share a model, each with a step model of its own.
class Engine {
 public:
  // The step model has no requests and belongs to this engine alone from now on. Throws UsageError for bad
  // options, no model, and an </s> outside the model's vocabulary.
  Engine(std::shared_ptr<StepModel> model, const SpecialIds& special, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request and returns its number: 0, 1, 2, ... Request::trace must live until its end. Throws
  // UsageError for bad options, a bad prefix, options that this model cannot follow and a request that needs
  // more than cache_bytes, and what StepModel::check() throws; the engine is then as it was.
  uint64_t submit(Request request);
  // Ends a request, waiting or under way: its rows and its cache are freed at once, and the next step()
  // returns it as cancelled. False where no such request is waiting or under way. Not to be called from
  // Request::on_token, which ends an output by returning false.
  bool cancel(uint64_t request_id);
  // Whether step() has nothing more to do or to return.
  bool idle() const;
  // Admits what waits, as far as there is room; reads prompts; advances every row by a token. Returns the
  // requests that ended since the last call.
  std::vector<Decoded> step();

  // Bytes that the requests under way can come to hold; at most EngineOptions::cache_bytes, where that is a
  // bound.
  int64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  struct Sequence;
  using Sequences = std::deque<std::unique_ptr<Sequence>>;

  void open_requests();
  void read_prompts();
  void read_chunks(std::span<const std::pair<Sequence*, int64_t>> chunks);
  void admit_read();
  void admit_group(Sequences group);
  void restrict_logits();
  void advance(const Tensor& logits);
  void drop_ended_rows(bool advanced);
  void end(std::unique_ptr<Sequence> sequence);
  void end_running(const std::exception_ptr& error);

  std::shared_ptr<StepModel> model_;
  SpecialIds special_;
  EngineOptions options_;
  uint64_t submitted_ = 0;
  Sequences queue_;    // wait
  Sequences reading_;  // have a source that is open
  Sequences running_;  // have rows
  std::vector<Decoded> ended_;
  int64_t source_tokens_ = 0, reserved_bytes_ = 0;  // of reading_ and running_
  Offsets hypothesis_offsets_;                      // of running_
  std::vector<int32_t> ids_;                        // by row: what the next step reads
  std::vector<int32_t> columns_;                    // the tokens that the logits are of; empty: all
  bool membership_changed_ = false;                 // of running_, since restrict_logits()
  bool stepping_ = false;
};

// Submits all, the longest source first, and steps until they are done. Results and their request_ids are in
// the order of the requests; what `fit` (called for each, if given) and submit() throw is the result's error.
// Throws UsageError for an engine that is not idle.
std::vector<Decoded> decode_all(Engine& engine, std::span<const Request> requests,
                                const std::function<Request(const Request&)>& fit = {});

// The hypotheses of each; throws the first error.
std::vector<NBest> hypotheses_of(std::vector<Decoded> decoded);

}  // namespace qkv::search
