#include "qkv/data/corpus.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/lines.h"

namespace qkv::data {

Words<OnBadLine> words(OnBadLine /*action*/) {
  static constexpr std::array<std::pair<std::string_view, OnBadLine>, 2> kWords{
      {{"false", OnBadLine::fail}, {"true", OnBadLine::skip}}};
  return kWords;
}

std::string CorpusReport::summary() const {
  std::string skips;
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) skips += concat(skips.empty() ? "" : ", ", count, " ", what);
  };
  add(skipped_empty, "empty");
  add(skipped_long, "over-long");
  add(skipped_bad_utf8, "not UTF-8");
  if (!skips.empty()) skips = concat(" (", lines() - pairs, " skipped: ", skips, ")");
  return concat(counted(pairs, "pairs"), skips, ", ", source_tokens, " source and ", target_tokens,
                " target tokens");
}

struct ParallelReader::Readers {
  text::LineReader source, target;
};

ParallelReader::ParallelReader(const CorpusFiles& files, const CorpusOptions& options)
    : files_(files),
      options_(options),
      readers_(new Readers{text::LineReader(files.source), text::LineReader(files.target)}) {
  if (options.max_length < 1) {
    throw UsageError(concat("max_length: expected at least 1, found ", options.max_length));
  }
}

ParallelReader::~ParallelReader() = default;

bool ParallelReader::next(LinePair& pair) {
  auto& [source, target] = *readers_;
  for (;;) {
    const bool more_source = source.next(pair.source), more_target = target.next(pair.target);
    if (more_source != more_target) {
      std::string line;
      while (source.next(line) || target.next(line)) {
      }
      throw DataError(concat("parallel corpus: expected files of equal numbers of lines, found ",
                             source.lines(), " in ", files_.source.string(), " and ", target.lines(), " in ",
                             files_.target.string()));
    }
    if (!more_source) return false;
    pair.line = source.lines();
    if (!valid_utf8(pair.source) || !valid_utf8(pair.target)) {
      if (options_.bad_utf8 == OnBadLine::fail) {
        source.require_utf8(pair.source);
        target.require_utf8(pair.target);
      }
      ++report_.skipped_bad_utf8;
      continue;
    }
    if (text::is_blank(pair.source) || text::is_blank(pair.target)) {
      if (options_.empty == OnBadLine::fail) {
        const auto& file = text::is_blank(pair.source) ? files_.source : files_.target;
        throw DataError(
            concat(file.string(), ", line ", pair.line, ": expected a sentence, found an empty line"));
      }
      ++report_.skipped_empty;
      continue;
    }
    return true;
  }
}

bool ParallelReader::keep(const LinePair& pair, int64_t source_tokens, int64_t target_tokens) {
  if (source_tokens == 0 ||
      // The line has only characters that the tokenizer drops, such as zero-width spaces.
      target_tokens == 0) {
    if (options_.empty == OnBadLine::fail) {
      throw DataError(concat((source_tokens == 0 ? files_.source : files_.target).string(), ", line ",
                             pair.line, ": expected a sentence, found a line without tokens"));
    }
    ++report_.skipped_empty;
    return false;
  }
  if (std::max(source_tokens, target_tokens) > options_.max_length) {
    if (options_.too_long == OnBadLine::fail) {
      const bool in_source = source_tokens > options_.max_length;
      throw DataError(concat((in_source ? files_.source : files_.target).string(), ", line ", pair.line,
                             ": expected at most ", options_.max_length, " tokens, found ",
                             in_source ? source_tokens : target_tokens));
    }
    ++report_.skipped_long;
    return false;
  }
  ++report_.pairs;
  report_.source_tokens += source_tokens;
  report_.target_tokens += target_tokens;
  return true;
}

}  // namespace qkv::data
