// SentencePiece's map of characters: a trie over bytes that gives places in a list of strings.

#include <algorithm>
#include <cstring>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// The layout is that of the Darts-clone double array: a unit has the byte it is reached by, an offset to its
// children, and whether a value hangs on it.
class Units {
 public:
  void assign(std::string_view bytes) {
    units_.resize(bytes.size() / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data(), units_.size() * sizeof(uint32_t));
  }

  // The value of the shortest prefix of `key` that has one; -1: none has.
  int64_t find(std::string_view key) const {
    if (units_.empty()) return -1;
    size_t at = offset(units_[0]);
    for (const char c : key) {
      const uint8_t byte = static_cast<uint8_t>(c);
      at ^= byte;
      if (byte == 0 || at >= units_.size()) return -1;
      const uint32_t unit = units_[at];
      if ((unit & 0x800000FFu) != byte) return -1;
      at ^= offset(unit);
      if (((unit >> 8) & 1) != 0) return at < units_.size() ? int64_t{units_[at] & 0x7FFFFFFFu} : -1;
    }
    return -1;
  }

 private:
  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200u) >> 6); }

  std::vector<uint32_t> units_;
};

class Charsmap : public Normalizer {
 public:
  Charsmap(std::string bytes, const std::string& name) {
    uint32_t trie_bytes = 0;
    if (bytes.size() >= sizeof(trie_bytes)) std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
    if (bytes.size() < sizeof(trie_bytes) || trie_bytes > bytes.size() - sizeof(trie_bytes) ||
        trie_bytes % sizeof(uint32_t) != 0) {
      throw DataError(concat(name, ": expected a SentencePiece character map, found ", bytes.size(),
                             " bytes of which ", trie_bytes, " would be its trie"));
    }
    trie_.assign(std::string_view(bytes).substr(sizeof(trie_bytes), trie_bytes));
    strings_ = bytes.substr(sizeof(trie_bytes) + trie_bytes);
    if (!valid_utf8(strings_)) {
      throw DataError(
          concat(name, ": expected a SentencePiece character map, found strings that are not UTF-8"));
    }
  }

  void apply(NormalizedString& text) const override {
    // A cluster that is longer than this is mapped character by character. (SentencePiece itself takes the
    // longest match at each place; this is what `tokenizers` does.)
    constexpr size_t kLongestCluster = 5;
    const std::string& all = text.text();
    std::vector<Change> changes;
    bool changed = false;
    size_t begin = 0;
    for (const size_t end : grapheme_ends(all)) {
      const std::string_view cluster = std::string_view(all).substr(begin, end - begin);
      begin = end;
      if (cluster.size() <= kLongestCluster && put(cluster, changes)) {
        changed = true;
        continue;
      }
      for (size_t at = 0; at < cluster.size();) {
        const size_t first = at;
        const char32_t c = next_character(cluster, at);
        if (put(cluster.substr(first, at - first), changes)) {
          changed = true;
        } else {
          changes.push_back({c, 0});
        }
      }
    }
    if (changed) text.transform(changes);
  }

 private:
  // What the map has for a part, if it has something.
  bool put(std::string_view part, std::vector<Change>& changes) const {
    const int64_t place = trie_.find(part);
    if (place < 0 || static_cast<size_t>(place) > strings_.size()) return false;
    const auto from = static_cast<size_t>(place);
    const std::string_view found =
        std::string_view(strings_).substr(from, std::min(strings_.find('\0', from), strings_.size()) - from);
    if (!found.empty() && continues_character(found[0])) return false;
    int32_t added = -static_cast<int32_t>(count_characters(part));
    for (size_t at = 0; at < found.size(); ++added) changes.push_back({next_character(found, at), 0});
    for (int32_t i = 0; i < added; ++i) changes[changes.size() - 1 - static_cast<size_t>(i)].count = 1;
    if (added < 0 && !changes.empty()) changes.back().count += added;
    return true;
  }

  Units trie_;
  std::string strings_;  // each ends in a zero byte
};

}  // namespace

NormalizerPtr precompiled_normalizer(std::string charsmap, const std::string& name) {
  return std::make_unique<Charsmap>(std::move(charsmap), name);
}

}  // namespace qkv::text
