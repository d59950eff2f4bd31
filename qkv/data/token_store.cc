#include "qkv/data/token_store.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/log.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/text/text_file.h"

namespace qkv::data {
namespace {

// File layout: all tokens (int32, padded to 8 bytes), the index, the footer. The footer comes last because
// its content is known last; a truncated file has none. Integers are little-endian, as on every machine that
// qkv supports.
constexpr uint64_t kMagic = 0x4E454B4F54564B51ull;  // "QKVTOKEN"
constexpr uint32_t kVersion = 2;
// Part of the fingerprint; changes only when a corpus gives other pairs or ids.
constexpr uint64_t kContentVersion = 1;

struct Footer {
  uint64_t tokens = 0, pairs = 0, fingerprint = 0;
  int64_t skipped_empty = 0, skipped_long = 0, skipped_bad_utf8 = 0, source_tokens = 0, target_tokens = 0;
  uint64_t hash = 0;  // of the whole file, with zeros here
  uint64_t version = kVersion, magic = kMagic;
};
static_assert(std::is_trivially_copyable_v<Footer> && sizeof(Footer) == 11 * 8);
static_assert(sizeof(TokenStore::IndexEntry) == 24);

// Calls visit(data, bytes) for the content of an InputFile or ScratchFile in pieces; a mapping would count
// entirely as used memory.
template <class File, class Visit>
void read_in_pieces(File& file, Visit visit) {
  std::vector<char> piece(size_t{1} << 18);
  while (const size_t bytes = file.read(piece.data(), piece.size())) visit(piece.data(), bytes);
}

uint64_t padded_token_bytes(uint64_t tokens) { return (tokens + tokens % 2) * sizeof(int32_t); }

uint64_t hash_with(Hash64 body, Footer footer) {
  footer.hash = 0;
  body.add(&footer, sizeof(footer));
  return body.value();
}

// Writes the tokens through a buffer to the new file. The index goes to a temporary file until all tokens are
// written.
class StoreWriter {
 public:
  explicit StoreWriter(const std::filesystem::path& path)
      : file_(path), index_(path.has_parent_path() ? path.parent_path() : ".") {}

  void add(const std::vector<int32_t>& source, const std::vector<int32_t>& target, int64_t line) {
    entries_.push_back(
        {tokens_, static_cast<uint32_t>(source.size()), static_cast<uint32_t>(target.size()), line});
    if (entries_.size() >= kBufferEntries) flush_index();
    for (const auto* side : {&source, &target}) buffer_.insert(buffer_.end(), side->begin(), side->end());
    tokens_ += source.size() + target.size();
    if (buffer_.size() >= kBufferTokens) flush();
  }

  void finish(const CorpusReport& report, uint64_t fingerprint) {
    if (tokens_ % 2 == 1) buffer_.push_back(0);
    flush();
    flush_index();
    Footer footer;
    footer.tokens = tokens_;
    footer.pairs = static_cast<uint64_t>(report.pairs);
    footer.fingerprint = fingerprint;
    footer.skipped_empty = report.skipped_empty;
    footer.skipped_long = report.skipped_long;
    footer.skipped_bad_utf8 = report.skipped_bad_utf8;
    footer.source_tokens = report.source_tokens;
    footer.target_tokens = report.target_tokens;
    read_in_pieces(index_, [this](const void* data, size_t bytes) { write(data, bytes); });
    footer.hash = hash_with(hash_, footer);
    file_.write(&footer, sizeof(footer));
    file_.commit();
  }

 private:
  static constexpr size_t kBufferTokens = size_t{1} << 18, kBufferEntries = size_t{1} << 14;

  void write(const void* data, size_t bytes) {
    hash_.add(data, bytes);
    file_.write(data, bytes);
  }
  void flush() {
    write(buffer_.data(), buffer_.size() * sizeof(int32_t));
    buffer_.clear();
  }
  void flush_index() {
    index_.write(entries_.data(), entries_.size() * sizeof(TokenStore::IndexEntry));
    entries_.clear();
  }

  AtomicFile file_;
  ScratchFile index_;
  std::vector<int32_t> buffer_;
  std::vector<TokenStore::IndexEntry> entries_;
  uint64_t tokens_ = 0;
  Hash64 hash_;
};

void hash_file(Hash64& hash, const std::filesystem::path& path, const std::atomic<bool>* stop) {
  uint64_t size = 0;
  text::read_text_in_pieces(path, [&](const char* data, size_t bytes) {
    throw_if_stopped(stop);
    hash.add(data, bytes);
    size += bytes;
  });
  // So that moving a line from the end of one file to the beginning of the next changes the hash.
  hash.add(size);
}

}  // namespace

uint64_t TokenStore::fingerprint_of(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                    const CorpusOptions& options, const std::atomic<bool>* stop) {
  Hash64 hash;
  hash.add(kContentVersion);
  hash.add(tokenizer.fingerprint());
  hash.add(static_cast<uint64_t>(options.max_length));
  for (const OnBadLine what : {options.empty, options.too_long, options.bad_utf8})
    hash.add(static_cast<uint64_t>(what));
  hash_file(hash, files.source, stop);
  hash_file(hash, files.target, stop);
  return hash.value();
}

TokenStore TokenStore::build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                             const std::filesystem::path& path, const CorpusOptions& options,
                             const std::atomic<bool>* stop) {
  constexpr size_t kChunkPairs = 4096;  // tokenized in parallel
  constexpr size_t kChunkBytes = size_t{16} << 20;
  ParallelReader reader(files, options);
  const uint64_t fingerprint = fingerprint_of(files, tokenizer, options, stop);
  StoreWriter writer(path);
  std::vector<LinePair> chunk;
  std::vector<std::vector<int32_t>> source, target;
  bool more = true;
  while (more) {
    throw_if_stopped(stop);
    chunk.clear();
    for (size_t bytes = 0; more && chunk.size() < kChunkPairs && bytes < kChunkBytes;) {
      LinePair pair;
      more = reader.next(pair);
      if (!more) break;
      bytes += pair.source.size() + pair.target.size();
      chunk.push_back(std::move(pair));
    }
    source.resize(chunk.size());
    target.resize(chunk.size());
    parallel_for(static_cast<int64_t>(chunk.size()), 64, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        source[i] = tokenizer.encode_source(chunk[i].source);
        target[i] = tokenizer.encode_target(chunk[i].target);
      }
    });
    for (size_t i = 0; i < chunk.size(); ++i) {
      const bool kept = reader.keep(chunk[i], static_cast<int64_t>(source[i].size()),
                                    static_cast<int64_t>(target[i].size()));
      if (kept) writer.add(source[i], target[i], chunk[i].line);
    }
  }
  if (reader.report().pairs == 0) {
    throw DataError(concat("the corpus of ", files.source.string(), " and ", files.target.string(),
                           ": expected at least one usable pair, found ", reader.report().summary()));
  }
  writer.finish(reader.report(), fingerprint);
  return open(path);
}

TokenStore TokenStore::open(const std::filesystem::path& path) {
  TokenStore store;
  store.file_ = std::make_shared<const MappedFile>(path);
  const std::byte* data = store.file_->data();
  const uint64_t size = store.file_->size();
  Footer footer;
  if (size >= sizeof(footer)) std::memcpy(&footer, data + size - sizeof(footer), sizeof(footer));
  if (size < sizeof(footer) || footer.magic != kMagic) {
    throw DataError(concat(path.string(), ": expected a token store, found ", size,
                           " bytes without its footer (another kind of file, or truncated)"));
  }
  if (footer.version != kVersion) {
    throw DataError(
        concat(path.string(), ": expected a token store of version ", kVersion, ", found ", footer.version));
  }
  const uint64_t body = size - sizeof(footer);
  const uint64_t index_begin = padded_token_bytes(footer.tokens);
  const bool sizes_fit = footer.tokens <= body / sizeof(int32_t) &&
                         footer.pairs <= body / sizeof(IndexEntry) &&
                         index_begin + footer.pairs * sizeof(IndexEntry) == body;
  if (!sizes_fit) {
    throw DataError(concat(path.string(), ": expected ", footer.tokens, " tokens in ", footer.pairs,
                           " pairs, as its footer says, found a file of ", size, " bytes"));
  }
  store.tokens_ = reinterpret_cast<const int32_t*>(data);
  store.index_ = reinterpret_cast<const IndexEntry*>(data + index_begin);
  store.pairs_ = static_cast<int64_t>(footer.pairs);
  Hash64 hash;
  uint64_t left = body;
  InputFile file(path);
  read_in_pieces(file, [&](const void* piece, uint64_t bytes) {
    hash.add(piece, std::min(bytes, left));
    left -= std::min(bytes, left);
  });
  if (hash_with(hash, footer) != footer.hash) {
    throw DataError(concat(path.string(), ": expected content that matches its checksum, found it damaged"));
  }
  // A matching checksum does not prove that the index is valid: anyone can compute it.
  for (const IndexEntry& entry : std::span(store.index_, footer.pairs)) {
    const uint64_t length = uint64_t{entry.source} + entry.target;
    if (length > footer.tokens || entry.first > footer.tokens - length) {
      throw DataError(concat(path.string(), ": expected pairs within its ", footer.tokens,
                             " tokens, found one of ", length, " tokens that begins at ", entry.first));
    }
  }
  store.report_ = {.pairs = store.pairs_,
                   .skipped_empty = footer.skipped_empty,
                   .skipped_long = footer.skipped_long,
                   .skipped_bad_utf8 = footer.skipped_bad_utf8,
                   .source_tokens = footer.source_tokens,
                   .target_tokens = footer.target_tokens};
  store.fingerprint_ = footer.fingerprint;
  return store;
}

TokenStore TokenStore::open_or_build(const CorpusFiles& files, const text::TranslationTokenizer& tokenizer,
                                     const std::filesystem::path& path, const CorpusOptions& options,
                                     const std::atomic<bool>* stop) {
  if (std::filesystem::exists(path)) {
    try {
      TokenStore store = open(path);
      if (store.fingerprint() == fingerprint_of(files, tokenizer, options, stop)) return store;
    } catch (const DataError& error) {
      log_warning(concat(error.what(), "; rebuilding it"));
    }
  }
  return build(files, tokenizer, path, options, stop);
}

void TokenStore::throw_outside(int64_t pair) const {
  throw UsageError(concat("token store: expected a pair from 0 to ", pairs_ - 1, ", found ", pair));
}

std::span<const int32_t> TokenStore::source(int64_t pair) const {
  const IndexEntry& found = entry(pair);
  return {tokens_ + found.first, found.source};
}

std::span<const int32_t> TokenStore::target(int64_t pair) const {
  const IndexEntry& found = entry(pair);
  return {tokens_ + found.first + found.source, found.target};
}

}  // namespace qkv::data
