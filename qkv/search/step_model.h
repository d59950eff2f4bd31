#pragma once
// What a search sees of a model: logits, row by row.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::search {

using Ids = std::span<const int32_t>;  // a sequence of tokens

struct SpecialIds {
  // What every output begins with, unseen. None: an output goes on from the last token of its source, as in a
  // decoder-only model, whose source is a prompt; StepModel::admit() then reads all of the source but that.
  std::optional<int32_t> start = 0;
  int32_t eos = 0;  // what ends it
};

// A model in the middle of sentences that come and go. Each has rows, which are hypotheses of how it goes on;
// sentences and rows lie in the order in which they came. Rows know nothing of each other: the logits of one
// are the same bits whatever the others are.
class StepModel {
 public:
  virtual ~StepModel() = default;

  virtual int64_t vocabulary() const = 0;
  // Throws UsageError or DataError for a source that admit() cannot take.
  virtual void check(Ids /*source*/) const {}
  // Takes in new sentences behind those that are there, with one row each.
  virtual void admit(std::span<const Ids> sources) = 0;
  // The next token to read of each row, i32 [rows] -> the logits of the one after it, [rows, vocabulary];
  // they are the caller's to overwrite.
  virtual Tensor step(const Tensor& ids) = 0;
  // Row i continues what row parents[i] was; sentence s has rows hypothesis_offsets.begin(s) to
  // hypothesis_offsets.end(s). A sentence without rows is done and forgotten: those behind it move up.
  virtual void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) = 0;

  // Restricts the logits of the steps from now on to these tokens, which are ascending: step() then gives
  // [rows, ids]. None: to no tokens in particular. False where that cannot be done; all of them come then.
  virtual bool restrict_logits(Ids /*ids*/) { return false; }

  // Whether the steps from now on shall note what they attended to. False where the model has no source to
  // attend to.
  virtual bool capture_cross_attention(bool /*on*/) { return false; }
  // Of the last step, if it was watched: for each row, the weight of each token of its source. Those of a row
  // add up to 1.
  virtual std::span<const std::vector<float>> source_weights() const { return {}; }
};

}  // namespace qkv::search
