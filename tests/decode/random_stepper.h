#pragma once
// A model of random numbers: the logits after a hypothesis are a pure function of the sentence and of all its
// tokens so far, so that a search that mixes up rows finds something else.

#include <cmath>
#include <vector>

#include "qkv/base/philox.h"
#include "qkv/decode/search.h"

namespace qkv::decode::testing {

struct RandomModel {
  uint64_t seed = 1;
  int vocabulary = 4;
  float spread = 2;       // of the logits
  float eos_bonus = 0;    // added to the logit of id 0
  float granularity = 0;  // logits are multiples of it, so that ties happen; 0: as they come

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

// Follows the rows as a decoder's cache does.
class RandomStepper : public Stepper {
 public:
  RandomStepper(const RandomModel& model, std::vector<uint64_t> sentences)
      : model_(model), sentences_(std::move(sentences)), tokens_(sentences_.size()) {
    for (size_t s = 0; s < sentences_.size(); ++s) sentence_of_.push_back(sentences_[s]);
  }

  Tensor step(const Tensor& ids) override {
    if (ids.numel() != static_cast<int64_t>(tokens_.size())) throw ShapeError("step: rows do not match");
    ++steps;
    rows += ids.numel();
    std::vector<float> all;
    for (size_t r = 0; r < tokens_.size(); ++r) {
      tokens_[r].push_back(ids.data<int32_t>()[r]);
      const std::vector<float> logits = model_.logits(sentence_of_[r], tokens_[r]);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return Tensor::from(all, {ids.numel(), model_.vocabulary});
  }

  void reorder(std::span<const int32_t> parents, const Offsets& rows_of) override {
    std::vector<std::vector<int32_t>> tokens;
    for (const int32_t parent : parents) tokens.push_back(tokens_.at(static_cast<size_t>(parent)));
    std::vector<uint64_t> sentence_of;
    for (int64_t s = 0; s < rows_of.sequences(); ++s) {
      for (int64_t r = rows_of.begin(s); r < rows_of.end(s); ++r) {
        sentence_of.push_back(sentences_.at(static_cast<size_t>(s)));
        if (sentence_of_.at(static_cast<size_t>(parents[static_cast<size_t>(r)])) != sentence_of.back()) {
          throw UsageError("reorder: a row's parent belongs to another sentence");
        }
      }
    }
    tokens_ = std::move(tokens);
    sentence_of_ = std::move(sentence_of);
  }

  int64_t steps = 0, rows = 0;  // how many were asked for

 private:
  const RandomModel& model_;
  std::vector<uint64_t> sentences_, sentence_of_;
  std::vector<std::vector<int32_t>> tokens_;  // of each row, the start token first
};

}  // namespace qkv::decode::testing
