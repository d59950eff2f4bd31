#include "qkv/data/sentence_pairs.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/labels/tables.h"

namespace qkv::data {
namespace {

std::vector<std::string_view> split_at_tabs(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0;;) {
    const size_t end = line.find('\t', begin);
    fields.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

bool SentencePairReader::next(SentencePair& pair) {
  if (!lines_.next(line_)) return false;
  const auto fail = [this](const std::string& what) {
    throw DataError(concat(lines_.path().string(), ":", lines_.lines(), ": ", what));
  };
  lines_.require_utf8(line_);
  const std::vector<std::string_view> fields = split_at_tabs(line_);
  if (fields_ == 0) {
    constexpr const char* kPair = "a pair of sentences, with or without a score before it";
    if (fields.size() == 1) refuse_csv(lines_.path(), concat(kPair, ", separated by tabs"), "convert it");
    if (fields.size() == 2 || fields.size() == 3) {
      fields_ = fields.size();
      if ((fields_ == 2 || is_column(fields[0], kLabelColumn)) &&
          is_column(fields[fields_ - 2], kTextColumn) && is_column(fields[fields_ - 1], kSecondTextColumn))
        refuse_header(concat(lines_.path().string(), ":", lines_.lines()), kPair);
    }
  }
  if (fields.size() != fields_) {
    fail(concat("expected ",
                fields_ == 0   ? "a pair of sentences, with or without a score before it"
                : fields_ == 2 ? "two sentences, as in the first line"
                               : "a score and two sentences, as in the first line",
                ", separated by tabs, found ", fields.size(), fields.size() == 1 ? " field" : " fields"));
  }
  pair.score.reset();
  if (fields_ == 3) {
    pair.score = number(fields.front());
    if (!pair.score) fail(concat("expected a number as the score, found '", fields.front(), "'"));
  }
  for (const auto& [text, to] :
       {std::pair(fields[fields_ - 2], &pair.first), std::pair(fields[fields_ - 1], &pair.second)}) {
    if (text.find_first_not_of(" \r") == std::string_view::npos) fail("expected a sentence, found none");
    *to = text;
  }
  return true;
}

}  // namespace qkv::data
