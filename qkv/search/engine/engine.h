#pragma once
// Continuous batching: decodes requests that arrive at any time (Orca, Yu et al. 2022).

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
  // Total source tokens of the running requests. More is faster, up to a point. A longer source is decoded
  // alone. 0: unlimited.
  int64_t batch_tokens = 1024;
  // Bytes of keys and values that the running requests may come to need, counting all rows at their maximum
  // length (StepModel::cache_bytes): an admitted request always fits. 0: unlimited.
  int64_t cache_bytes = 0;
  // Bytes of keys and values of past prompts to keep, the most recently used first, so that a prompt with the
  // same beginning reads only the rest (language models). They make room for requests where cache_bytes
  // limits both, and count in full where requests share them. Results have the same bits. 0: none.
  int64_t prefix_bytes = 0;
  // Prompt tokens read in one step, besides the one token of each row. A longer prompt takes several steps,
  // during which other requests advance.
  int64_t prefill_tokens = 1024;

  static constexpr std::string_view kPrompts = "prompts";  // of language models
  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"batch_tokens", "TOKENS",
           "Source tokens decoded together: affects memory and speed, not results; 0: no limit", at_least(0)},
          self.batch_tokens);
    visit({"cache_bytes", "BYTES",
           "Maximum memory of the KV cache; a line that needs more is an error; 0: no limit", at_least(0)},
          self.cache_bytes);
    visit(
        OptionField{
            "prefill_tokens",
            "TOKENS",
            "Prompt tokens processed per step, besides one token of each completion; a long prompt takes "
            "several steps; does not affect results",
            {.least = 1, .expected = "at least 1"},
            kPrompts},
        self.prefill_tokens);
    visit({"prefix_bytes", "BYTES",
           "Maximum memory of the prefix cache, the keys and values of past prompts, for prompts with the\n"
           "same beginning: affects memory and speed, not results; 0: none",
           at_least(0), kPrompts},
          self.prefix_bytes);
  }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// A finished, failed or cancelled request.
struct Decoded {
  uint64_t request_id = 0;        // from submit()
  NBest hypotheses = {};          // at most options.nbest, best first
  std::exception_ptr error = {};  // the reason why there are none; null for success and cancellation
  bool cancelled = false;
  int64_t reused_tokens = 0;  // of the source, not read because their keys and values were kept
};

// Decodes requests side by side, one token per step. Requests are admitted in order of submission, as soon as
// there is room, and release their rows and cache in the step that ends them. A result depends on its request
// alone: not on other requests, the time of arrival, the engine's options or the number of threads.
//
// An exception ends only the requests that it concerns and becomes their error:
// - thrown by a request's own logits, constraints or on_token: that request;
// - by StepModel::open(): that request;
// - by StepModel::read() or admit(): each request of the group is retried alone, and those that throw again
//   end;
// - by StepModel::step() or reorder(): all requests with rows, because their state is unknown. Requests that
//   are queued or still being read are decoded afterwards.
//
// An engine serves one thread at a time. Several engines may share a model, each through its own step model.
class Engine {
 public:
  // The step model must have no requests and is owned by this engine from now on. Throws UsageError for bad
  // options, a null model, and an </s> outside the model's vocabulary.
  Engine(std::shared_ptr<StepModel> model, const SpecialIds& special, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request and returns its id: 0, 1, 2, ... Request::trace must outlive the request. Throws
  // UsageError for bad options, a bad prefix, options that this model does not support and a request that
  // needs more than cache_bytes, and the errors of StepModel::check(). The engine is unchanged if it throws.
  uint64_t submit(Request request);
  // Ends a queued or running request: its rows and cache are freed at once, and the next step() returns it as
  // cancelled. False if there is no such request. Must not be called from Request::on_token, which ends an
  // output by returning false.
  bool cancel(uint64_t request_id);
  // Whether step() has no work and no results left.
  bool idle() const;
  // Admits queued requests while there is room, reads prompts, and advances every row by one token. Returns
  // the requests that ended since the last call. Throws UsageError if called from Request::on_token, which
  // may call submit() and the functions below.
  std::vector<Decoded> step();

  // Bytes that the running requests may come to need; at most EngineOptions::cache_bytes if that is not 0.
  int64_t reserved_bytes() const { return reserved_bytes_; }
  // Bytes of past prompts, at most EngineOptions::prefix_bytes and what reserved_bytes() leaves of
  // cache_bytes.
  int64_t kept_bytes() const { return model_->kept_bytes(); }
  // Source tokens of the requests that wait for room.
  int64_t queued_tokens() const;
  // Hypotheses that the next step advances, besides those of requests that it admits.
  int64_t rows() const { return hypothesis_offsets_.tokens(); }
  // Hypotheses that the last step() advanced; 0 if it only read prompts.
  int64_t last_step_rows() const { return last_step_rows_; }

 private:
  struct Sequence;
  using Sequences = std::deque<std::unique_ptr<Sequence>>;

  void open_requests();
  void open(Sequence& sequence);
  void fit_prefixes();
  void read_prompts();
  void read_chunks(std::span<const std::pair<Sequence*, int64_t>> chunks);
  void admit_read();
  void admit_group(Sequences group);
  void restrict_logits();
  void advance(Tensor logits);
  void drop_ended_rows(bool advanced);
  void end(std::unique_ptr<Sequence> sequence);
  void end_running(const std::exception_ptr& error);

  std::shared_ptr<StepModel> model_;
  SpecialIds special_;
  EngineOptions options_;
  int64_t last_step_rows_ = 0;
  uint64_t submitted_ = 0;
  Sequences queue_;    // not admitted yet
  Sequences reading_;  // source open, being read
  Sequences running_;  // have rows
  std::vector<Decoded> ended_;
  int64_t source_tokens_ = 0, reserved_bytes_ = 0;  // of reading_ and running_
  Offsets hypothesis_offsets_;                      // of running_
  std::vector<int32_t> ids_;                        // input of the next step, by row
  std::vector<int32_t> columns_;     // token ids of the logits' columns; empty: the whole vocabulary
  bool membership_changed_ = false;  // of running_, since the last restrict_logits()
  bool stepping_ = false;
};

// Submits all requests, the longest source first, and steps until they are done. Results and their
// request_ids are in the order of the requests. Errors of `fit` (called for each request, if given) and of
// submit() are returned in the result. Throws UsageError if the engine is not idle.
std::vector<Decoded> decode_all(Engine& engine, std::span<const Request> requests,
                                const std::function<Request(const Request&)>& fit = {});

// The hypotheses of each request; throws the first error.
std::vector<NBest> hypotheses_of(std::vector<Decoded> decoded);

}  // namespace qkv::search
