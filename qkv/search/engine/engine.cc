#include "qkv/search/engine/engine.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/ops/profile.h"
#include "qkv/search/engine/selection.h"
#include "qkv/search/engine/sequence.h"
#include "qkv/search/shortlist.h"
#include "qkv/tensor/storage.h"

namespace qkv::search {
namespace {

// Upper bound of a search's simultaneous hypotheses.
int64_t max_rows(const SearchOptions& options) {
  if (options.sampling) return options.nbest;
  return options.alternatives ? int64_t{options.nbest} * options.beam : options.beam;
}

}  // namespace

void EngineOptions::validate() const { require_ranges(*this); }

Engine::Engine(std::shared_ptr<StepModel> model, const SpecialIds& special, const EngineOptions& options)
    : model_(std::move(model)), special_(special), options_(options) {
  options.validate();
  if (model_ == nullptr) throw UsageError("engine: expected a step model, found none");
  const bool goes_on =
      !special.start && special.eos == SpecialIds::kNone;  // a language model without an end token
  if (!goes_on && (special.eos < 0 || special.eos >= model_->vocabulary())) {
    throw UsageError(
        concat("search: expected </s> to be one of the ", model_->vocabulary(), " ids, found ", special.eos));
  }
  fit_prefixes();
}

Engine::~Engine() = default;

bool Engine::idle() const { return queue_.empty() && reading_.empty() && running_.empty() && ended_.empty(); }

int64_t Engine::queued_tokens() const {
  int64_t tokens = 0;
  for (const auto& sequence : queue_) tokens += sequence->source_tokens();
  return tokens;
}

uint64_t Engine::submit(Request request) {
  const SearchOptions& options = request.options;
  options.validate();
  model_->check(request.source, request.rows);
  if (!special_.start && request.source.empty()) {
    throw UsageError("search: expected a prompt with at least one token, found none");
  }
  check_prefix(request.prefix, model_->vocabulary(), special_.eos, options);
  if (request.start && (!special_.start || *request.start < 0 || *request.start >= model_->vocabulary())) {
    throw UsageError(concat("start: expected ",
                            special_.start ? concat("an id from 0 to ", model_->vocabulary() - 1)
                                           : "none, as outputs continue a prompt",
                            ", found ", *request.start));
  }
  if (request.trace != nullptr && (options.sampling || options.alternatives)) {
    throw UsageError(
        concat("trace: expected one beam search, found ", options.sampling ? "sampling" : "alternatives"));
  }
  if (options.shortlist && options.shortlist->target_vocabulary() != model_->vocabulary()) {
    throw UsageError(concat("shortlist: expected one for the model's vocabulary of ", model_->vocabulary(),
                            " tokens, found one for ", options.shortlist->target_vocabulary()));
  }
  if (options.coverage_penalty != 0 && !model_->has_cross_attention()) {
    throw UsageError("coverage_penalty: expected a model with attention over a source, found none");
  }
  const int64_t bytes = model_->cache_bytes(
      {.source_tokens = std::ssize(request.source),
       .chunk_tokens = options_.prefill_tokens + (request.rows.both_directions ? request.rows.count() : 0),
       .rows = max_rows(options),
       .tokens = options.limit(std::ssize(request.source), std::ssize(request.prefix))});
  if (options_.cache_bytes > 0 && bytes > options_.cache_bytes) {
    throw UsageError(concat("request: expected one that needs at most the engine's cache_bytes of ",
                            options_.cache_bytes, ", found a need of ", bytes,
                            "; fewer hypotheses or a lower max_new_tokens need less"));
  }
  queue_.push_back(std::make_unique<Sequence>(submitted_, std::move(request), special_));
  queue_.back()->cache_bytes = bytes;
  return submitted_++;
}

bool Engine::cancel(uint64_t request_id) {
  if (stepping_) throw UsageError("cancel: expected to be called between steps, found a step under way");
  for (Sequences* sequences : {&queue_, &reading_, &running_}) {
    const auto found = std::ranges::find(*sequences, request_id, &Sequence::request_id);
    if (found == sequences->end()) continue;
    (*found)->cancelled = true;
    if (sequences == &running_) {
      try {
        drop_ended_rows(false);
      } catch (...) {
        end_running(std::current_exception());
      }
      return true;
    }
    std::unique_ptr<Sequence> sequence = std::move(*found);
    sequences->erase(found);
    if (sequences == &reading_) {
      source_tokens_ -= sequence->source_tokens();
      reserved_bytes_ -= sequence->cache_bytes;
    }
    end(std::move(sequence));
    return true;
  }
  return false;
}

std::vector<Decoded> Engine::step() {
  if (stepping_) throw UsageError("step: expected to be called between steps, found a step under way");
  const ProfileScope profile("search");
  const InferenceMemory inference;
  stepping_ = true;
  last_step_rows_ = 0;
  try {
    open_requests();
    read_prompts();
    admit_read();
    if (!running_.empty()) {
      try {
        restrict_logits();
        model_->capture_cross_attention(
            std::ranges::any_of(running_, [](const auto& one) { return one->captures_attention(); }));
        last_step_rows_ = rows();
        advance(model_->step(Tensor::from(ids_, {last_step_rows_})));
        drop_ended_rows(true);
      } catch (...) {
        end_running(std::current_exception());
      }
    }
  } catch (...) {
    stepping_ = false;
    throw;
  }
  stepping_ = false;
  return std::exchange(ended_, {});
}

// Reports a request that has been removed from all lists.
void Engine::end(std::unique_ptr<Sequence> sequence) {
  Decoded& decoded = ended_.emplace_back();
  decoded.request_id = sequence->request_id;
  decoded.error = sequence->error;
  decoded.cancelled = sequence->cancelled;
  decoded.reused_tokens = sequence->reused_tokens;
  if (decoded.error || decoded.cancelled) return;
  try {
    decoded.hypotheses = sequence->hypotheses->result();
  } catch (...) {
    decoded.error = std::current_exception();
  }
}

// Restricts the logits to the union of the tokens that the running requests may use.
void Engine::restrict_logits() {
  if (!std::exchange(membership_changed_, false)) return;
  const auto uses_all = [](const auto& sequence) { return sequence->allowed.empty(); };
  std::vector<int32_t> together;
  if (std::ranges::none_of(running_, uses_all)) {
    for (const auto& sequence : running_)
      together.insert(together.end(), sequence->allowed.begin(), sequence->allowed.end());
    std::ranges::sort(together);
    together.erase(std::unique(together.begin(), together.end()), together.end());
  }
  // A new restriction costs as much as it saves in several steps, so a few surplus tokens are kept.
  const bool enough = std::ranges::includes(columns_, together) && columns_.size() < 2 * together.size();
  if (together != columns_ && !enough)
    columns_ = model_->restrict_logits(together) ? std::move(together) : std::vector<int32_t>();
  for (const auto& sequence : running_) sequence->find_columns(columns_);
}

// Advances every row by one token. logits: of the whole vocabulary, or of columns_.
void Engine::advance(Tensor logits) {
  const int64_t rows = hypothesis_offsets_.tokens(), vocabulary = model_->vocabulary();
  const int64_t columns = columns_.empty() ? vocabulary : std::ssize(columns_);
  if (logits.shape() != Shape{rows, columns} || !logits.contiguous()) {
    throw ShapeError(
        concat("search: expected contiguous logits [", rows, ", ", columns, "], found ", logits.shape()));
  }

  std::vector<RunningRow> running;
  for (const auto& sequence : running_) {
    const auto count = static_cast<int32_t>(sequence->rows().size());
    for (int32_t row = 0; row < count; ++row)
      running.push_back({*sequence->hypotheses, row, {sequence->allowed, sequence->columns}});
  }
  std::vector<RowResult> results = select_candidates(std::move(logits), running, vocabulary);

  const auto weights = model_->source_weights();
  for (size_t s = 0; s < running_.size(); ++s) {
    Sequence& sequence = *running_[s];
    const auto first = static_cast<size_t>(hypothesis_offsets_.begin(static_cast<int64_t>(s)));
    std::vector<RowStep> own;
    for (size_t r = first; r < first + sequence.rows().size(); ++r) {
      own.push_back(std::move(results[r].step));
      if (sequence.captures_attention()) own.back().attended = weights[r];
      if (results[r].error) sequence.error = results[r].error;
    }
    try {
      if (!sequence.error) sequence.advance(own);
    } catch (...) {
      sequence.error = std::current_exception();
    }
  }
}

// Removes requests that are done, failed or cancelled, and renumbers the remaining rows. advanced: whether
// the rows have parents in the previous step; otherwise they are unchanged.
void Engine::drop_ended_rows(bool advanced) {
  std::vector<int32_t> offsets{0}, left{0}, parents, ids;
  for (size_t s = 0; s < running_.size(); ++s) {
    const auto first = static_cast<int32_t>(hypothesis_offsets_.begin(static_cast<int64_t>(s)));
    const std::span<const Hypotheses::Row> rows = running_[s]->rows();
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t parent = first + (advanced ? rows[r].parent : static_cast<int32_t>(r));
      parents.push_back(parent);
      ids.push_back(advanced ? rows[r].id : ids_[static_cast<size_t>(parent)]);
    }
    offsets.push_back(static_cast<int32_t>(ids.size()));
    if (!rows.empty()) left.push_back(offsets.back());
  }
  const Offsets after(std::move(offsets));
  bool moved = !(after == hypothesis_offsets_);
  for (size_t r = 0; r < parents.size(); ++r) moved = moved || parents[r] != static_cast<int32_t>(r);
  // All memory first: once the model has dropped the rows, nothing may fail.
  const Offsets still_running(std::move(left));
  ended_.reserve(ended_.size() + running_.size());
  if (moved) model_->reorder(parents, after);
  hypothesis_offsets_ = still_running;
  ids_ = std::move(ids);

  size_t kept = 0;
  for (size_t s = 0; s < running_.size(); ++s) {
    std::unique_ptr<Sequence> sequence = std::move(running_[s]);
    if (!sequence->rows().empty()) {
      running_[kept++] = std::move(sequence);
      continue;
    }
    source_tokens_ -= sequence->source_tokens();
    reserved_bytes_ -= sequence->cache_bytes;
    membership_changed_ = true;
    end(std::move(sequence));
  }
  running_.resize(kept);
}

// The model threw during a step: its rows are void.
void Engine::end_running(const std::exception_ptr& error) {
  const Offsets none(std::vector<int32_t>(running_.size() + 1));
  for (const auto& sequence : running_) sequence->error = error;
  ended_.reserve(ended_.size() + running_.size());
  try {
    model_->reorder({}, none);
  } catch (...) {
    std::rethrow_exception(error);  // the first error is the one to report
  }
  for (auto& sequence : running_) {
    source_tokens_ -= sequence->source_tokens();
    reserved_bytes_ -= sequence->cache_bytes;
    end(std::move(sequence));
  }
  running_.clear();
  ids_.clear();
  hypothesis_offsets_ = Offsets();
  membership_changed_ = true;
}

}  // namespace qkv::search
