#pragma once
// Inputs of an encoder's pretraining: segments of documents, alone or in pairs.

#include <cstdint>
#include <vector>

#include "qkv/data/batches.h"
#include "qkv/data/length_warmup.h"
#include "qkv/data/sentence_documents.h"

namespace qkv::data {

struct SegmentOptions {
  int64_t max_length = 128;  // tokens of an input, special tokens included
  // Pairs: [CLS] A [SEP] B [SEP] (Devlin et al. 2019, section 3.1). Else [CLS] A [SEP], where A has whole
  // sentences of one document (Liu et al. 2019, section 4.2, "DOC-SENTENCES").
  bool pairs = true;
  float short_share = 0.1f;  // of the pairs, which are made for a random length below max_length
  // Pairs are divided after the sentence that reaches half of the length, in place of a random one: both
  // segments say something about each other.
  bool halves = false;
  // The second segment of a pair that does not follow is from one of this many documents before or after the
  // first segment's, or 0: from any other document.
  int64_t neighbours = 0;
  // Stages of a warm-up (LengthWarmup) with at least this max_length have pairs too; 0: none has.
  int64_t pairs_from = 0;

  // The special tokens of an input.
  int64_t special_tokens() const { return pairs ? 3 : 2; }
  // The shortest input: one token of each segment.
  int64_t least_length() const { return special_tokens() + (pairs ? 2 : 1); }
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

// Two ranges of SentenceDocuments::ids, each whole sentences but for what truncation removed. Without pairs
// the second is empty.
struct Segments {
  int64_t first = 0, second = 0;  // first token
  int32_t first_tokens = 0, second_tokens = 0;
  bool follows = true;  // the second is the first one's continuation

  int64_t tokens() const { return int64_t{first_tokens} + second_tokens; }
  bool operator==(const Segments&) const = default;
};

// The inputs of an epoch, a function of all arguments. Every sentence is in a first segment, or in a second
// one that follows. Pairs (appendix A.2): two or more sentences are collected up to the length and divided at
// random after one of them, or in the middle. With probability 0.5, and after the last sentence of a
// document, the second segment begins at a random sentence of another document, and the unused sentences
// begin the next pair; else the second segment is the rest. Pairs beyond max_length lose tokens at a random
// end of the longer segment. Throws UsageError for invalid options, DataError if pairs are wanted of fewer
// than two documents.
std::vector<Segments> make_segments(const SentenceDocuments& documents, const SegmentOptions& options,
                                    uint64_t seed, int64_t epoch);

// Tokens of each input, special tokens included.
std::vector<int64_t> segment_costs(const std::vector<Segments>& segments, const SegmentOptions& options);

// Inputs with their numbers within the epoch.
struct SegmentBatch {
  int64_t epoch = 0;
  std::vector<int64_t> items;
  std::vector<Segments> segments;
  int64_t cost = 0;   // tokens
  bool pairs = true;  // as in the SegmentOptions of the inputs
  // Each input begins at a random position from which it ends within this many; 0: at the first.
  int64_t positions = 0;
};

// An endless sequence of batches, each epoch with its own segments in random order. The first epoch begins
// with the stages of the warm-up, each a random sample of the text's inputs, at most one pass. From the
// second stage on, inputs that are no pairs lie anywhere within max_length, so that the positions of longer
// inputs are trained before these come (Kiyono et al. 2021, "SHAPE: Shifted absolute position embedding for
// Transformers"). In the first they begin at 0: from few positions a model learns the order of tokens sooner.
class SegmentCursor {
 public:
  // budget: maximum tokens of a batch. `documents` must outlive it. Throws the errors of make_segments(),
  // LengthWarmup::validate() and BatchCursor.
  SegmentCursor(const SentenceDocuments& documents, const SegmentOptions& options, LengthWarmup warmup,
                int64_t budget, uint64_t seed, CursorState from = {});

  SegmentBatch next();
  CursorState state() const;
  int64_t batches_in_epoch() const;  // of state().epoch
  int64_t warmup_batches() const;    // of those, the warm-up's

 private:
  // A stage, or what follows the warm-up in an epoch.
  struct Part {
    std::vector<Segments> segments;
    bool pairs;
    int64_t first_batch;  // within the epoch
    BatchCursor cursor;
  };
  void plan(CursorState from);
  void add_part(int64_t epoch, const SegmentOptions& options, int64_t max_batches);

  const SentenceDocuments& documents_;
  SegmentOptions options_;
  LengthWarmup warmup_;
  int64_t budget_;
  uint64_t seed_;
  std::vector<Part> parts_;  // of the current epoch
  size_t part_ = 0;          // of the next batch
};

}  // namespace qkv::data
