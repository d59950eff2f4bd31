// From the queue to running: requests are opened, their sources read in chunks, and rows given to them.

#include <algorithm>
#include <utility>

#include "qkv/search/engine/engine.h"
#include "qkv/search/engine/sequence.h"

namespace qkv::search {

// Admits requests in groups, because encoders are fast on groups: all that are queued, or as many as fill a
// quarter of the budget.
void Engine::open_requests() {
  int64_t tokens = 0, bytes = 0;
  size_t count = 0;
  const bool alone = reading_.empty() && running_.empty();
  bool worthwhile = true;
  for (; count < queue_.size(); ++count) {
    const Sequence& next = *queue_[count];
    const int64_t more_tokens = tokens + next.source_tokens(), more_bytes = bytes + next.cache_bytes;
    const bool first = alone && count == 0;
    if (options_.batch_tokens > 0 && source_tokens_ + more_tokens > options_.batch_tokens && !first) {
      worthwhile = tokens >= options_.batch_tokens / 4;
      break;
    }
    if (options_.cache_bytes > 0 && reserved_bytes_ + more_bytes > options_.cache_bytes) {
      worthwhile = bytes >= options_.cache_bytes / 4;
      break;
    }
    tokens = more_tokens;
    bytes = more_bytes;
  }
  if (!worthwhile && !alone) return;
  for (; count > 0; --count) {
    std::unique_ptr<Sequence> sequence = std::move(queue_.front());
    queue_.pop_front();
    try {
      open(*sequence);
    } catch (...) {
      sequence->error = std::current_exception();
      end(std::move(sequence));
      continue;
    }
    source_tokens_ += sequence->source_tokens();
    reserved_bytes_ += sequence->cache_bytes;
    reading_.push_back(std::move(sequence));
  }
  fit_prefixes();
}

void Engine::open(Sequence& sequence) {
  sequence.source = model_->open(sequence.request.source, sequence.request.rows);
  sequence.reused_tokens = sequence.source->reused;
}

// Leaves the kept prefixes what the requests do not need.
void Engine::fit_prefixes() {
  const int64_t room = options_.cache_bytes > 0 ? options_.cache_bytes - reserved_bytes_ : INT64_MAX;
  model_->keep_prefixes(std::min(options_.prefix_bytes, room));
}

// Splits the step's prefill tokens evenly among the prompts; what short prompts leave over goes to longer
// ones.
void Engine::read_prompts() {
  std::vector<Sequence*> unread;
  for (const auto& sequence : reading_) {
    if (sequence->source->unread > 0) unread.push_back(sequence.get());
  }
  std::ranges::stable_sort(unread, {}, [](const Sequence* one) { return one->source->unread; });
  std::vector<std::pair<Sequence*, int64_t>> together;
  int64_t left = options_.prefill_tokens, prompts = std::ssize(unread);
  for (Sequence* sequence : unread) {
    const int64_t share = std::max<int64_t>(1, left / prompts--);
    const int64_t tokens = std::min(sequence->source->unread, share);
    if (left < tokens) break;
    left -= tokens;
    const std::pair chunk{sequence, tokens};
    if (sequence->alone) {
      read_chunks(std::span(&chunk, 1));
    } else {
      together.push_back(chunk);
    }
  }
  if (!together.empty()) read_chunks(together);
}

void Engine::read_chunks(std::span<const std::pair<Sequence*, int64_t>> chunks) {
  std::vector<StepModel::Chunk> calls;
  for (const auto& [sequence, tokens] : chunks) calls.push_back({sequence->source.get(), tokens});
  try {
    return model_->read(calls);
  } catch (...) {
    for (const auto& [sequence, tokens] : chunks) {
      if (chunks.size() == 1) sequence->error = std::current_exception();
    }
  }
  // The chunks' state is void: every request starts over, alone.
  for (const auto& [sequence, tokens] : chunks) {
    if (sequence->error) continue;
    sequence->alone = true;
    try {
      open(*sequence);
    } catch (...) {
      sequence->error = std::current_exception();
    }
  }
}

// Gives rows to the requests whose sources have been read completely.
void Engine::admit_read() {
  Sequences group, still_reading;
  for (auto& sequence : reading_) {
    if (sequence->error) {
      source_tokens_ -= sequence->source_tokens();
      reserved_bytes_ -= sequence->cache_bytes;
      end(std::move(sequence));
    } else if (sequence->source->unread == 0) {
      group.push_back(std::move(sequence));
    } else {
      still_reading.push_back(std::move(sequence));
    }
  }
  reading_ = std::move(still_reading);
  if (!group.empty()) admit_group(std::move(group));
}

void Engine::admit_group(Sequences group) {
  std::vector<std::unique_ptr<StepModel::Source>> sources;
  for (const auto& sequence : group) sources.push_back(std::move(sequence->source));
  // All memory first: once the model has taken the sequences in, nothing may fail.
  std::vector<int32_t> offsets = hypothesis_offsets_.values();
  for (size_t i = 0; i < group.size(); ++i) offsets.push_back(offsets.back() + 1);
  const Offsets joined(std::move(offsets));
  ids_.reserve(ids_.size() + group.size());
  const size_t first = running_.size();
  running_.resize(first + group.size());
  try {
    model_->admit(sources);
  } catch (...) {
    running_.resize(first);
    if (group.size() == 1) {
      source_tokens_ -= group.front()->source_tokens();
      reserved_bytes_ -= group.front()->cache_bytes;
      group.front()->error = std::current_exception();
      return end(std::move(group.front()));
    }
    for (size_t i = 0; i < group.size(); ++i) {
      group[i]->source = std::move(sources[i]);
      Sequences one;
      one.push_back(std::move(group[i]));
      admit_group(std::move(one));
    }
    return;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    const std::vector<int32_t>& source = group[i]->request.source;
    const std::optional<int32_t> start = group[i]->request.start ? group[i]->request.start : special_.start;
    ids_.push_back(start.value_or(source.empty() ? 0 : source.back()));
    running_[first + i] = std::move(group[i]);
  }
  hypothesis_offsets_ = joined;
  membership_changed_ = true;
}

}  // namespace qkv::search
