#pragma once
// A request of the engine and its progress. Not public.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/search/engine/engine.h"
#include "qkv/search/hypotheses.h"
#include "qkv/search/shortlist.h"

namespace qkv::search {

struct Engine::Sequence {
  Sequence(uint64_t number, Request what, const SpecialIds& special)
      : request_id(number), request(std::move(what)), hypotheses(make_hypotheses(request, special)) {
    const SearchOptions& options = request.options;
    if (!options.shortlist) return;
    allowed = options.shortlist->allowed(request.source, hypotheses->ends());
  }

  int64_t source_tokens() const { return std::ssize(request.source); }
  bool captures_attention() const { return request.options.coverage_penalty != 0; }
  // Finds the columns of its allowed tokens among `of_logits`; none: all tokens of the vocabulary.
  void find_columns(const std::vector<int32_t>& of_logits) {
    columns = allowed;
    if (of_logits.empty()) return;
    for (int32_t& id : columns)
      id = static_cast<int32_t>(std::ranges::lower_bound(of_logits, id) - of_logits.begin());
  }
  // The unfinished hypotheses.
  std::span<const Hypotheses::Row> rows() const {
    return error || cancelled ? std::span<const Hypotheses::Row>() : std::span(hypotheses->rows());
  }

  void advance(std::span<const RowStep> steps) {
    if (const int32_t* id = hypotheses->forced()) return hypotheses->advance_by(*id, steps.front().attended);
    const bool first = hypotheses->length() == std::ssize(request.prefix);
    const auto stuck = [](const RowStep& step) { return step.candidates.empty(); };
    if (first && std::ranges::all_of(steps, stuck)) {
      throw DataError("search: expected at least one first token to be allowed, found all forbidden");
    }
    hypotheses->advance(steps);
  }

  uint64_t request_id;
  Request request;
  std::unique_ptr<Hypotheses> hypotheses;  // refers to the request
  int64_t cache_bytes = 0, reused_tokens = 0;
  std::unique_ptr<StepModel::Source> source;  // while it is being read
  bool alone = false;                         // read alone, because a call with others threw
  std::vector<int32_t> allowed;               // by the shortlist, ascending; empty: all
  std::vector<int32_t> columns;               // of the logits: the columns of `allowed`
  std::exception_ptr error;
  bool cancelled = false;
};

}  // namespace qkv::search
