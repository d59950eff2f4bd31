#pragma once
// A model as search sees it: it reads sources, and gives logits row by row.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qkv/tensor/ragged.h"

namespace qkv::search {

using Ids = std::span<const int32_t>;  // a sequence of tokens

struct SpecialIds {
  // The token that every output begins with; it is not part of the output. None: the output continues the
  // last token of its source, as in a decoder-only model, whose source is a prompt.
  std::optional<int32_t> start = 0;
  int32_t eos = 0;  // the token that ends an output
};

// The most that a request can hold in a model's caches.
struct CacheNeed {
  int64_t source_tokens = 0;
  int64_t rows = 1;    // hypotheses side by side
  int64_t tokens = 0;  // of each hypothesis, its prefix included
};

// How a step model keeps what it has read.
struct StepModelOptions {
  DType cache_dtype = DType::f32;  // of keys and values; bf16 halves their memory and changes last digits
  // Of language models: the most positions of prompts that are kept for prompts with the same beginning,
  // which then need not be read again: the same bits, sooner. 0: none are kept.
  int64_t prefix_positions = 0;
};

// A decoding model and the requests that it is in the middle of. A request has rows, its hypotheses; requests
// and rows lie in the order in which they were admitted. Rows do not know of each other: the logits of a row
// are the same bits whatever the other rows are. One step model is for one thread at a time.
class StepModel {
 public:
  // A source between open() and admit(). Destroying it frees what it holds.
  struct Source {
    explicit Source(Ids tokens) : ids(tokens.begin(), tokens.end()) {}
    virtual ~Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    std::vector<int32_t> ids;
    int64_t unread = 0;  // tokens that read() has to read before admit()
  };
  // Some of the unread tokens of a source: the next `tokens` ones.
  struct Chunk {
    Source* source = nullptr;
    int64_t tokens = 0;
  };

  virtual ~StepModel() = default;

  virtual int64_t vocabulary() const = 0;
  // Throws UsageError or DataError for a source that the model cannot take.
  virtual void check(Ids /*source*/) const {}
  // Bytes of keys and values that a request can come to hold; 0 where a model keeps none.
  virtual int64_t cache_bytes(const CacheNeed& /*need*/) const { return 0; }

  // The three steps by which a source comes in. A source that can be read in parts has unread tokens after
  // open(); the others are read by admit(). How it is cut into chunks changes no bit.
  virtual std::unique_ptr<Source> open(Ids source) { return std::make_unique<Source>(source); }
  // Lowers `unread` of each source. After an exception the sources of the chunks are of no more use.
  virtual void read(std::span<const Chunk> /*chunks*/) {}
  // Adds sources without unread tokens behind those that are there, with one row each. After an exception
  // none of them is there.
  virtual void admit(std::span<const std::unique_ptr<Source>> sources) = 0;

  // The next token of each row, i32 [rows] -> the logits of the token after it, f32 [rows, vocabulary], which
  // the caller may overwrite.
  virtual Tensor step(const Tensor& ids) = 0;
  // Row i continues the former row parents[i]; request s has rows hypothesis_offsets.begin(s) to
  // hypothesis_offsets.end(s). A request without rows is forgotten, and its memory is free: those behind it
  // move up. It must be possible after a step() that threw, if no request keeps a row.
  virtual void reorder(std::span<const int32_t> parents, const Offsets& hypothesis_offsets) = 0;

  // Restricts the logits of the steps from now on to these tokens, ascending: step() then gives [rows, ids].
  // No ids: all tokens. False where that cannot be done; all of them come then.
  virtual bool restrict_logits(Ids /*ids*/) { return false; }

  // Whether the steps from now on note what they attended to. False where the model has no source to attend
  // to.
  virtual bool capture_cross_attention(bool /*on*/) { return false; }
  // Of the last step, if it was captured: for each row, the weight of each token of its source. They sum to
  // 1.
  virtual std::span<const std::vector<float>> source_weights() const { return {}; }
};

}  // namespace qkv::search
