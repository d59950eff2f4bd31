#include "qkv/search/engine.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/ops/profile.h"
#include "qkv/search/candidates.h"
#include "qkv/search/step_scores.h"

namespace qkv::search {

struct Engine::Sentence {
  Sentence(uint64_t number, Request what, SearchOptions how, const SpecialIds& special)
      : request_id(number),
        request(std::move(what)),
        options(std::move(how)),
        hypotheses(make_hypotheses(options, request, special,
                                   options.limit(std::ssize(request.source), std::ssize(request.prefix)))) {
    if (!options.shortlist) return;
    std::vector<int32_t> ends = options.stop;
    ends.push_back(special.eos);
    allowed = options.shortlist->allowed(request.source, ends);
  }

  int64_t source_tokens() const { return std::ssize(request.source); }
  bool watches_source() const { return options.coverage_penalty != 0; }
  // Where its own tokens are among those that the logits are of; none: those of all tokens.
  void find_columns(const std::vector<int32_t>& of_logits) {
    columns = allowed;
    if (of_logits.empty()) return;
    for (int32_t& id : columns)
      id = static_cast<int32_t>(std::ranges::lower_bound(of_logits, id) - of_logits.begin());
  }
  // Of those that go on.
  std::span<const Hypotheses::Row> rows() const {
    return error ? std::span<const Hypotheses::Row>() : std::span(hypotheses->rows());
  }

  // One token more.
  void advance(std::span<const RowStep> steps) {
    if (const int32_t* id = hypotheses->forced()) return hypotheses->advance_by(*id, steps.front().attended);
    const bool first = hypotheses->length() == std::ssize(request.prefix);
    const auto stuck = [](const RowStep& step) { return step.candidates.empty(); };
    if (first && std::ranges::all_of(steps, stuck)) {
      throw DataError("search: expected a token that may come first, found all forbidden");
    }
    hypotheses->advance(steps);
  }

  uint64_t request_id;
  Request request;
  SearchOptions options;
  std::unique_ptr<Hypotheses> hypotheses;  // refers to both
  std::vector<int32_t> allowed;            // by the shortlist, ascending; empty: all
  std::vector<int32_t> columns;            // of the logits: where those are
  std::exception_ptr error;
};

Engine::Engine(StepModel& step_model, const SpecialIds& special, int64_t batch_tokens)
    : model_(step_model), special_(special), batch_tokens_(batch_tokens) {
  if (batch_tokens < 1) throw UsageError(concat("batch_tokens: expected at least 1, found ", batch_tokens));
  if (special.eos < 0 || special.eos >= step_model.vocabulary()) {
    throw UsageError(concat("search: expected </s> to be one of the ", step_model.vocabulary(),
                            " ids, found ", special.eos));
  }
}

Engine::~Engine() = default;

uint64_t Engine::submit(Request request, const SearchOptions& options) {
  options.validate();
  model_.check(request.source);
  if (!special_.start && request.source.empty()) {
    throw UsageError("search: expected a prompt with at least one token, found none");
  }
  check_prefix(request.prefix, model_.vocabulary(), special_.eos, options);
  if (request.trace != nullptr && (options.sampling || options.alternatives)) {
    throw UsageError(concat("trace: expected one beam search, found that ",
                            options.sampling ? "tokens are drawn at random" : "alternatives are asked for"));
  }
  if (options.shortlist && options.shortlist->target_vocabulary() != model_.vocabulary()) {
    throw UsageError(concat("shortlist: expected one for the model's vocabulary of ", model_.vocabulary(),
                            " tokens, found one for ", options.shortlist->target_vocabulary()));
  }
  auto sentence = std::make_unique<Sentence>(submitted_, std::move(request), options, special_);
  if (sentence->watches_source() && !model_.capture_cross_attention(true)) {
    throw UsageError("coverage_penalty: expected a model with attention over a source, found none");
  }
  queue_.push_back(std::move(sentence));
  return submitted_++;
}

std::vector<Decoded> Engine::step() {
  const ProfileScope profile("search");
  admit();
  if (running_.empty()) return {};
  restrict_logits();
  model_.capture_cross_attention(
      std::ranges::any_of(running_, [](const auto& one) { return one->watches_source(); }));
  advance(model_.step(Tensor::from(ids_, {hypothesis_offsets_.tokens()})));
  return retire_finished();
}

// Newcomers come in groups, which is what the encoder is fast with: all that wait, or else a quarter of the
// room.
void Engine::admit() {
  int64_t tokens = 0;
  size_t count = 0;
  for (; count < queue_.size(); ++count) {
    const int64_t longer = tokens + queue_[count]->source_tokens();
    const bool first = running_.empty() && count == 0;
    if (running_tokens_ + longer > batch_tokens_ && !first) break;
    tokens = longer;
  }
  if (count < queue_.size() && !running_.empty() && tokens < batch_tokens_ / 4) return;
  if (count == 0) return;

  std::vector<Ids> sources;
  for (size_t i = 0; i < count; ++i) sources.push_back(queue_[i]->request.source);
  model_.admit(sources);
  std::vector<int32_t> offsets = hypothesis_offsets_.values();
  for (const Ids source : sources) {
    ids_.push_back(special_.start.value_or(source.empty() ? 0 : source.back()));
    offsets.push_back(offsets.back() + 1);
  }
  hypothesis_offsets_ = Offsets(std::move(offsets));
  may_restrict_ = true;
  running_tokens_ += tokens;
  for (; count > 0; --count) {
    running_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
}

// The logits of no more tokens than the living may use together.
void Engine::restrict_logits() {
  if (!std::exchange(may_restrict_, false)) return;
  const auto uses_all = [](const auto& sentence) { return sentence->allowed.empty(); };
  std::vector<int32_t> together;
  if (std::ranges::none_of(running_, uses_all)) {
    for (const auto& sentence : running_)
      together.insert(together.end(), sentence->allowed.begin(), sentence->allowed.end());
    std::ranges::sort(together);
    together.erase(std::unique(together.begin(), together.end()), together.end());
  }
  // To restrict anew costs about what it saves in some steps: a few tokens too many may stay.
  const bool enough = std::ranges::includes(columns_, together) && columns_.size() < 2 * together.size();
  if (together != columns_ && !enough)
    columns_ = model_.restrict_logits(together) ? std::move(together) : std::vector<int32_t>();
  for (const auto& sentence : running_) sentence->find_columns(columns_);
}

// Takes logits, of all tokens or of columns_, and goes one token further.
void Engine::advance(const Tensor& logits) {
  const int64_t rows = hypothesis_offsets_.tokens(), vocabulary = model_.vocabulary();
  const int64_t columns = columns_.empty() ? vocabulary : std::ssize(columns_);
  if (logits.shape() != Shape{rows, columns} || !logits.contiguous()) {
    throw ShapeError(
        concat("search: expected contiguous logits [", rows, ", ", columns, "], found ", logits.shape()));
  }

  struct Place {
    Sentence* sentence;
    int32_t row;
  };
  std::vector<Place> places;
  std::vector<RowVocabulary> vocabularies;
  for (const auto& sentence : running_) {
    const auto count = static_cast<int32_t>(sentence->rows().size());
    for (int32_t row = 0; row < count; ++row) {
      places.push_back({sentence.get(), row});
      vocabularies.push_back({sentence->allowed, sentence->columns});
    }
  }
  const auto wants_logits = [](const auto& sentence) { return needs_logits(sentence->options); };
  const StepScores numbers =
      step_scores(logits, vocabularies, vocabulary, std::ranges::any_of(running_, wants_logits));
  std::vector<RowStep> steps(places.size());
  std::vector<std::exception_ptr> errors(places.size());
  // A thread is worth waking for some ten microseconds of work.
  parallel_for(rows, std::max<int64_t>(1, 32768 / vocabulary), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const auto row_of = [&](const Tensor& of) {
        return std::span(of.data() + r * vocabulary, static_cast<size_t>(vocabulary));
      };
      const auto [sentence, row] = places[static_cast<size_t>(r)];
      if (sentence->hypotheses->forced() != nullptr) continue;
      const std::span<float> log_probabilities = row_of(numbers.log_probabilities);
      const bool by_logits = needs_logits(sentence->options);
      try {
        steps[static_cast<size_t>(r)].candidates =
            candidates_of(*sentence->hypotheses, row,
                          {log_probabilities, by_logits ? row_of(numbers.logits) : log_probabilities});
      } catch (...) {
        errors[static_cast<size_t>(r)] = std::current_exception();
      }
    }
  });

  const auto weights = model_.source_weights();
  for (size_t s = 0; s < running_.size(); ++s) {
    Sentence& sentence = *running_[s];
    const auto first = static_cast<size_t>(hypothesis_offsets_.begin(static_cast<int64_t>(s)));
    const std::span<RowStep> own = std::span(steps).subspan(first, sentence.rows().size());
    for (size_t r = 0; r < own.size(); ++r) {
      if (sentence.watches_source()) own[r].attended = weights[first + r];
      if (errors[first + r]) sentence.error = errors[first + r];
    }
    try {
      if (!sentence.error) sentence.advance(own);
    } catch (...) {
      sentence.error = std::current_exception();
    }
  }
}

// Numbers the rows of what goes on anew, and gives what is done.
std::vector<Decoded> Engine::retire_finished() {
  std::vector<int32_t> offsets{0}, left{0}, parents;
  ids_.clear();
  for (size_t s = 0; s < running_.size(); ++s) {
    for (const Hypotheses::Row& row : running_[s]->rows()) {
      ids_.push_back(row.id);
      parents.push_back(row.parent +
                        static_cast<int32_t>(hypothesis_offsets_.begin(static_cast<int64_t>(s))));
    }
    offsets.push_back(static_cast<int32_t>(ids_.size()));
    if (!running_[s]->rows().empty()) left.push_back(offsets.back());
  }
  const Offsets after(std::move(offsets));
  bool moved = !(after == hypothesis_offsets_);
  for (size_t r = 0; r < parents.size(); ++r) moved = moved || parents[r] != static_cast<int32_t>(r);
  if (moved) model_.reorder(parents, after);
  hypothesis_offsets_ = Offsets(std::move(left));

  std::vector<Decoded> done;
  std::erase_if(running_, [&](const std::unique_ptr<Sentence>& sentence) {
    if (!sentence->rows().empty()) return false;
    done.push_back({.request_id = sentence->request_id, .hypotheses = {}, .error = sentence->error});
    if (!sentence->error) done.back().hypotheses = sentence->hypotheses->result();
    running_tokens_ -= sentence->source_tokens();
    may_restrict_ = true;
    return true;
  });
  return done;
}

std::vector<Decoded> decode_all(Engine& engine, std::span<const Request> requests,
                                const SearchOptions& options) {
  if (!engine.idle()) throw UsageError("search: expected an idle engine, found one with other requests");
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The longest take longest: at the end there are short ones to fill up with.
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return requests[i].source.size(); });
  std::vector<Decoded> results(requests.size());
  std::unordered_map<uint64_t, size_t> place_of;
  for (const size_t i : order) {
    try {
      place_of.emplace(engine.submit(requests[i], options), i);
    } catch (...) {
      results[i].error = std::current_exception();
    }
  }
  while (!engine.idle()) {
    for (Decoded& one : engine.step()) results[place_of.at(one.request_id)] = std::move(one);
  }
  return results;
}

std::vector<NBest> hypotheses_of(std::vector<Decoded> decoded) {
  std::vector<NBest> result;
  for (Decoded& one : decoded) {
    if (one.error) std::rethrow_exception(one.error);
    result.push_back(std::move(one.hypotheses));
  }
  return result;
}

std::vector<NBest> search(StepModel& step_model, const SpecialIds& special, std::span<const Request> requests,
                          const SearchOptions& options) {
  options.validate();
  Engine engine(step_model, special);
  return hypotheses_of(decode_all(engine, requests, options));
}

}  // namespace qkv::search
