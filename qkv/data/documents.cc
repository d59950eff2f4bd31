#include "qkv/data/documents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/stop.h"
#include "qkv/base/utf8.h"
#include "qkv/text/lines.h"

namespace qkv::data {
namespace {

// So that a share of 0.8 leaves 2 of 10, although (1 - 0.8) * 10 < 2.
constexpr double kRounding = 1e-6;

// The position after the first `count` characters.
size_t position_of(const std::string& text, int64_t count) {
  size_t at = 0;
  for (; count > 0; --count) next_character(text, at);
  return at;
}

}  // namespace

Words<DocumentBounds> words(DocumentBounds /*bounds*/) {
  static constexpr std::array<std::pair<std::string_view, DocumentBounds>, 3> kWords{
      {{"blank-lines", DocumentBounds::blank_lines},
       {"lines", DocumentBounds::lines},
       {"none", DocumentBounds::none}}};
  return kWords;
}

int64_t Documents::bytes() const {
  int64_t sum = 0;
  for (const std::string& text : texts) sum += std::ssize(text);
  return sum;
}

Documents read_documents(const std::filesystem::path& path, DocumentBounds bounds, OnBadLine bad_utf8,
                         const std::atomic<bool>* stop) {
  Documents result;
  text::LineReader reader(path);
  std::string line, document;
  bool any = false;  // whether the text has more than white space
  const auto end_document = [&] {
    if (!document.empty()) result.texts.push_back(std::move(document));
    document.clear();
  };
  while (reader.next(line)) {
    throw_if_stopped(stop);
    if (!valid_utf8(line)) {
      if (bad_utf8 == OnBadLine::fail) reader.require_utf8(line);
      ++result.skipped_bad_utf8;
      continue;
    }
    const bool blank = text::is_blank(line);
    any = any || !blank;
    if (bounds == DocumentBounds::none) {
      document += line;
      document += '\n';
    } else if (blank) {
      end_document();
    } else {
      if (!document.empty()) document += '\n';
      document += line;
      if (bounds == DocumentBounds::lines) end_document();
    }
  }
  end_document();
  if (!any) {
    throw DataError(concat(reader.path().string(), ": expected text, found ",
                           reader.lines() == 0 ? "an empty file" : "no line with more than white space"));
  }
  return result;
}

Documents split_off(Documents& documents, double share) {
  Documents last;
  std::vector<std::string>& texts = documents.texts;
  if (texts.size() == 1) {
    std::string& text = texts.front();
    const auto characters = static_cast<int64_t>(count_characters(text));
    if (characters < 2) {
      throw DataError(
          concat("text to hold out a part of: expected two or more characters, found ", characters));
    }
    const auto kept =
        static_cast<int64_t>(std::floor((1 - share) * static_cast<double>(characters) + kRounding));
    const size_t end = position_of(text, std::clamp<int64_t>(kept, 1, characters - 1));
    last.texts.push_back(text.substr(end));
    text.resize(end);
    return last;
  }
  if (texts.empty()) throw DataError("text to hold out a part of: expected documents, found none");
  const double kept_bytes = (1 - share) * static_cast<double>(documents.bytes()) + kRounding;
  size_t kept = 1;
  auto bytes = static_cast<double>(texts.front().size());
  while (kept + 1 < texts.size() && bytes + static_cast<double>(texts[kept].size()) <= kept_bytes)
    bytes += static_cast<double>(texts[kept++].size());
  const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(kept);
  last.texts.assign(std::make_move_iterator(begin), std::make_move_iterator(texts.end()));
  texts.erase(begin, texts.end());
  return last;
}

}  // namespace qkv::data
