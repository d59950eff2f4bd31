#pragma once
// A corpus as token ids in one file, made once and then mapped into memory: neither making nor using it needs
// memory that grows with the corpus (beyond the pages in use, which the system may drop).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "qkv/base/files.h"
#include "qkv/data/corpus.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::data {

// Immutable; may be read from several threads at once. Ids are without special tokens.
class TokenStore {
 public:
  // Tokenizes the corpus on threads() threads and replaces `path` atomically. The file's bytes depend on the
  // corpus, the tokenizer and the options only. Throws what ParallelReader throws, DataError if no pair is
  // left, IoError.
  static TokenStore build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                          const std::filesystem::path& path, const CorpusOptions& options = {});

  // Throws DataError naming the file if it is not a token store, was cut off or damaged; IoError.
  static TokenStore open(const std::filesystem::path& path);

  // Opens `path` if it was made of these very contents with these options; otherwise builds it anew.
  static TokenStore open_or_build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                  const std::filesystem::path& path, const CorpusOptions& options = {});

  int64_t pairs() const { return pairs_; }
  std::span<const int32_t> source(int64_t pair) const;  // pair in 0..pairs()-1, unchecked
  std::span<const int32_t> target(int64_t pair) const;
  int64_t source_length(int64_t pair) const { return index_[pair].source; }
  int64_t target_length(int64_t pair) const { return index_[pair].target; }
  int64_t line(int64_t pair) const { return index_[pair].line; }  // 1-based, in the corpus's files

  const CorpusReport& report() const { return report_; }
  uint64_t fingerprint() const { return fingerprint_; }

  // What a store that build() would make has as its fingerprint(); reads both files whole. Throws IoError.
  static uint64_t fingerprint_of(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                 const CorpusOptions& options);

  struct IndexEntry {
    uint64_t first;           // where the pair's tokens begin, source then target, in the array of all
    uint32_t source, target;  // lengths
    int64_t line;
  };

 private:
  TokenStore() = default;

  std::shared_ptr<const MappedFile> file_;
  const int32_t* tokens_ = nullptr;
  const IndexEntry* index_ = nullptr;
  int64_t pairs_ = 0;
  CorpusReport report_;
  uint64_t fingerprint_ = 0;
};

}  // namespace qkv::data
