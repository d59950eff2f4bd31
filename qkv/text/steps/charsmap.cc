#include "qkv/text/steps/charsmap.h"

#include <cstring>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/steps/normalizers.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::text {
namespace {

// A double array in Darts-clone's format. A unit has the byte that leads to it, an offset to its children,
// and a flag whether one of them is a value; a value is a unit with the high bit set.
class Units {
 public:
  void assign(std::string_view bytes) {
    units_.resize(bytes.size() / sizeof(uint32_t));
    if (!units_.empty()) std::memcpy(units_.data(), bytes.data(), units_.size() * sizeof(uint32_t));
  }

  // The value of the shortest prefix of `key` that has one; -1 if none has.
  int64_t find(std::string_view key) const {
    if (units_.empty()) return -1;
    size_t at = offset(units_[0]);
    for (const char c : key) {
      const uint8_t byte = static_cast<uint8_t>(c);
      at ^= byte;
      if (byte == 0 || at >= units_.size()) return -1;
      const uint32_t unit = units_[at];
      if ((unit & (kValue | 0xFFu)) != byte) return -1;
      at ^= offset(unit);
      if (has_value(unit)) return at < units_.size() ? int64_t{units_[at] & ~kValue} : -1;
    }
    return -1;
  }

  // Whether no transition leads out of the array, and `is_place` holds for each value.
  template <class IsPlace>
  bool is_closed(IsPlace is_place) const {
    for (size_t at = 0; at < units_.size(); ++at) {
      const uint32_t unit = units_[at];
      if ((unit & kValue) != 0) continue;
      const size_t children = at ^ offset(unit);
      if ((children | 0xFFu) >= units_.size()) return false;
      if (has_value(unit) && !is_place(units_[children] & ~kValue)) return false;
    }
    return !units_.empty();
  }

 private:
  static constexpr uint32_t kValue = 0x80000000u;

  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200u) >> 6); }
  static bool has_value(uint32_t unit) { return ((unit >> 8) & 1) != 0; }

  std::vector<uint32_t> units_;
};

// The two parts of a character map.
struct Map {
  Units trie;
  std::string_view strings;  // zero-terminated
};

Map parsed(std::string_view bytes, const std::string& name) {
  const auto refuse = [&](const auto&... found) {
    throw DataError(concat(name, ": expected a SentencePiece character map, found ", found...));
  };
  uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof(trie_bytes)) std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  if (bytes.size() < sizeof(trie_bytes) || trie_bytes > bytes.size() - sizeof(trie_bytes) ||
      trie_bytes % sizeof(uint32_t) != 0) {
    refuse(bytes.size(), " bytes, of which ", trie_bytes, " would be the trie");
  }
  Map map;
  map.trie.assign(bytes.substr(sizeof(trie_bytes), trie_bytes));
  map.strings = bytes.substr(sizeof(trie_bytes) + trie_bytes);
  if (!valid_utf8(map.strings)) refuse("strings that are not UTF-8");
  if (!map.strings.empty() && map.strings.back() != '\0') refuse("strings without a final zero byte");
  const bool closed = map.trie.is_closed(
      [&](uint32_t place) { return place < map.strings.size() && !continues_character(map.strings[place]); });
  if (!closed) refuse("a trie with a transition out of its bounds");
  return map;
}

class Charsmap : public Normalizer {
 public:
  Charsmap(std::string_view bytes, const std::string& name) {
    const Map map = parsed(bytes, name);
    trie_ = map.trie;
    strings_ = map.strings;
  }

  void apply(NormalizedString& text) const override {
    // Longer clusters are mapped character by character, as `tokenizers` does. (SentencePiece itself takes
    // the longest match at each position.)
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
  // Appends the replacement of a part; false if the map has none.
  bool put(std::string_view part, std::vector<Change>& changes) const {
    const int64_t place = trie_.find(part);
    if (place < 0) return false;
    const std::string_view found = strings_.c_str() + place;  // up to its zero byte
    int32_t added = -static_cast<int32_t>(count_characters(part));
    for (size_t at = 0; at < found.size(); ++added) changes.push_back({next_character(found, at), 0});
    for (int32_t i = 0; i < added; ++i) changes[changes.size() - 1 - static_cast<size_t>(i)].count = 1;
    if (added < 0 && !changes.empty()) changes.back().count += added;
    return true;
  }

  Units trie_;
  std::string strings_;  // zero-terminated
};

}  // namespace

void check_charsmap(std::string_view charsmap, const std::string& name) { parsed(charsmap, name); }

NormalizerPtr precompiled_normalizer(std::string_view charsmap, const std::string& name) {
  return std::make_unique<Charsmap>(charsmap, name);
}

}  // namespace qkv::text
