#include "qkv/text/steps/pre_tokenizers.h"

#include <algorithm>
#include <array>

#include "qkv/base/utf8.h"
#include "qkv/text/steps/byte_letters.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::text {
namespace {

// Splits each piece by a function of (the piece's text, its range, the new pieces).
template <class Cut>
void cut_pieces(Pieces& pieces, Cut cut) {
  const std::string_view all = pieces.text.text();
  std::vector<Range> cuts;
  cuts.reserve(pieces.ranges.size() + all.size() / 4);
  for (const Range piece : pieces.ranges) cut(all.substr(piece.begin, piece.size()), piece.begin, cuts);
  pieces.ranges = std::move(cuts);
}

void add(std::vector<Range>& pieces, uint32_t begin, uint32_t end) {
  if (begin < end) pieces.push_back({begin, end});
}

// Splits a text of `size` bytes into matched and unmatched parts, merged according to `behavior`.
void split_at(const std::vector<Range>& matches, bool inverted, uint32_t size, SplitBehavior behavior,
              uint32_t base, std::vector<Range>& pieces) {
  if (behavior == SplitBehavior::isolated) {  // the common case: nothing to merge
    uint32_t at = 0;
    for (const Range match : matches) {
      add(pieces, base + at, base + match.begin);
      add(pieces, base + match.begin, base + match.end);
      at = match.end;
    }
    add(pieces, base + at, base + size);
    return;
  }
  struct Part {
    Range range;
    bool matched;
  };
  std::vector<Part> parts;
  uint32_t at = 0;
  for (const Range match : matches) {
    if (at < match.begin) parts.push_back({{at, match.begin}, inverted});
    parts.push_back({match, !inverted});
    at = match.end;
  }
  if (at < size) parts.push_back({{at, size}, inverted});

  std::vector<Range> whole;
  bool previous = false;
  const auto join = [&](const auto& begin, const auto& end, auto joins, auto extend) {
    for (auto part = begin; part != end; ++part) {
      if (joins(part->matched) && !whole.empty()) {
        extend(whole.back(), part->range);
      } else {
        whole.push_back(part->range);
      }
      previous = part->matched;
    }
  };
  const auto to_the_right = [](Range& range, Range next) { range.end = next.end; };
  const auto after_other = [&](bool matched) { return matched && !previous; };
  switch (behavior) {
    case SplitBehavior::isolated:
    case SplitBehavior::removed:
      for (const Part& part : parts) {
        if (!part.matched) whole.push_back(part.range);
      }
      break;
    case SplitBehavior::contiguous:
      join(
          parts.begin(), parts.end(), [&](bool matched) { return matched == previous; }, to_the_right);
      break;
    case SplitBehavior::merged_with_previous:
      join(parts.begin(), parts.end(), after_other, to_the_right);
      break;
    case SplitBehavior::merged_with_next:
      join(parts.rbegin(), parts.rend(), after_other,
           [](Range& range, Range next) { range.begin = next.begin; });
      std::reverse(whole.begin(), whole.end());
      break;
  }
  for (const Range range : whole) add(pieces, base + range.begin, base + range.end);
}

// Isolates each character that satisfies a predicate.
template <class Matches>
void find_characters(std::string_view text, Matches matches, std::vector<Range>& found) {
  for (size_t at = 0; at < text.size();) {
    const auto begin = static_cast<uint32_t>(at);
    if (matches(next_character(text, at))) found.push_back({begin, static_cast<uint32_t>(at)});
  }
}

enum class Kind : uint8_t { space, word, sign };

// Splits where the kind of character changes. White space is dropped; symbols stand alone or, if joined, in
// runs.
template <class KindOf>
void cut_by_kind(Pieces& pieces, KindOf kind_of, bool join_signs) {
  cut_pieces(pieces, [&](std::string_view text, uint32_t base, std::vector<Range>& cuts) {
    uint32_t begin = 0;
    Kind last = Kind::space;
    for (size_t at = 0; at < text.size();) {
      const auto here = static_cast<uint32_t>(at);
      const Kind kind = kind_of(next_character(text, at));
      if (kind == last && (kind != Kind::sign || join_signs)) continue;
      if (last != Kind::space) add(cuts, base + begin, base + here);
      begin = here;
      last = kind;
    }
    if (last != Kind::space) add(cuts, base + begin, base + static_cast<uint32_t>(text.size()));
  });
}

// The kind of each ASCII character, and a function for other characters.
template <class KindOf>
class KindTable {
 public:
  explicit KindTable(KindOf kind_of) : kind_of_(kind_of) {
    for (char32_t c = 0; c < kAscii; ++c) kinds_[c] = kind_of(c);
  }
  Kind operator()(char32_t c) const { return c < kAscii ? kinds_[c] : kind_of_(c); }

 private:
  static constexpr char32_t kAscii = 0x80;
  KindOf kind_of_;
  std::array<Kind, kAscii> kinds_{};
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    static const KindTable kinds([](char32_t c) {
      return is_white_space(c) ? Kind::space : is_punctuation(c) ? Kind::sign : Kind::word;
    });
    cut_by_kind(pieces, kinds, /*join_signs=*/false);
  }
};

class Whitespace : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    static const KindTable kinds([](char32_t c) {
      return is_white_space(c) ? Kind::space : is_word_character(c) ? Kind::word : Kind::sign;
    });
    cut_by_kind(pieces, kinds, /*join_signs=*/true);
  }
};

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    static const KindTable kinds([](char32_t c) { return is_white_space(c) ? Kind::space : Kind::word; });
    cut_by_kind(pieces, kinds, /*join_signs=*/false);
  }
};

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(bool (*matches)(char32_t), SplitBehavior behavior)
      : matches_(matches), behavior_(behavior) {}

  void apply(Pieces& pieces) const override {
    std::vector<Range> found;
    cut_pieces(pieces, [&](std::string_view text, uint32_t base, std::vector<Range>& cuts) {
      found.clear();
      find_characters(text, matches_, found);
      split_at(found, false, static_cast<uint32_t>(text.size()), behavior_, base, cuts);
    });
  }

 private:
  bool (*matches_)(char32_t);
  SplitBehavior behavior_;
};

class PatternSplit : public PreTokenizer {
 public:
  PatternSplit(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}

  void apply(Pieces& pieces) const override {
    std::vector<Range> found;
    cut_pieces(pieces, [&](std::string_view text, uint32_t base, std::vector<Range>& cuts) {
      found.clear();
      pattern_->find(text, found);
      split_at(found, inverted_, static_cast<uint32_t>(text.size()), behavior_, base, cuts);
    });
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  bool inverted_;
};

// Prepends `prefix` to each piece for which `wants` holds; its origin is the piece's first character.
template <class Wants>
void prepend(Pieces& pieces, std::string_view prefix, Wants wants) {
  bool any = false;
  for (const Range piece : pieces.ranges) any = any || wants(piece);
  if (!any) return;
  NormalizedString::Writer writer(pieces.text);
  for (Range& piece : pieces.ranges) {
    const uint32_t begin = writer.size();
    if (wants(piece)) writer.put(prefix, pieces.text.source({piece.begin, piece.begin + 1}));
    writer.keep(piece);
    piece = {begin, writer.size()};
  }
  pieces.text.replace(writer);
}

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const ByteLevelOptions& options) : options_(options) {
    if (options.use_regex) pattern_ = regex_pattern(kGpt2Pattern, "GPT-2's pattern");
  }

  void apply(Pieces& pieces) const override {
    if (options_.add_prefix_space) {
      prepend(pieces, " ", [&](Range piece) { return pieces.text.text()[piece.begin] != ' '; });
    }
    if (pattern_) {
      std::vector<Range> found;
      cut_pieces(pieces, [&](std::string_view text, uint32_t base, std::vector<Range>& cuts) {
        found.clear();
        pattern_->find(text, found);
        split_at(found, false, static_cast<uint32_t>(text.size()), SplitBehavior::isolated, base, cuts);
      });
    }
    if (options_.spell_bytes) spell(pieces);
  }

 private:
  static void spell(Pieces& pieces) {
    NormalizedString::Writer writer(pieces.text);
    for (Range& piece : pieces.ranges) {
      const uint32_t begin = writer.size();
      for (uint32_t at = piece.begin; at < piece.end; ++at) {
        writer.put(letter_of_byte(static_cast<uint8_t>(pieces.text.text()[at])),
                   pieces.text.source({at, at + 1}));
      }
      piece = {begin, writer.size()};
    }
    pieces.text.replace(writer);
  }

  ByteLevelOptions options_;
  std::unique_ptr<const Pattern> pattern_;
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceOptions options) : options_(std::move(options)) {}

  void apply(Pieces& pieces) const override {
    replace_spaces(pieces);
    const std::string& mark = options_.replacement;
    if (options_.prepend != Prepend::never) {
      prepend(pieces, mark, [&](Range piece) {
        return pieces.text.text().compare(piece.begin, mark.size(), mark) != 0 &&
               (options_.prepend == Prepend::always ||
                pieces.text.source({piece.begin, piece.begin + 1}).begin == 0);
      });
    }
    if (!options_.split) return;
    cut_pieces(pieces, [&](std::string_view text, uint32_t base, std::vector<Range>& cuts) {
      size_t begin = 0;
      for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + mark.size())) {
        add(cuts, base + static_cast<uint32_t>(begin), base + static_cast<uint32_t>(at));
        begin = at;
      }
      add(cuts, base + static_cast<uint32_t>(begin), base + static_cast<uint32_t>(text.size()));
    });
  }

 private:
  void replace_spaces(Pieces& pieces) const {
    const std::string& all = pieces.text.text();
    NormalizedString::Writer writer(pieces.text);
    for (Range& piece : pieces.ranges) {
      const uint32_t begin = writer.size();
      uint32_t kept = piece.begin;
      for (uint32_t at = piece.begin; at < piece.end; ++at) {
        if (all[at] != ' ') continue;
        writer.keep({kept, at});
        writer.put(options_.replacement, pieces.text.source({at, at + 1}));
        kept = at + 1;
      }
      writer.keep({kept, piece.end});
      piece = {begin, writer.size()};
    }
    pieces.text.replace(writer);
  }

  MetaspaceOptions options_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}
  void apply(Pieces& pieces) const override {
    for (const PreTokenizerPtr& part : parts_) part->apply(pieces);
  }

 private:
  std::vector<PreTokenizerPtr> parts_;
};

}  // namespace

PreTokenizerPtr bert_pre_tokenizer() { return std::make_unique<BertPreTokenizer>(); }
PreTokenizerPtr whitespace_pre_tokenizer() { return std::make_unique<Whitespace>(); }
PreTokenizerPtr whitespace_split() { return std::make_unique<WhitespaceSplit>(); }
PreTokenizerPtr punctuation_split(SplitBehavior behavior) {
  return std::make_unique<CharacterSplit>(is_punctuation, behavior);
}
PreTokenizerPtr digits_split(bool individual) {
  return std::make_unique<CharacterSplit>(is_number,
                                          individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}
PreTokenizerPtr pattern_split(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool inverted) {
  return std::make_unique<PatternSplit>(std::move(pattern), behavior, inverted);
}
PreTokenizerPtr byte_level_pre_tokenizer(const ByteLevelOptions& options) {
  return std::make_unique<ByteLevel>(options);
}
PreTokenizerPtr metaspace_pre_tokenizer(MetaspaceOptions options) {
  return std::make_unique<Metaspace>(std::move(options));
}
PreTokenizerPtr pre_tokenizer_sequence(std::vector<PreTokenizerPtr> parts) {
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace qkv::text
