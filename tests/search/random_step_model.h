#pragma once
// A random model: the logits after a hypothesis are a pure function of the sentence and all its tokens so
// far, so that a search that mixes up rows gives other results.

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/search/search.h"

namespace qkv::search::testing {

struct RandomModel {
  uint64_t seed = 1;
  int vocabulary = 4;
  float spread = 2;       // of the logits
  float eos_bonus = 0;    // added to the logit of id 0
  float granularity = 0;  // logits are rounded to multiples of it, so that ties occur; 0: not rounded

  std::vector<float> logits(uint64_t sentence, const std::vector<int32_t>& tokens) const {
    uint64_t key = seed;
    for (const int32_t token : tokens) key = (key ^ static_cast<uint64_t>(token + 7)) * 0x9E3779B97F4A7C15ull;
    RandomStream random(key ^ (key >> 31), sentence);
    std::vector<float> result;
    for (int id = 0; id < vocabulary; ++id) {
      float logit = spread * (2 * random.uniform() - 1) + (id == 0 ? eos_bonus : 0);
      if (granularity > 0) logit = granularity * std::round(logit / granularity);
      result.push_back(logit);
    }
    return result;
  }

  // In double precision.
  std::vector<double> log_probabilities(uint64_t sentence, const std::vector<int32_t>& tokens) const {
    const std::vector<float> numbers = logits(sentence, tokens);
    double sum = 0;
    for (const float x : numbers) sum += std::exp(static_cast<double>(x));
    std::vector<double> result;
    for (const float x : numbers) result.push_back(static_cast<double>(x) - std::log(sum));
    return result;
  }
};

// Tracks rows as a decoder's cache does. A source's first token is the number of its sentence; a row's
// attention is a pure function of the same data as its logits. Can read sources in chunks, and throw on
// demand.
class RandomStepModel : public StepModel {
 public:
  explicit RandomStepModel(const RandomModel& model) : model_(model) {}

  int64_t vocabulary() const override { return model_.vocabulary; }
  void check(Ids source, const EmbeddedRows& /*rows*/) const override {
    if (source.empty()) throw UsageError("source: no tokens");
  }

  // Positions of a source and of each row, one byte each.
  int64_t cache_bytes(const CacheNeed& need) const override {
    return need.source_tokens + need.rows * need.tokens;
  }

  std::unique_ptr<Source> open(Ids source, const EmbeddedRows& /*rows*/) override {
    require_good(bad_open, source);
    auto opened = std::make_unique<CountedSource>(source, open_sources_);
    if (reads) opened->unread = std::ssize(source) - 1;
    return opened;
  }
  void read(std::span<const Chunk> chunks) override {
    int64_t tokens = 0;
    for (const Chunk& chunk : chunks) {
      if (chunk.tokens < 1 || chunk.tokens > chunk.source->unread) throw ShapeError("read: bad chunk");
      chunk.source->unread -= chunk.tokens;
      tokens += chunk.tokens;
    }
    most_read = std::max(most_read, tokens);
    for (const Chunk& chunk : chunks) require_good(bad_read, chunk.source->ids);
  }

  void admit(std::span<const std::unique_ptr<Source>> sources) override {
    for (const auto& source : sources) {
      require_good(bad_admit, source->ids);
      if (source->unread > 0) throw ShapeError("admit: a source is not read");
    }
    ++groups;
    for (const auto& source : sources) {
      const std::vector<int32_t>& ids = source->ids;
      sentences_.push_back({.rows = 1, .tokens = std::ssize(ids)});
      rows_.push_back({.sentence = static_cast<uint64_t>(ids.front()), .source_tokens = ids.size()});
    }
    int64_t tokens = 0;
    for (const Sentence& sentence : sentences_) tokens += sentence.tokens;
    most_source_tokens = std::max(most_source_tokens, tokens);
  }

  Tensor step(const Tensor& ids) override {
    if (ids.numel() != std::ssize(rows_)) throw ShapeError("step: rows do not match");
    if (++steps == bad_step) throw IoError("a bad step");
    for (Sentence& sentence : sentences_) sentence.held += sentence.rows;
    most_held = std::max(most_held, held());
    rows += ids.numel();
    source_weights_.clear();
    std::vector<float> all;
    for (size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      row.tokens.push_back(ids.data<int32_t>()[r]);
      const std::vector<float> logits = model_.logits(row.sentence, row.tokens);
      all.insert(all.end(), logits.begin(), logits.end());
      if (watching_) source_weights_.push_back(attention(row.sentence, row.source_tokens, row.tokens));
    }
    return Tensor::from(all, {ids.numel(), model_.vocabulary});
  }

  // The attention of the position after reading `tokens`.
  std::vector<float> attention(uint64_t sentence, size_t source_tokens,
                               const std::vector<int32_t>& tokens) const {
    RandomModel weights = model_;
    weights.seed += 1000;
    weights.vocabulary = static_cast<int>(source_tokens);
    std::vector<float> result;
    for (const double logarithm : weights.log_probabilities(sentence, tokens))
      result.push_back(static_cast<float>(std::exp(logarithm)));
    return result;
  }

  void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) override {
    if (hypothesis_offsets.sequences() != std::ssize(sentences_))
      throw ShapeError("reorder: other sentences");
    std::vector<int64_t> sentence_of_row;
    for (int64_t s = 0; s < std::ssize(sentences_); ++s)
      sentence_of_row.insert(sentence_of_row.end(),
                             static_cast<size_t>(sentences_[static_cast<size_t>(s)].rows), s);
    std::vector<Sentence> left;
    std::vector<Row> next;
    for (int64_t s = 0; s < hypothesis_offsets.sequences(); ++s) {
      for (int64_t r = hypothesis_offsets.begin(s); r < hypothesis_offsets.end(s); ++r) {
        const auto parent = static_cast<size_t>(parents[static_cast<size_t>(r)]);
        if (sentence_of_row.at(parent) != s) {
          throw UsageError("reorder: a row's parent belongs to another sentence");
        }
        next.push_back(rows_[parent]);
      }
      if (hypothesis_offsets.length(s) == 0) continue;
      left.push_back(sentences_[static_cast<size_t>(s)]);
      left.back().rows = hypothesis_offsets.length(s);
    }
    rows_ = std::move(next);
    sentences_ = std::move(left);
  }

  bool has_cross_attention() const override { return attends; }
  void capture_cross_attention(bool on) override { watching_ = on; }
  std::span<const std::vector<float>> source_weights() const override { return source_weights_; }

  // Positions in the caches.
  int64_t held() const {
    int64_t positions = *open_sources_;
    for (const Sentence& sentence : sentences_) positions += sentence.tokens + sentence.held;
    return positions;
  }
  int64_t requests() const { return std::ssize(sentences_); }  // with rows

  bool attends = true;
  bool reads = false;                                  // sources are read in chunks
  std::vector<int32_t> bad_open, bad_read, bad_admit;  // sentences for which these functions throw
  int64_t bad_step = -1;                               // index of the step that throws
  int64_t most_read = 0, most_held = 0;                // per call, and simultaneously
  int64_t groups = 0, steps = 0, rows = 0;             // total counts
  int64_t most_source_tokens = 0;                      // simultaneously

 private:
  struct Row {
    uint64_t sentence = 0;
    size_t source_tokens = 0;
    std::vector<int32_t> tokens = {};  // starts with the start token
  };
  RandomModel model_;
  bool watching_ = false;
  struct Sentence {
    int64_t rows = 0, tokens = 0;
    int64_t held = 0;  // positions of all rows ever created: a cache keeps those of pruned ones
  };
  // Counts the tokens of the sources that are open.
  struct CountedSource : Source {
    CountedSource(Ids tokens, std::shared_ptr<int64_t> open) : Source(tokens), open_(std::move(open)) {
      *open_ += std::ssize(ids);
    }
    ~CountedSource() override { *open_ -= std::ssize(ids); }
    std::shared_ptr<int64_t> open_;
  };
  static void require_good(const std::vector<int32_t>& bad, Ids source) {
    if (std::ranges::count(bad, source.front()) > 0) throw IoError(concat("bad source ", source.front()));
  }
  std::shared_ptr<int64_t> open_sources_ = std::make_shared<int64_t>(0);
  std::vector<Sentence> sentences_;
  std::vector<Row> rows_;
  std::vector<std::vector<float>> source_weights_;
};

// The same requests with other options.
inline std::vector<Request> with_options(std::span<const Request> requests, const SearchOptions& options) {
  std::vector<Request> result(requests.begin(), requests.end());
  for (Request& request : result) request.options = options;
  return result;
}
inline Request with_options(Request request, const SearchOptions& options) {
  request.options = options;
  return request;
}

// Requests for sentences of a RandomModel, with sources of this length; the key is the index.
inline std::vector<Request> requests_for(const std::vector<uint64_t>& sentences,
                                         const std::vector<size_t>& lengths) {
  std::vector<Request> requests;
  for (size_t i = 0; i < sentences.size(); ++i) {
    std::vector<int32_t> source(lengths[i], 1);
    source.front() = static_cast<int32_t>(sentences[i]);
    requests.push_back({.source = std::move(source), .key = i});
  }
  return requests;
}

inline bool same_bits(const NBest& a, const NBest& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hypothesis& x, const Hypothesis& y) {
    return x.ids == y.ids && x.score == y.score && x.log_probability == y.log_probability &&
           x.token_log_probabilities == y.token_log_probabilities && x.complete == y.complete;
  });
}

}  // namespace qkv::search::testing
