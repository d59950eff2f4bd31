#include "qkv/text/steps/normalizers.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "qkv/base/utf8.h"
#include "qkv/text/steps/unicode.h"

namespace qkv::text {
namespace {

void lowercase(NormalizedString& text) {
  if (is_ascii(text.text())) {
    char* const bytes = text.bytes();
    for (size_t i = 0; i < text.text().size(); ++i) {
      if (bytes[i] >= 'A' && bytes[i] <= 'Z') bytes[i] = static_cast<char>(bytes[i] + ('a' - 'A'));
    }
    return;
  }
  std::vector<Change> changes;
  std::u32string lower;
  bool changed = false;
  for (size_t at = 0; at < text.text().size();) {
    const char32_t c = next_character(text.text(), at);
    lower.clear();
    append_lowercase(lower, c);
    changed = changed || lower.size() != 1 || lower[0] != c;
    for (size_t i = 0; i < lower.size(); ++i) changes.push_back({lower[i], i > 0 ? 1 : 0});
  }
  if (changed) text.transform(changes);
}

// A character may be followed by any number of marks.
void sort_many_marks(std::span<Change> marks, std::span<uint8_t> classes) {
  std::vector<std::pair<uint8_t, Change>> both;
  for (size_t i = 0; i < marks.size(); ++i) both.emplace_back(classes[i], marks[i]);
  std::ranges::stable_sort(both, {}, &std::pair<uint8_t, Change>::first);
  for (size_t i = 0; i < marks.size(); ++i) std::tie(classes[i], marks[i]) = both[i];
}

// Decomposes to canonical order (Unicode Standard, 3.11, D109), with each character's alignment count.
// Reordered characters keep their counts, so origins follow the order of the result, as in `tokenizers`.
void decompose(const std::string& text, bool compatible, std::vector<Change>& changes) {
  std::u32string characters;
  size_t unordered = 0;  // combining marks from here on are not sorted yet
  std::vector<uint8_t> classes;
  const auto sort_marks = [&] {
    constexpr size_t kFew = 32;
    if (changes.size() - unordered > kFew) {
      sort_many_marks(std::span(changes).subspan(unordered), std::span(classes).subspan(unordered));
      unordered = changes.size();
    }
    // Insertion sort: there are few marks, mostly in order, and the sort must be stable.
    for (size_t i = unordered + 1; i < changes.size(); ++i) {
      for (size_t j = i; j > unordered && classes[j - 1] > classes[j]; --j) {
        std::swap(changes[j - 1], changes[j]);
        std::swap(classes[j - 1], classes[j]);
      }
    }
    unordered = changes.size();
  };
  for (size_t at = 0; at < text.size();) {
    characters.clear();
    append_decomposition(characters, next_character(text, at), compatible);
    for (size_t i = 0; i < characters.size(); ++i) {
      const uint8_t combining = combining_class(characters[i]);
      if (combining == 0) sort_marks();
      changes.push_back({characters[i], i > 0 ? 1 : 0});
      classes.push_back(combining);
      if (combining == 0) unordered = changes.size();
    }
  }
  sort_marks();
}

// Canonical composition (Unicode Standard, 3.11, D117) of a decomposed text.
void recompose(std::vector<Change>& changes) {
  constexpr size_t kNone = SIZE_MAX;
  size_t starter = kNone, end = 0;
  uint8_t last_class = 0;
  bool marks_between = false;
  for (const Change next : changes) {
    const uint8_t combining = combining_class(next.character);
    if (starter != kNone && (!marks_between || last_class < combining)) {
      if (const char32_t both = compose(changes[starter].character, next.character)) {
        changes[starter].character = both;
        changes[starter].count += next.count - 1;
        continue;
      }
    }
    if (combining == 0) {
      starter = end;
      marks_between = false;
    } else {
      last_class = combining;
      marks_between = true;
    }
    changes[end++] = next;
  }
  changes.resize(end);
}

void normalize(NormalizedString& text, UnicodeForm form) {
  if (is_ascii(text.text())) return;
  std::vector<Change> changes;
  decompose(text.text(), form == UnicodeForm::nfkc || form == UnicodeForm::nfkd, changes);
  if (form == UnicodeForm::nfc || form == UnicodeForm::nfkc) recompose(changes);
  text.transform(changes);
}

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}
  void apply(NormalizedString& text) const override { normalize(text, form_); }

 private:
  UnicodeForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedString& text) const override { lowercase(text); }
};

class Bert : public Normalizer {
 public:
  explicit Bert(const BertNormalizerOptions& options)
      : options_(options), strip_accents_(options.strip_accents.value_or(options.lowercase)) {}

  void apply(NormalizedString& text) const override {
    if (options_.clean_text) clean(text);
    if (!is_ascii(text.text())) {
      if (options_.handle_chinese_chars) space_ideographs(text);
      if (strip_accents_) {
        normalize(text, UnicodeForm::nfd);
        text.filter([](char32_t c) { return c < 0x300 || !is_nonspacing_mark(c); });
      }
    }
    if (options_.lowercase) lowercase(text);
  }

 private:
  static bool is_space(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  static bool keeps(char32_t c) {
    if (c < 0x80) return is_space(c) || (c > 0x20 && c != 0x7F);
    return c != kReplacementCharacter && !is_other(c);
  }

  static void clean(NormalizedString& text) {
    text.filter(keeps);
    const std::string& now = text.text();
    bool wide = false;  // contains multi-byte white space
    for (size_t at = 0; at < now.size();) {
      const size_t begin = at;
      const char32_t c = next_character(now, at);
      if (c < 0x80) {
        if (is_space(c)) text.bytes()[begin] = ' ';
      } else {
        wide = wide || is_white_space(c);
      }
    }
    if (!wide) return;
    std::vector<Change> changes;
    for (size_t at = 0; at < now.size();) {
      const char32_t c = next_character(now, at);
      changes.push_back({c >= 0x80 && is_white_space(c) ? U' ' : c, 0});
    }
    text.transform(changes);
  }

  // The CJK ideograph blocks of the reference implementation. (It has 0x2B920 where BERT's original tokenizer
  // has 0x2B820.)
  static bool is_ideograph(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }

  static void space_ideographs(NormalizedString& text) {
    std::vector<Change> changes;
    bool any = false;
    for (size_t at = 0; at < text.text().size();) {
      const char32_t c = next_character(text.text(), at);
      const bool ideograph = is_ideograph(c);
      any = any || ideograph;
      if (ideograph) changes.push_back({U' ', 1});
      changes.push_back({c, 0});
      if (ideograph) changes.push_back({U' ', 1});
    }
    if (any) text.transform(changes);
  }

  BertNormalizerOptions options_;
  bool strip_accents_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void apply(NormalizedString& text) const override {
    const std::string& all = text.text();
    size_t begin = 0, end = all.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!is_white_space(next_character(all, next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      size_t at = previous_character(all, end);
      const size_t last = at;
      if (!is_white_space(next_character(all, at))) break;
      end = last;
    }
    if (begin == 0 && end == all.size()) return;
    NormalizedString::Writer writer(text);
    writer.keep({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    text.replace(writer);
  }

 private:
  bool left_, right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(NormalizedString& text) const override {
    text.filter([](char32_t c) { return c < 0x300 || !is_mark(c); });
  }
};

class Replace : public Normalizer {
 public:
  Replace(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(NormalizedString& text) const override {
    std::vector<Range> matches;
    pattern_->find(text.text(), matches);
    if (matches.empty()) return;
    NormalizedString::Writer writer(text);
    uint32_t kept = 0;
    for (const Range match : matches) {
      writer.keep({kept, match.begin});
      // Its origin is the last character that it replaces.
      const uint32_t end = match.end;
      writer.put(content_, end > 0 ? text.source({end - 1, end}) : Range{});
      kept = end;
    }
    writer.keep({kept, static_cast<uint32_t>(text.text().size())});
    text.replace(writer);
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}

  void apply(NormalizedString& text) const override {
    if (text.empty()) return;
    NormalizedString::Writer writer(text);
    writer.put(text_, text.source({0, 1}));
    writer.keep({0, static_cast<uint32_t>(text.text().size())});
    text.replace(writer);
  }

 private:
  std::string text_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedString& text) const override {
    for (const NormalizerPtr& part : parts_) part->apply(text);
  }

 private:
  std::vector<NormalizerPtr> parts_;
};

}  // namespace

NormalizerPtr bert_normalizer(const BertNormalizerOptions& options) {
  return std::make_unique<Bert>(options);
}
NormalizerPtr unicode_normalizer(UnicodeForm form) { return std::make_unique<UnicodeNormalizer>(form); }
NormalizerPtr lowercase_normalizer() { return std::make_unique<Lowercase>(); }
NormalizerPtr strip_normalizer(bool left, bool right) { return std::make_unique<Strip>(left, right); }
NormalizerPtr strip_accents_normalizer() { return std::make_unique<StripAccents>(); }
NormalizerPtr replace_normalizer(std::unique_ptr<const Pattern> pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
NormalizerPtr prepend_normalizer(std::string text) { return std::make_unique<Prepend>(std::move(text)); }
NormalizerPtr normalizer_sequence(std::vector<NormalizerPtr> parts) {
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace qkv::text
