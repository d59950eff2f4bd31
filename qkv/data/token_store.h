#pragma once
// A tokenized corpus in one file, built once and then memory-mapped. Neither building nor using it needs
// memory proportional to the corpus, apart from mapped pages, which the system may drop.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "qkv/base/files.h"
#include "qkv/data/corpus.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::data {

// Immutable; safe to read from several threads. Ids do not include special tokens.
class TokenStore {
 public:
  // A copy shares the file, and so does a move: the source stays usable.
  TokenStore(const TokenStore&) = default;
  TokenStore& operator=(const TokenStore&) = default;

  // Tokenizes the corpus on threads() threads and replaces `path` atomically. The file's bytes depend only on
  // the corpus, the tokenizer and the options. Throws IoError, the errors of ParallelReader, and DataError if
  // no pair is left; Stopped soon after *stop becomes true, and `path` is then as it was.
  static TokenStore build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                          const std::filesystem::path& path, const CorpusOptions& options = {},
                          const std::atomic<bool>* stop = nullptr);

  // Throws IoError, and DataError naming the file if it is not a token store, truncated or damaged.
  static TokenStore open(const std::filesystem::path& path);

  // Opens `path` if it was built from these contents and options; otherwise rebuilds it.
  static TokenStore open_or_build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                  const std::filesystem::path& path, const CorpusOptions& options = {},
                                  const std::atomic<bool>* stop = nullptr);

  int64_t pairs() const { return pairs_; }
  // These throw UsageError unless pair is from 0 to pairs() - 1.
  std::span<const int32_t> source(int64_t pair) const;
  std::span<const int32_t> target(int64_t pair) const;
  int64_t source_length(int64_t pair) const { return entry(pair).source; }
  int64_t target_length(int64_t pair) const { return entry(pair).target; }
  int64_t line(int64_t pair) const { return entry(pair).line; }  // 1-based, in the corpus's files

  const CorpusReport& report() const { return report_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // The fingerprint() that build() would produce; reads both files completely. Throws IoError, Stopped.
  static uint64_t fingerprint_of(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                 const CorpusOptions& options, const std::atomic<bool>* stop = nullptr);

  struct IndexEntry {
    uint64_t first;  // index of the pair's first token in the array of all tokens: source, then target
    uint32_t source, target;  // lengths
    int64_t line;
  };

 private:
  TokenStore() = default;
  const IndexEntry& entry(int64_t pair) const {
    if (pair < 0 || pair >= pairs_) [[unlikely]]
      throw_outside(pair);
    return index_[pair];
  }
  [[noreturn]] void throw_outside(int64_t pair) const;

  std::shared_ptr<const MappedFile> file_;
  const int32_t* tokens_ = nullptr;
  const IndexEntry* index_ = nullptr;
  int64_t pairs_ = 0;
  CorpusReport report_;
  uint64_t fingerprint_ = 0;
};

}  // namespace qkv::data
