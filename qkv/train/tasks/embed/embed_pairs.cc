#include "qkv/train/tasks/embed/embed_pairs.h"

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/data/sentence_pairs.h"

namespace qkv::train {
namespace {

// Pairs that are tokenized together.
constexpr size_t kChunk = 4096;

void append(const std::filesystem::path& path, const std::vector<data::SentencePair>& texts,
            const text::Tokenizer& tokenizer, const text::EncodeOptions& options, EmbedPairs& pairs) {
  std::vector<text::Encoding> first(texts.size()), second(texts.size());
  parallel_for(std::ssize(texts), 16, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      first[i] = tokenizer.encode(texts[i].first, options);
      second[i] = tokenizer.encode(texts[i].second, options);
    }
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const auto& [encoding, rows] : {std::pair(&first[i], &pairs.first), {&second[i], &pairs.second}}) {
      if (encoding->ids.empty()) {
        throw DataError(concat(path.string(), ":", pairs.pairs() + 1,
                               ": expected sentences with tokens of the tokenizer, found one without"));
      }
      rows->append(encoding->ids);
      rows->end_sequence();
    }
    if (texts[i].score) pairs.scores.push_back(static_cast<float>(*texts[i].score));
  }
}

std::span<const int32_t> sequence(const data::TokenRows& rows, int64_t i) {
  const auto begin = static_cast<size_t>(rows.offsets[static_cast<size_t>(i)]);
  const auto end = static_cast<size_t>(rows.offsets[static_cast<size_t>(i) + 1]);
  return std::span(rows.ids).subspan(begin, end - begin);
}

// Sentences are compared by their ids.
uint64_t key_of(std::span<const int32_t> ids) {
  Hash64 hash;
  hash.add(ids.data(), ids.size() * sizeof(int32_t));
  return hash.value();
}

}  // namespace

std::span<const int32_t> EmbedPairs::sentence(int64_t i) const {
  return i < pairs() ? sequence(first, i) : sequence(second, i - pairs());
}

uint64_t EmbedPairs::fingerprint() const {
  Hash64 hash;
  for (const data::TokenRows* rows : {&first, &second}) {
    hash.add(rows->ids.data(), rows->ids.size() * sizeof(int32_t));
    hash.add(rows->offsets.data(), rows->offsets.size() * sizeof(int32_t));
  }
  hash.add(scores.data(), scores.size() * sizeof(float));
  return hash.value();
}

EmbedPairs EmbedPairs::read(const std::filesystem::path& path, const text::Tokenizer& tokenizer,
                            int64_t max_length, const std::atomic<bool>* stop) {
  const text::EncodeOptions options{.truncation = text::Truncation{.max_length = max_length}};
  EmbedPairs pairs;
  data::SentencePairReader reader(path);
  std::vector<data::SentencePair> texts;
  for (data::SentencePair pair; reader.next(pair);) {
    texts.push_back(pair);
    if (texts.size() < kChunk) continue;
    throw_if_stopped(stop);
    append(path, texts, tokenizer, options, pairs);
    texts.clear();
  }
  append(path, texts, tokenizer, options, pairs);
  if (pairs.pairs() == 0)
    throw DataError(concat(path.string(), ": expected pairs of sentences, found an empty file"));
  return pairs;
}

std::unique_ptr<EmbedBatch> make_batch(const EmbedPairs& pairs, std::span<const int64_t> items) {
  auto batch = std::make_unique<EmbedBatch>();
  const auto append = [&](int64_t sentence, std::vector<uint64_t>& keys) {
    const std::span<const int32_t> ids = pairs.sentence(sentence);
    batch->rows.append(ids);
    batch->rows.end_sequence();
    keys.push_back(key_of(ids));
  };
  for (const int64_t pair : items) append(pair, batch->first_keys);
  for (const int64_t pair : items) append(pairs.pairs() + pair, batch->second_keys);
  if (pairs.scored()) {
    for (const int64_t pair : items) batch->scores.push_back(pairs.scores[static_cast<size_t>(pair)]);
  }
  batch->size = {.items = std::ssize(items), .units = batch->rows.tokens(), .labels = std::ssize(items)};
  return batch;
}

}  // namespace qkv::train
