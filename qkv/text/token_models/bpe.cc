#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/base/per_thread.h"
#include "qkv/base/utf8.h"
#include "qkv/text/steps/byte_letters.h"
#include "qkv/text/token_models/byte_tokens.h"
#include "qkv/text/token_models/token_models.h"

namespace qkv::text {
namespace {

// The result and rank of merging a pair of tokens.
struct Merge {
  uint32_t rank = 0;
  int32_t id = -1;
};

// Maps pairs to merges. Open addressing: a failed lookup, the most common case, usually reads one slot.
class MergeTable {
 public:
  explicit MergeTable(size_t count) {
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    slots_.resize(slots);
  }

  // For a repeated pair, the later rule wins.
  void set(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = key_of(left, right);
    slots_[place_of(key)] = {key, merge};
  }

  const Merge* find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[place_of(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }

  size_t place_of(uint64_t key) const {
    uint64_t at = key * 0x9E3779B97F4A7C15ull;
    at = (at ^ (at >> 32)) & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};

// A token of the word so far, in a doubly linked list.
struct Symbol {
  int32_t id;
  uint32_t length;  // bytes; 0: merged into its left neighbour
  int32_t previous, next;
};

struct Symbols {
  std::vector<Symbol> list;
};

class Bpe : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, const Merges& merges, const BpeOptions& options, const std::string& name)
      : vocabulary_(std::move(vocabulary)), options_(options), merges_(merges.size()) {
    if (!options.unk_token.empty()) {
      unk_ = vocabulary_.find(options.unk_token);
      if (unk_ < 0) {
        throw DataError(concat(name, ": expected the unknown token '", options.unk_token,
                               "' in the vocabulary, found ", vocabulary_.count(), " other tokens"));
      }
    }
    add_merges(merges, name);
    if (options.byte_fallback) byte_tokens_ = byte_tokens(vocabulary_);
    if (options.bytes) read_bytes();
  }

  void tokenize(std::string_view piece, std::vector<Token>& tokens) const override {
    if (options_.ignore_merges) {
      const int32_t id = options_.bytes ? pieces_of_bytes_.find(piece) : vocabulary_.find(piece);
      if (id >= 0) {
        tokens.push_back({id, 0, static_cast<uint32_t>(piece.size())});
        return;
      }
    }
    std::vector<Symbol>& symbols = per_thread<Symbols>().list;
    symbols.clear();
    if (options_.bytes) {
      for (const char byte : piece) add(symbols, letters_[static_cast<uint8_t>(byte)], 1);
    } else {
      spell(piece, symbols);
    }
    // For short words, a scan of all pairs is faster than a priority queue.
    constexpr size_t kShort = 32;
    symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
    uint32_t at = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.length == 0) continue;
      tokens.push_back({symbol.id, at, at + symbol.length});
      at += symbol.length;
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  static void add(std::vector<Symbol>& symbols, int32_t id, uint32_t length) {
    const auto at = static_cast<int32_t>(symbols.size());
    if (at > 0) symbols.back().next = at;
    symbols.push_back({id, length, at - 1, -1});
  }

  void add_merges(const Merges& merges, const std::string& name) {
    const std::string& prefix = options_.continuing_subword_prefix;
    uint32_t rank = 0;
    for (const auto& merge : merges) {
      const std::string &left = merge.first, &right = merge.second;
      const auto id_of = [&](const std::string& token) {
        const int32_t id = vocabulary_.find(token);
        if (id < 0) {
          throw DataError(concat(name, ": expected the tokens of every merge in the vocabulary, found that '",
                                 token, "' of merge ", rank + 1, " ('", left, "' and '", right, "') is not"));
        }
        return id;
      };
      if (right.size() < prefix.size()) {
        throw DataError(concat(name, ": expected tokens that begin with '", prefix, "', found '", right,
                               "' on the right of merge ", rank + 1));
      }
      const int32_t a = id_of(left), b = id_of(right);
      merges_.set(a, b, {rank, id_of(left + right.substr(prefix.size()))});
      ++rank;
    }
  }

  void read_bytes() {
    for (int byte = 0; byte < 256; ++byte) {
      letters_[static_cast<size_t>(byte)] = vocabulary_.find(letter_of_byte(static_cast<uint8_t>(byte)));
    }
    if (!options_.ignore_merges) return;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      if (!vocabulary_.has(id)) continue;
      if (const auto bytes = bytes_of_letters(vocabulary_.token(id))) pieces_of_bytes_.set(*bytes, id);
    }
  }

  // Splits a piece into single-character tokens.
  void spell(std::string_view piece, std::vector<Symbol>& symbols) const {
    uint32_t unknown = 0;  // bytes of a pending unknown token
    const auto flush = [&] {
      if (unknown > 0) add(symbols, unk_, unknown);
      unknown = 0;
    };
    std::string decorated;
    for (size_t at = 0; at < piece.size();) {
      const size_t begin = at;
      next_character(piece, at);
      const auto length = static_cast<uint32_t>(at - begin);
      std::string_view character = piece.substr(begin, length);
      const bool prefix = begin > 0 && !options_.continuing_subword_prefix.empty();
      const bool suffix = at == piece.size() && !options_.end_of_word_suffix.empty();
      if (prefix || suffix) {
        decorated = concat(prefix ? options_.continuing_subword_prefix : "", character,
                           suffix ? options_.end_of_word_suffix : "");
        character = decorated;
      }
      const int32_t id = vocabulary_.find(character);
      if (id >= 0) {
        flush();
        add(symbols, id, length);
        continue;
      }
      if (options_.byte_fallback && has_bytes(character)) {
        for (const char byte : character) add(symbols, byte_tokens_[static_cast<uint8_t>(byte)], 1);
        continue;
      }
      if (unk_ < 0) continue;
      if (!options_.fuse_unk) flush();
      unknown += length;
    }
    flush();
  }

  bool has_bytes(std::string_view text) const {
    return std::all_of(text.begin(), text.end(),
                       [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] >= 0; });
  }

  const Merge* merge_at(const std::vector<Symbol>& symbols, int32_t left) const {
    const Symbol& symbol = symbols[static_cast<size_t>(left)];
    return symbol.next < 0 ? nullptr : merges_.find(symbol.id, symbols[static_cast<size_t>(symbol.next)].id);
  }

  // Merges the symbol with its right neighbour.
  static void join(std::vector<Symbol>& symbols, int32_t left, int32_t id) {
    Symbol& symbol = symbols[static_cast<size_t>(left)];
    Symbol& right = symbols[static_cast<size_t>(symbol.next)];
    symbol.id = id;
    symbol.length += right.length;
    symbol.next = right.next;
    right.length = 0;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = left;
  }

  void merge_short(std::vector<Symbol>& symbols) const {
    constexpr uint32_t kNever = UINT32_MAX;
    std::array<Merge, 32> merges;  // of each symbol with its right neighbour
    const auto look_up = [&](int32_t at) {
      const Merge* merge = merge_at(symbols, at);
      merges[static_cast<size_t>(at)] = merge ? *merge : Merge{kNever, -1};
    };
    for (size_t i = 0; i < symbols.size(); ++i) look_up(static_cast<int32_t>(i));
    while (!symbols.empty()) {
      int32_t best = 0;
      for (int32_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next) {
        if (merges[static_cast<size_t>(at)].rank < merges[static_cast<size_t>(best)].rank) best = at;
      }
      const Merge merge = merges[static_cast<size_t>(best)];
      if (merge.rank == kNever) return;
      join(symbols, best, merge.id);
      look_up(best);
      if (symbols[static_cast<size_t>(best)].previous >= 0)
        look_up(symbols[static_cast<size_t>(best)].previous);
    }
  }

  void merge_long(std::vector<Symbol>& symbols) const {
    struct Candidate {
      uint32_t rank;
      int32_t at, id;
      uint32_t
          length;  // of both together, when it was found: another length now means that it is out of date
    };
    const auto later = [](const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    };
    std::vector<Candidate> heap;
    const auto length_at = [&](int32_t at) {
      const Symbol& symbol = symbols[static_cast<size_t>(at)];
      return symbol.length + symbols[static_cast<size_t>(symbol.next)].length;
    };
    const auto push = [&](int32_t at) {
      const Merge* merge = merge_at(symbols, at);
      if (!merge) return;
      heap.push_back({merge->rank, at, merge->id, length_at(at)});
      std::push_heap(heap.begin(), heap.end(), later);
    };
    for (size_t i = 0; i < symbols.size(); ++i) push(static_cast<int32_t>(i));
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const Candidate top = heap.back();
      heap.pop_back();
      const Symbol& symbol = symbols[static_cast<size_t>(top.at)];
      if (symbol.length == 0 || symbol.next < 0 || length_at(top.at) != top.length) continue;
      join(symbols, top.at, top.id);
      push(top.at);
      if (symbol.previous >= 0) push(symbol.previous);
    }
  }

  Vocabulary vocabulary_;
  BpeOptions options_;
  MergeTable merges_;
  int32_t unk_ = -1;
  std::array<int32_t, 256> byte_tokens_{};  // <0x00> to <0xFF>, for byte_fallback
  std::array<int32_t, 256> letters_{};      // token of each byte, if pieces are bytes
  StringIndex pieces_of_bytes_;
};

}  // namespace

TokenModelPtr bpe_model(Vocabulary vocabulary, const Merges& merges, const BpeOptions& options,
                        const std::string& name) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, options, name);
}

bool spells_all_bytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.find(letter_of_byte(static_cast<uint8_t>(byte))) < 0) return false;
  }
  return true;
}

}  // namespace qkv::text
