#pragma once
// Reads a parallel corpus: two text files whose lines are translations of each other.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "qkv/base/field_text.h"

namespace qkv::data {

// skip: drop the pair and count it; fail: throw DataError naming file and line.
enum class OnBadLine { skip, fail };

// The names of a field that says whether such lines are skipped: "false" (fail), "true" (skip).
Words<OnBadLine> words(OnBadLine action);

struct CorpusOptions {
  // Maximum tokens of either side, without </s>. A longer pair is over-long.
  int64_t max_length = 512;
  OnBadLine empty = OnBadLine::skip;  // only white space on either side
  OnBadLine too_long = OnBadLine::skip;
  OnBadLine bad_utf8 = OnBadLine::fail;

  bool operator==(const CorpusOptions&) const = default;
};

// Statistics of a corpus.
struct CorpusReport {
  int64_t pairs = 0;  // kept
  int64_t skipped_empty = 0;
  int64_t skipped_long = 0;
  int64_t skipped_bad_utf8 = 0;
  int64_t source_tokens = 0;  // of the kept pairs, without </s>
  int64_t target_tokens = 0;

  int64_t lines() const { return pairs + skipped_empty + skipped_long + skipped_bad_utf8; }
  // "29000 pairs (2 skipped: 1 empty, 1 over-long), 345020 source and 322383 target tokens"
  std::string summary() const;

  bool operator==(const CorpusReport&) const = default;
};

struct CorpusFiles {
  std::filesystem::path source, target;
};

// One pair of lines; `line` is its 1-based number.
struct LinePair {
  std::string source, target;
  int64_t line = 0;
};

// Reads one pair at a time. Lines end in LF or CRLF.
class ParallelReader {
 public:
  // Throws IoError if a file cannot be opened, UsageError if max_length < 1.
  ParallelReader(const CorpusFiles& files, const CorpusOptions& options);
  ~ParallelReader();

  // Returns the next pair that is neither empty nor invalid UTF-8; false at the end. Skipped pairs are
  // counted in report(). Throws DataError for a bad pair if its option is `fail`, and if one file has more
  // lines than the other (naming both and their counts).
  bool next(LinePair& pair);

  // Call with the token counts of each pair: counts the pair and returns whether to keep it. Throws DataError
  // for an over-long pair if its option is `fail`.
  bool keep(const LinePair& pair, int64_t source_tokens, int64_t target_tokens);

  const CorpusReport& report() const { return report_; }

 private:
  struct Readers;

  CorpusFiles files_;
  CorpusOptions options_;
  CorpusReport report_;
  std::unique_ptr<Readers> readers_;
};

}  // namespace qkv::data
