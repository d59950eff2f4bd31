#include "qkv/text/steps/normalized_string.h"

#include <algorithm>

#include "qkv/base/error.h"

namespace qkv::text {

void require_few_bytes(size_t found, size_t most) {
  if (found <= most) return;
  throw DataError(
      concat("tokenizer: expected steps that make at most ", most, " bytes of this text, found more"));
}

Range NormalizedString::source_of_byte(size_t at) const {
  if (!sources_.empty()) return sources_[at];
  size_t begin = at, end = at + 1;
  while (begin > 0 && continues_character(text_[begin])) --begin;
  while (end < text_.size() && continues_character(text_[end])) ++end;
  return {begin_ + static_cast<uint32_t>(begin), begin_ + static_cast<uint32_t>(end)};
}

Range NormalizedString::source(Range part) const {
  if (part.empty()) {
    const uint32_t at = part.begin < text_.size() ? source_of_byte(part.begin).begin
                        : text_.empty()           ? begin_
                                                  : source_of_byte(text_.size() - 1).end;
    return {at, at};
  }
  return {source_of_byte(part.begin).begin, source_of_byte(part.end - 1).end};
}

NormalizedString NormalizedString::slice(Range part) const {
  NormalizedString result(std::string_view(text_).substr(part.begin, part.size()), source(part).begin);
  if (!sources_.empty()) {
    result.sources_.assign(sources_.begin() + part.begin, sources_.begin() + part.end);
  }
  return result;
}

void NormalizedString::transform(std::span<const Change> changes, size_t removed) {
  std::string text;
  std::vector<Range> sources;
  text.reserve(text_.size());
  sources.reserve(text_.size());
  size_t at = 0;  // position in the old text
  const auto skip = [&](size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) next_character(text_, at);
  };
  skip(removed);
  for (const Change& change : changes) {
    Range source{begin_, begin_};
    if (change.count > 0) {
      if (at > 0) source = source_of_byte(at - 1);
    } else {
      source = source_of_byte(std::min(at, text_.size() - 1));
      skip(1 + static_cast<size_t>(-change.count));
    }
    append_utf8(text, change.character);
    sources.resize(text.size(), source);
  }
  require_few_bytes(text.size(), most_bytes_);
  text_ = std::move(text);
  sources_ = std::move(sources);
}

void NormalizedString::Writer::keep(Range part) {
  text_.append(from_.text_, part.begin, part.size());
  if (!from_.sources_.empty()) {
    sources_.insert(sources_.end(), from_.sources_.begin() + part.begin, from_.sources_.begin() + part.end);
    return;
  }
  for (uint32_t at = part.begin; at < part.end;) {
    const Range source = from_.source_of_byte(at);
    sources_.insert(sources_.end(), source.size(), source);
    at += source.size();
  }
}

void NormalizedString::Writer::put(std::string_view characters, Range from) {
  require_few_bytes(text_.size() + characters.size(), from_.most_bytes_);
  text_ += characters;
  sources_.insert(sources_.end(), characters.size(), from);
}

void NormalizedString::replace(Writer& writer) {
  text_ = std::move(writer.text_);
  sources_ = std::move(writer.sources_);
}

}  // namespace qkv::text
