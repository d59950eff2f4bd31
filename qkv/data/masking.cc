#include "qkv/data/masking.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/data/shuffle.h"

namespace qkv::data {
namespace {

constexpr uint64_t kMaskStream = 0xDA7A'0011'0000'0000ull;  // beside those of shuffle.h; the epoch is added

int32_t require_token(const text::Tokenizer& tokenizer, std::optional<int32_t> named,
                      std::string_view spelling, const std::string& name) {
  if (!named) named = tokenizer.id_of(spelling);
  if (named) return *named;
  throw DataError(concat(name, ": expected a tokenizer with ", spelling, ", as BERT's, found none"));
}

// Consecutive positions that are selected together.
struct Word {
  int32_t begin = 0, end = 0;
};

std::vector<Word> words_of(std::span<const int32_t> ids, const MaskingVocabulary& vocabulary,
                           bool whole_words) {
  std::vector<Word> words;
  for (int32_t at = 0; at < std::ssize(ids); ++at) {
    const auto id = static_cast<size_t>(ids[static_cast<size_t>(at)]);
    if (vocabulary.is_ordinary[id] == 0) continue;
    const bool joins =
        whole_words && vocabulary.continues_word[id] != 0 && !words.empty() && words.back().end == at;
    if (joins) {
      words.back().end = at + 1;
    } else {
      words.push_back({at, at + 1});
    }
  }
  // Special tokens spelled in the text, and characters outside the vocabulary: something must be predicted.
  if (words.empty()) words.push_back({1, 2});
  return words;
}

void require_share(const char* field, float value) {
  if (!(value >= 0 && value <= 1)) throw UsageError(concat(field, ": expected 0 to 1, found ", value));
}

}  // namespace

void MaskingOptions::validate() const {
  if (!(rate > 0 && rate < 1))
    throw UsageError(concat("train.mask_rate: expected above 0 and below 1, found ", rate));
  require_share("train.mask_share", mask_share);
  require_share("train.random_share", random_share);
  if (mask_share + random_share > 1) {
    throw UsageError(concat("train.random_share: expected at most 1 with train.mask_share = ", mask_share,
                            ", found ", random_share));
  }
}

MaskingVocabulary MaskingVocabulary::of(const text::Tokenizer& tokenizer, const std::string& name) {
  const text::SpecialTokens& special = tokenizer.special_tokens();
  MaskingVocabulary result{.cls = require_token(tokenizer, special.cls, "[CLS]", name),
                           .sep = require_token(tokenizer, special.sep, "[SEP]", name),
                           .mask = require_token(tokenizer, special.mask, "[MASK]", name),
                           .ordinary = {},
                           .is_ordinary = {},
                           .continues_word = {}};
  const auto size = static_cast<size_t>(tokenizer.size());
  result.is_ordinary.assign(size, 0);
  result.continues_word.assign(size, 0);
  const auto named = [](std::optional<int32_t> token, int32_t id) { return token && *token == id; };
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::optional<std::string_view> token = tokenizer.token(id);
    const bool is_special = tokenizer.is_special(id) || id == result.cls || id == result.sep ||
                            id == result.mask || named(special.pad, id) || named(special.unk, id);
    if (!token || is_special) continue;
    result.ordinary.push_back(id);
    result.is_ordinary[static_cast<size_t>(id)] = 1;
    result.continues_word[static_cast<size_t>(id)] = token->starts_with("##") ? 1 : 0;
  }
  if (result.ordinary.empty())
    throw DataError(concat(name, ": expected a tokenizer with words, found special tokens alone"));
  return result;
}

std::vector<int32_t> mask_tokens(std::span<int32_t> ids, const MaskingVocabulary& vocabulary,
                                 const MaskingOptions& options, RandomStream& random) {
  std::vector<Word> words = words_of(ids, vocabulary, options.whole_words);
  int64_t candidates = 0;
  for (const Word& word : words) candidates += word.end - word.begin;
  const int64_t wanted =
      std::max<int64_t>(1, std::llround(static_cast<double>(options.rate) * static_cast<double>(candidates)));
  shuffle(words, random);
  std::vector<int32_t> selected;
  const auto select = [&](const Word& word) {
    for (int32_t at = word.begin; at < word.end; ++at) selected.push_back(at);
  };
  for (const Word& word : words) {
    if (std::ssize(selected) >= wanted) break;
    if (std::ssize(selected) + word.end - word.begin <= wanted) select(word);
  }
  if (selected.empty()) select(words.front());  // all words are longer
  std::ranges::sort(selected);
  for (const int32_t at : selected) {
    const float chance = random.uniform();
    int32_t& id = ids[static_cast<size_t>(at)];
    if (chance < options.mask_share) {
      id = vocabulary.mask;
    } else if (chance < options.mask_share + options.random_share) {
      id = vocabulary.ordinary[random.below(vocabulary.ordinary.size())];
    }
  }
  return selected;
}

MaskedRows make_rows(const SentenceDocuments& documents, const SegmentBatch& batch,
                     const MaskingVocabulary& vocabulary, const MaskingOptions& masking, uint64_t seed) {
  // A seed for the epoch; its streams are the items.
  RandomStream seeds(seed, kMaskStream + static_cast<uint64_t>(batch.epoch));
  const uint64_t high = seeds.next(), epoch_seed = (high << 32) | seeds.next();
  MaskedRows rows;
  const auto put = [&](int64_t begin, int32_t tokens, int32_t type) {
    rows.inputs.append(
        std::span(documents.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(tokens)));
    rows.inputs.ids.push_back(vocabulary.sep);
    rows.types.resize(rows.inputs.ids.size(), type);
  };
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const Segments& one = batch.segments[i];
    const size_t begin = rows.inputs.ids.size();
    rows.inputs.ids.push_back(vocabulary.cls);
    put(one.first, one.first_tokens, 0);
    if (batch.pairs) {
      put(one.second, one.second_tokens, 1);
      rows.not_next.push_back(one.follows ? 0 : 1);
    }
    const std::vector<int32_t> original(rows.inputs.ids.begin() + static_cast<int64_t>(begin),
                                        rows.inputs.ids.end());
    RandomStream random(epoch_seed, static_cast<uint64_t>(batch.items[i]));
    for (const int32_t at :
         mask_tokens(std::span(rows.inputs.ids).subspan(begin), vocabulary, masking, random)) {
      rows.masked.push_back(static_cast<int32_t>(begin) + at);
      rows.labels.push_back(original[static_cast<size_t>(at)]);
    }
    if (batch.positions > 0) {
      const int64_t room = batch.positions - std::ssize(original);
      if (room < 0) {
        throw UsageError(concat("positions: expected at least the input's ", original.size(),
                                " tokens, found ", batch.positions));
      }
      auto position = static_cast<int32_t>(random.below(static_cast<uint64_t>(room) + 1));
      for (size_t t = 0; t < original.size(); ++t) rows.positions.push_back(position++);
    }
    rows.inputs.end_sequence();
  }
  return rows;
}

}  // namespace qkv::data
