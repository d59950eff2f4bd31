#pragma once
// Searching with a Transformer.

#include "qkv/decode/search.h"
#include "qkv/models/transformer.h"

namespace qkv::decode {

// A batch of sources in a Transformer, with its cache of keys and values. The model must outlive it.
class TransformerStepper : public Stepper {
 public:
  // source: ids i32 [tokens]. The encoder runs here.
  TransformerStepper(const models::Transformer& model, const Ragged& source);
  Tensor step(const Tensor& ids) override;
  void reorder(std::span<const int32_t> parents, const Offsets& rows_of) override;

 private:
  const models::Transformer& model_;
  nn::DecoderState state_;
};

// The best outputs for each source (ids, with the </s> that the model was trained with), in the order of the
// sources. They are batched by length, at most `batch_tokens` source tokens at a time; the result does not
// depend on that, nor on the other sources. Padding is never chosen, and no output is longer than the model
// has positions for. Throws UsageError for bad options and for a source without tokens, DataError for an id
// outside the vocabulary, NumericError.
std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, int64_t batch_tokens = 1024);

}  // namespace qkv::decode
