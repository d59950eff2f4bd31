#include "qkv/text/steps/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "qkv/base/error.h"
#include "qkv/base/per_thread.h"
#include "qkv/base/utf8.h"

namespace qkv::text {
namespace {

class Literal : public Pattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}

  void find(std::string_view text, std::vector<Range>& matches) const override {
    if (text_.empty()) return;
    for (size_t at = text.find(text_); at != text.npos; at = text.find(text_, at + text_.size())) {
      matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + text_.size())});
    }
  }

 private:
  std::string text_;
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Translates the expression to PCRE2. The dialects differ in: \s, in Oniguruma Unicode's White_Space (PCRE2
// adds U+180E); \w, which includes marks and connecting punctuation; \h, a hexadecimal digit; and \p{Han},
// the script alone (PCRE2 adds characters shared between scripts).
class Translation {
 public:
  Translation(const std::string& expression, const std::string& name) : in_(expression), name_(name) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else {
        if (c == '[') ++class_depth_;
        if (c == ']' && class_depth_ > 0) --class_depth_;
        if (class_depth_ > 1 || (class_depth_ == 1 && in_.compare(at_, 2, "&&") == 0)) {
          fail("a nested class");
        }
        out_ += c;
        ++at_;
        // A bracket directly after the opening one is a literal.
        if (c == '[') {
          if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
          if (at_ < in_.size() && in_[at_] == ']') out_ += in_[at_++];
        }
      }
    }
    return out_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(concat(name_,
                           ": expected a regular expression that PCRE2 and Oniguruma interpret alike, found ",
                           what, " in ", in_));
  }

  void escape() {
    if (at_ + 1 >= in_.size()) fail("a backslash at the end");
    const char c = in_[at_ + 1];
    at_ += 2;
    constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
    const bool inside = class_depth_ > 0;
    switch (c) {
      case 's':
        out_ += R"(\p{White_Space})";
        return;
      case 'S':
        out_ += R"(\P{White_Space})";
        return;
      case 'h':
        out_ += inside ? "0-9a-fA-F" : "[0-9a-fA-F]";
        return;
      case 'w':
        out_ += inside ? kWord : concat('[', kWord, ']');
        return;
      case 'W':
        if (inside) fail("\\W in a class");
        out_ += concat("[^", kWord, ']');
        return;
      case 'p':
      case 'P':
        property(c);
        return;
      case 'b':
      case 'B':
      case 'H':
      case 'G':
      case 'K':
      case 'R':
      case 'X':
        fail(concat('\\', c));
        break;
      default:
        out_ += concat('\\', c);
        return;
    }
  }

  void property(char letter) {
    const size_t end = in_.find('}', at_);
    if (at_ >= in_.size() || in_[at_] != '{' || end == in_.npos) fail("\\p without a name in braces");
    std::string name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const bool negated = name.starts_with('^');
    if (negated) name.erase(0, 1);
    const bool category = name.size() <= 2;
    static constexpr std::array<std::string_view, 5> kBinary{"Alphabetic", "White_Space", "Lowercase",
                                                             "Uppercase", "Any"};
    const bool binary = std::find(kBinary.begin(), kBinary.end(), name) != kBinary.end();
    out_ += concat('\\', letter, '{', negated ? "^" : "", category || binary ? "" : "sc:", name, '}');
  }

  const std::string& in_;
  const std::string& name_;
  std::string out_;
  size_t at_ = 0;
  int class_depth_ = 0;
};

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

struct Match {
  std::unique_ptr<pcre2_match_data, FreeMatch> data;
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using Code = std::unique_ptr<pcre2_code, FreeCode>;

// `translated`: the expression in PCRE2's dialect.
Code compiled(const std::string& translated, const std::string& expression, const std::string& name,
              uint32_t flags) {
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), flags, &error,
                          &where, context.get()));
  if (error == PCRE2_ERROR_HEAP_FAILED) throw std::bad_alloc();
  if (!code) {
    throw DataError(
        concat(name, ": expected a regular expression, found ", expression, " (", message_of(error), ')'));
  }
  return code;
}

// Whether the text matches from `at` on; `found` is then the range.
bool matches_from(const pcre2_code* code, std::string_view text, size_t at, const PCRE2_SIZE*& found,
                  const std::string& expression, const std::string& name) {
  // Only the whole match is needed, so one pair of positions serves all expressions.
  auto& data = per_thread<Match>().data;
  if (!data) data.reset(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  found = pcre2_get_ovector_pointer(data.get());
  const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                 PCRE2_NO_UTF_CHECK, data.get(), nullptr);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (result < 0)
    throw DataError(
        concat(name, ": the regular expression ", expression, " failed (", message_of(result), ')'));
  return true;
}

class Regex : public Pattern {
 public:
  Regex(const std::string& expression, const std::string& name)
      : expression_(expression),
        name_(name),
        code_(compiled(Translation(expression, name).run(), expression, name,
                       PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE)) {
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without JIT, matching is slower
  }

  void find(std::string_view text, std::vector<Range>& matches) const override {
    const PCRE2_SIZE* found = nullptr;
    for (size_t at = 0; at <= text.size();) {
      if (!matches_from(code_.get(), text, at, found, expression_, name_)) return;
      const bool empty = found[0] == found[1];
      // An empty match directly after another match does not count.
      if (!empty || matches.empty() || matches.back().end != found[1]) {
        matches.push_back({static_cast<uint32_t>(found[0]), static_cast<uint32_t>(found[1])});
      }
      at = found[1];
      if (empty) {
        if (at >= text.size()) return;
        next_character(text, at);
      }
    }
  }

 private:
  std::string expression_, name_;
  Code code_;
};

}  // namespace

std::unique_ptr<const Pattern> literal_pattern(std::string text) {
  return std::make_unique<Literal>(std::move(text));
}

std::unique_ptr<const Pattern> regex_pattern(const std::string& expression, const std::string& name) {
  return std::make_unique<Regex>(expression, name);
}

bool matches_python(const std::string& expression, std::string_view text, const std::string& name) {
  const Code code = compiled(concat("(?:", expression, ")"), expression, name,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_ENDANCHORED);
  const PCRE2_SIZE* found = nullptr;
  return matches_from(code.get(), text, 0, found, expression, name);
}

}  // namespace qkv::text
