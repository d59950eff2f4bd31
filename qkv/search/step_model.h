#pragma once
// The interface of a model to search: it reads sources and returns next-token logits, row by row.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qkv/models/language_model.h"
#include "qkv/tensor/ragged.h"
#include "qkv/text/tokenizer.h"

namespace qkv::search {

using Ids = std::span<const int32_t>;  // a sequence of tokens

using models::EmbeddedRows;
using text::SpecialIds;

// The score of a token that must not come next.
inline constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// Upper bounds of a request's size in the KV cache.
struct CacheNeed {
  int64_t source_tokens = 0;
  int64_t chunk_tokens = 0;  // source tokens read at a time; 0: all
  int64_t rows = 1;          // simultaneous hypotheses
  int64_t tokens = 0;        // per hypothesis, prefix included
};

// How a step model caches what it has read.
struct StepModelOptions {
  DType cache_dtype = DType::f32;  // of keys and values: f32, bf16 or q8_0 (nn::CacheOptions)
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// A model and the requests that it is decoding. A request has rows, its hypotheses; requests and their rows
// are in order of admission. The logits of a row have the same bits whatever the other rows are. A step model
// serves one thread at a time.
class StepModel {
 public:
  // A source between open() and admit(). The destructor frees its memory.
  struct Source {
    explicit Source(Ids tokens, EmbeddedRows of_tokens = {})
        : ids(tokens.begin(), tokens.end()), rows(std::move(of_tokens)) {}
    virtual ~Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    std::vector<int32_t> ids;
    EmbeddedRows rows;
    int64_t unread = 0;  // tokens that read() has to consume before admit()
    int64_t reused = 0;  // tokens that open() found in a kept prefix
  };
  // The next `tokens` unread tokens of a source.
  struct Chunk {
    Source* source = nullptr;
    int64_t tokens = 0;
  };

  virtual ~StepModel() = default;

  virtual int64_t vocabulary() const = 0;
  // Throws UsageError or DataError for a source that the model cannot take. `rows`: of its ids below 0.
  virtual void check(Ids /*source*/, const EmbeddedRows& /*rows*/) const {}
  // Upper bound of the bytes of keys and values of a request; 0 for a model without a cache.
  virtual int64_t cache_bytes(const CacheNeed& /*need*/) const { return 0; }

  // Sets the maximum size of the prefix cache, in bytes; initially 0: off. The cache reuses keys and values
  // of past sources for sources with the same prefix, and evicts the least recently used. Results do not
  // change.
  virtual void keep_prefixes(int64_t /*bytes*/) {}
  virtual int64_t kept_bytes() const { return 0; }

  // Admission has three steps: open(), read() and admit(). A source that can be read in parts has unread
  // tokens after open(); others are read by admit(). The cut into chunks does not affect results.
  virtual std::unique_ptr<Source> open(Ids source, const EmbeddedRows& /*rows*/) {
    return std::make_unique<Source>(source);
  }
  // Lowers `unread` of each source, by more than asked where rows are read together. If it throws, the
  // sources of the chunks are void.
  virtual void read(std::span<const Chunk> /*chunks*/) {}
  // Appends fully read sources to the requests, with one row each. If it throws, none of them is added.
  virtual void admit(std::span<const std::unique_ptr<Source>> sources) = 0;

  // The next token of each row, i32 [rows] -> logits of the token after it, f32 [rows, vocabulary], on any
  // device, which the caller may overwrite.
  virtual Tensor step(const Tensor& ids) = 0;
  // Row i continues the former row parents[i]; request s has rows hypothesis_offsets.begin(s) to
  // hypothesis_offsets.end(s). A request without rows is removed and its memory freed; later requests move
  // up. After a step() that threw, it must be callable with no request keeping a row.
  virtual void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) = 0;

  // Restricts the logits of later steps to these ids, ascending: step() then returns [rows, ids]. No ids: the
  // whole vocabulary. Returns false if unsupported; step() then returns the whole vocabulary.
  virtual bool restrict_logits(Ids /*ids*/) { return false; }

  virtual bool has_cross_attention() const { return false; }
  // Whether later steps record their cross-attention weights, if the model has any.
  virtual void capture_cross_attention(bool /*on*/) {}
  // Of the last step, if captured: for each row, one weight per source token. They sum to 1.
  virtual std::span<const std::vector<float>> source_weights() const { return {}; }
};

}  // namespace qkv::search
