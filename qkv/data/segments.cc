#include "qkv/data/segments.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"

namespace qkv::data {
namespace {

constexpr uint64_t kSegmentStream =
    0xDA7A'0010'0000'0000ull;  // beside those of shuffle.h; the epoch is added

// Tokens or sentences [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

class Maker {
 public:
  Maker(const SentenceDocuments& documents, const SegmentOptions& options, uint64_t seed, int64_t epoch)
      : documents_(documents),
        options_(options),
        capacity_(options.max_length - options.special_tokens()),
        random_(seed, kSegmentStream + static_cast<uint64_t>(epoch)) {}

  std::vector<Segments> run() {
    for (int64_t d = 0; d < documents_.documents(); ++d) {
      if (options_.pairs) {
        divide_into_pairs(d);
      } else {
        pack(d);
      }
    }
    return std::move(result_);
  }

 private:
  Range sentences_of(int64_t document) const {
    const auto d = static_cast<size_t>(document);
    return {documents_.document_begins[d], documents_.document_begins[d + 1]};
  }
  Range tokens_of(Range sentences) const {
    return {documents_.sentence_begins[static_cast<size_t>(sentences.begin)],
            documents_.sentence_begins[static_cast<size_t>(sentences.end)]};
  }
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }

  void add(Range first, Range second, bool follows) {
    result_.push_back({.first = first.begin,
                       .second = second.begin,
                       .first_tokens = static_cast<int32_t>(first.size()),
                       .second_tokens = static_cast<int32_t>(second.size()),
                       .follows = follows});
  }

  void pack(int64_t document) {
    const Range all = sentences_of(document);
    // The first input of a longer document has a random length, so that epochs cut at other sentences.
    int64_t target = tokens_of(all).size() > capacity_ ? 1 + below(capacity_) : capacity_;
    for (Range part{all.begin, all.begin}; part.begin < all.end; part = {part.end, part.end}) {
      ++part.end;
      while (part.end < all.end && tokens_of({part.begin, part.end + 1}).size() <= target) ++part.end;
      Range tokens = tokens_of(part);
      tokens.end = std::min(tokens.end, tokens.begin + capacity_);
      add(tokens, {}, true);
      target = capacity_;
    }
  }

  void divide_into_pairs(int64_t document) {
    const Range all = sentences_of(document);
    for (int64_t begin = all.begin; begin < all.end;) {
      const bool is_short = random_.uniform() < options_.short_share;
      const int64_t target = is_short ? 2 + below(capacity_ - 1) : capacity_;
      Range chunk{begin, begin + 1};
      // Two sentences at least: if a long sentence alone never had a continuation, its length would tell.
      while (chunk.end < all.end && (chunk.size() < 2 || tokens_of(chunk).size() < target)) ++chunk.end;
      const Range first{begin, chunk.size() < 2 ? chunk.end : division(chunk, target)};
      const Range rest{first.end, chunk.end};
      if (rest.size() > 0 && random_.uniform() < 0.5f) {
        add_pair(tokens_of(first), tokens_of(rest), true);
        begin = chunk.end;
      } else {
        add_pair(tokens_of(first), tokens_elsewhere(document, target - tokens_of(first).size()), false);
        begin = first.end;
      }
    }
  }

  // The first sentence of the second segment.
  int64_t division(Range chunk, int64_t target) {
    if (!options_.halves) return chunk.begin + 1 + below(chunk.size() - 1);
    int64_t middle = chunk.begin + 1;
    while (middle + 1 < chunk.end && 2 * tokens_of({chunk.begin, middle}).size() < target) ++middle;
    return middle;
  }

  // Sentences of another document with at least `least` tokens, or up to its end.
  Range tokens_elsewhere(int64_t document, int64_t least) {
    int64_t from = 0, to = documents_.documents() - 1;
    if (options_.neighbours > 0) {
      from = std::max(from, document - options_.neighbours);
      to = std::min(to, document + options_.neighbours);
    }
    int64_t other = from + below(to - from);
    if (other >= document) ++other;
    const Range all = sentences_of(other);
    const int64_t begin = all.begin + below(all.size());
    Range part{begin, begin + 1};
    while (part.end < all.end && tokens_of(part).size() < least) ++part.end;
    return tokens_of(part);
  }

  void add_pair(Range first, Range second, bool follows) {
    while (first.size() + second.size() > capacity_) {
      Range& longer = first.size() > second.size() ? first : second;
      if (random_.uniform() < 0.5f) {
        ++longer.begin;
      } else {
        --longer.end;
      }
    }
    add(first, second, follows);
  }

  const SentenceDocuments& documents_;
  const SegmentOptions& options_;
  int64_t capacity_;
  RandomStream random_;
  std::vector<Segments> result_;
};

}  // namespace

void SegmentOptions::validate() const {
  if (max_length < least_length())
    throw UsageError(
        concat("train.max_length: expected ", least_length(), " or more tokens, found ", max_length));
  if (!(short_share >= 0 && short_share <= 1))
    throw UsageError(concat("train.short_share: expected 0 to 1, found ", short_share));
  if (neighbours < 0)
    throw UsageError(concat("train.neighbours: expected 0 or more documents, found ", neighbours));
  if (pairs && pairs_from != 0 && pairs_from < least_length()) {
    throw UsageError(
        concat("train.nsp_from: expected 0, or ", least_length(), " or more tokens, found ", pairs_from));
  }
}

std::vector<Segments> make_segments(const SentenceDocuments& documents, const SegmentOptions& options,
                                    uint64_t seed, int64_t epoch) {
  options.validate();
  if (options.pairs && documents.documents() < 2) {
    throw DataError(
        concat("pairs of segments: expected two or more documents, found ", documents.documents()));
  }
  return Maker(documents, options, seed, epoch).run();
}

std::vector<int64_t> segment_costs(const std::vector<Segments>& segments, const SegmentOptions& options) {
  std::vector<int64_t> costs;
  costs.reserve(segments.size());
  for (const Segments& one : segments) costs.push_back(one.tokens() + options.special_tokens());
  return costs;
}

SegmentCursor::SegmentCursor(const SentenceDocuments& documents, const SegmentOptions& options,
                             LengthWarmup warmup, int64_t budget, uint64_t seed, CursorState from)
    : documents_(documents), options_(options), warmup_(std::move(warmup)), budget_(budget), seed_(seed) {
  warmup_.validate(SegmentOptions{.pairs = false}.least_length(), options_.max_length);
  plan(from);
}

void SegmentCursor::add_part(int64_t epoch, const SegmentOptions& options, int64_t max_batches) {
  std::vector<Segments> segments = make_segments(documents_, options, seed_, epoch);
  BatchCursor cursor(segment_costs(segments, options),
                     {.budget = budget_, .max_batches = max_batches, .seed = seed_}, {.epoch = epoch});
  const int64_t first = parts_.empty() ? 0 : batches_in_epoch();
  parts_.push_back({std::move(segments), options.pairs, first, std::move(cursor)});
}

void SegmentCursor::plan(CursorState from) {
  parts_.clear();
  if (from.epoch == 0) {
    for (const LengthStage& stage : warmup_.stages) {
      SegmentOptions options = options_;
      options.max_length = stage.max_length;
      options.pairs = options_.pairs && options_.pairs_from > 0 && stage.max_length >= options_.pairs_from;
      add_part(0, options, stage.batches);
    }
  }
  add_part(from.epoch, options_, 0);
  if (from.batch < 0 || from.batch >= batches_in_epoch()) {
    throw UsageError(concat("batch to continue from: expected 0 to ", batches_in_epoch() - 1, " in epoch ",
                            from.epoch, ", found ", from.batch, " (another corpus or batch size?)"));
  }
  part_ = parts_.size() - 1;
  while (parts_[part_].first_batch > from.batch) --part_;
  Part& part = parts_[part_];
  part.cursor.restore({from.epoch, from.batch - part.first_batch});
}

CursorState SegmentCursor::state() const {
  const Part& part = parts_[part_];
  const CursorState own = part.cursor.state();
  return {own.epoch, part.first_batch + own.batch};
}

int64_t SegmentCursor::batches_in_epoch() const {
  return parts_.back().first_batch + parts_.back().cursor.batches_in_epoch();
}

int64_t SegmentCursor::warmup_batches() const { return parts_.back().first_batch; }

SegmentBatch SegmentCursor::next() {
  Part& part = parts_[part_];
  Batch batch = part.cursor.next();
  SegmentBatch result{
      .epoch = batch.epoch,
      .items = std::move(batch.items),
      .segments = {},
      .cost = batch.cost,
      .pairs = part.pairs,
      .positions = part_ > 0 && !part.pairs && part_ + 1 < parts_.size() ? options_.max_length : 0};
  result.segments.reserve(result.items.size());
  for (const int64_t item : result.items) result.segments.push_back(part.segments[static_cast<size_t>(item)]);
  const CursorState following = part.cursor.state();
  if (following.epoch != result.epoch) {
    if (part_ + 1 < parts_.size()) {
      part.segments = {};
      ++part_;
    } else {
      plan(following);
    }
  }
  return result;
}

}  // namespace qkv::data
