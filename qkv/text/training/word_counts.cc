#include "qkv/text/training/word_counts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/base/utf8.h"
#include "qkv/text/training/line_blocks.h"

namespace qkv::text {
namespace {

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
};
using WordCounts = std::unordered_map<std::string, int64_t, WordHash, std::equal_to<>>;

void add(WordCounts& counts, std::string_view word, int64_t times) {
  if (const auto found = counts.find(word); found != counts.end()) {
    found->second += times;
  } else {
    counts.emplace(word, times);
  }
}

WordCounts words_of(std::string_view block, const Normalizer* normalizer, const PreTokenizer& pre_tokenizer,
                    const std::atomic<bool>* stop) {
  WordCounts counts;
  for_each_line_of(block, [&](std::string_view line) {
    throw_if_stopped(stop);
    NormalizedString text(line, 0);
    if (normalizer) normalizer->apply(text);
    const auto size = static_cast<uint32_t>(text.text().size());
    if (size == 0) return;
    Pieces pieces{std::move(text), {{0, size}}};
    pre_tokenizer.apply(pieces);
    const std::string_view all = pieces.text.text();
    for (const Range piece : pieces.ranges) add(counts, all.substr(piece.begin, piece.size()), 1);
  });
  return counts;
}

[[noreturn]] void refuse_empty(const TokenizerTraining& training) {
  throw DataError(concat("tokenizer training: expected text in ", training.inputs.front().string(),
                         training.inputs.size() > 1 ? " and the others" : "", ", found none"));
}

// Calls each(blocks) with as many blocks as there are threads.
template <class Each>
void for_each_round(const TokenizerTraining& training, TokenizerProgress& progress,
                    const TokenizerObserver& observer, const std::atomic<bool>* stop, Each each) {
  LineBlocks reader(training.inputs, training.skip_bad_utf8);
  progress.stage = TokenizerProgress::Stage::reading;
  const auto most = static_cast<size_t>(threads());
  std::vector<std::string> blocks;
  for (bool more = true; more;) {
    blocks.clear();
    while (more && blocks.size() < most) {
      throw_if_stopped(stop);
      std::string block;
      more = reader.next(block);
      if (more) blocks.push_back(std::move(block));
    }
    each(blocks);
    progress.lines = reader.lines();
    progress.skipped_lines = reader.skipped_lines();
    if (observer) observer(progress);
  }
}

}  // namespace

std::vector<CountedWord> count_words(const TokenizerTraining& training, const Normalizer* normalizer,
                                     const PreTokenizer& pre_tokenizer, TokenizerProgress& progress,
                                     const TokenizerObserver& observer, const std::atomic<bool>* stop) {
  WordCounts all;
  for_each_round(training, progress, observer, stop, [&](const std::vector<std::string>& blocks) {
    std::vector<WordCounts> counts(blocks.size());
    parallel_for(std::ssize(blocks), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        counts[i] = words_of(blocks[i], normalizer, pre_tokenizer, stop);
      }
    });
    for (WordCounts& part : counts) {
      if (all.empty()) {
        all = std::move(part);
      } else {
        for (const auto& [word, count] : part) add(all, word, count);
      }
    }
    progress.distinct_words = std::ssize(all);
  });
  if (all.empty()) refuse_empty(training);
  std::vector<CountedWord> words;
  words.reserve(all.size());
  while (!all.empty()) {  // moves the words instead of copying them
    auto node = all.extract(all.begin());
    progress.words += node.mapped();
    words.push_back({std::move(node.key()), node.mapped()});
  }
  std::ranges::sort(words, {}, &CountedWord::word);
  return words;
}

std::vector<char32_t> distinct_characters(const TokenizerTraining& training, TokenizerProgress& progress,
                                          const TokenizerObserver& observer, const std::atomic<bool>* stop) {
  constexpr size_t kCodePoints = 0x110000;
  std::vector<bool> seen(kCodePoints);
  for_each_round(training, progress, observer, stop, [&](const std::vector<std::string>& blocks) {
    for (const std::string_view block : blocks) {
      throw_if_stopped(stop);
      for (size_t at = 0; at < block.size();) seen[next_character(block, at)] = true;
    }
  });
  std::vector<char32_t> characters;
  for (char32_t character = 0; character < kCodePoints; ++character) {
    if (seen[character]) characters.push_back(character);
  }
  if (characters.empty()) refuse_empty(training);
  progress.characters = std::ssize(characters);
  return characters;
}

}  // namespace qkv::text
