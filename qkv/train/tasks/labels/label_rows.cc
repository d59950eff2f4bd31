#include "qkv/train/tasks/labels/label_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"

namespace qkv::train {
namespace {

using LabelIds = std::map<std::string, int32_t, std::less<>>;

LabelIds ids_of(const std::vector<std::string>& labels) {
  LabelIds ids;
  for (const std::string& label : labels) ids.emplace(label, static_cast<int32_t>(ids.size()));
  return ids;
}

std::string listed(const std::vector<std::string>& labels) {
  constexpr size_t kShown = 20;
  std::string list;
  for (size_t i = 0; i < std::min(labels.size(), kShown); ++i) list += (i == 0 ? "" : ", ") + labels[i];
  if (labels.size() > kShown) list += concat(" and ", labels.size() - kShown, " more");
  return list;
}

[[noreturn]] void refuse_label(const std::string& where, const std::string& label,
                               const std::vector<std::string>& labels) {
  throw DataError(
      concat(where, ": expected one of the model's labels (", listed(labels), "), found '", label, "'"));
}

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> in_order(const std::set<std::string>& found, const std::filesystem::path& file) {
  if (found.size() < 2) {
    throw DataError(concat(file.string(), ": expected at least 2 different labels, found ",
                           found.empty() ? std::string("none") : "only '" + *found.begin() + "'"));
  }
  std::vector<std::string> labels(found.begin(), found.end());
  const auto number = [](const std::string& label) { return parsed<int64_t>(label); };
  if (std::ranges::all_of(labels, [&](const std::string& label) { return number(label).has_value(); })) {
    std::ranges::stable_sort(labels, std::less(), [&](const std::string& label) { return *number(label); });
  }
  return labels;
}

// Calls body(i) for all items on all threads.
void for_each_item(int64_t count, const std::atomic<bool>* stop, const std::function<void(size_t)>& body) {
  parallel_for(count, 32, [&](int64_t begin, int64_t end) {
    throw_if_stopped(stop);
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

LabelRow row_of(text::Encoding encoding) {
  return {.ids = std::move(encoding.ids), .types = std::move(encoding.type_ids), .labels = {}, .value = 0};
}

// The label of each token, of the word that it begins; `reached` receives whether each word has a token.
std::vector<int32_t> token_labels(const text::Encoding& encoding, const std::vector<size_t>& ends,
                                  const std::vector<int32_t>& labels, std::vector<bool>& reached) {
  std::vector<int32_t> result(encoding.size(), kNoLabel);
  reached.assign(ends.size(), false);
  size_t word = 0;
  for (size_t t = 0; t < encoding.size(); ++t) {
    const auto [begin, end] = encoding.offsets[t];
    if (encoding.special_mask[t] != 0 || begin == end) continue;
    while (word < ends.size() && ends[word] <= begin) ++word;
    // A token may begin with the space before its word, which belongs to no word.
    const size_t first = word == 0 ? 0 : ends[word - 1] + 1;
    if (word == ends.size() || end <= first || reached[word]) continue;
    reached[word] = true;
    result[t] = labels[word];
  }
  return result;
}

}  // namespace

std::vector<int64_t> LabelRows::costs() const {
  std::vector<int64_t> costs;
  for (const LabelRow& row : items) costs.push_back(std::ssize(row.ids));
  return costs;
}

int64_t LabelRows::labels() const {
  int64_t count = 0;
  for (const LabelRow& row : items)
    count += row.labels.empty() ? 1 : std::ssize(row.labels) - std::ranges::count(row.labels, kNoLabel);
  return count;
}

uint64_t LabelRows::fingerprint() const {
  Hash64 hash;
  const auto add = [&](const std::vector<int32_t>& numbers) {
    hash.add(uint64_t{numbers.size()});
    hash.add(numbers.data(), numbers.size() * sizeof(int32_t));
  };
  for (const LabelRow& row : items) {
    add(row.ids);
    add(row.types);
    add(row.labels);
    hash.add(&row.value, sizeof(row.value));
  }
  return hash.value();
}

std::vector<std::string> label_set(const data::LabelledTexts& texts) {
  std::set<std::string> found;
  for (const data::LabelledText& item : texts.items) found.insert(item.label);
  return in_order(found, texts.file);
}

std::vector<std::string> label_set(const data::TaggedSentences& sentences) {
  std::set<std::string> found;
  for (const data::TaggedSentence& item : sentences.items) found.insert(item.tags.begin(), item.tags.end());
  return in_order(found, sentences.file);
}

void require_labels(const data::LabelledTexts& texts, const std::vector<std::string>& labels) {
  const LabelIds ids = ids_of(labels);
  for (const data::LabelledText& item : texts.items) {
    if (!ids.contains(item.label)) refuse_label(texts.where(item), item.label, labels);
  }
}

void require_labels(const data::TaggedSentences& sentences, const std::vector<std::string>& labels) {
  const LabelIds ids = ids_of(labels);
  for (const data::TaggedSentence& item : sentences.items) {
    for (size_t w = 0; w < item.tags.size(); ++w) {
      if (!ids.contains(item.tags[w])) refuse_label(sentences.where(item, w), item.tags[w], labels);
    }
  }
}

float number_of(const data::LabelledTexts& texts, const data::LabelledText& item) {
  const std::optional<float> number = parsed<float>(item.label);
  if (!number || !std::isfinite(*number)) {
    throw DataError(concat(texts.where(item), ": expected a number as label, found '", item.label, "'"));
  }
  return *number;
}

void require_numbers(const data::LabelledTexts& texts) {
  for (const data::LabelledText& item : texts.items) number_of(texts, item);
}

LabelRows encode_texts(const data::LabelledTexts& texts, const text::Tokenizer& tokenizer,
                       const std::vector<std::string>& labels, int64_t max_length,
                       const std::atomic<bool>* stop) {
  labels.empty() ? require_numbers(texts) : require_labels(texts, labels);
  const LabelIds ids = ids_of(labels);
  LabelRows rows;
  rows.items.resize(texts.items.size());
  std::vector<uint8_t> cut(texts.items.size());
  for_each_item(std::ssize(texts.items), stop, [&](size_t i) {
    const data::LabelledText& item = texts.items[i];
    const auto encoded = [&](const text::EncodeOptions& options) {
      return texts.pairs ? tokenizer.encode(item.first, item.second, options)
                         : tokenizer.encode(item.first, options);
    };
    text::Encoding encoding = encoded({});
    if (std::ssize(encoding.ids) > max_length) {
      cut[i] = 1;
      encoding = encoded({.truncation = text::Truncation{.max_length = max_length}});
    }
    if (encoding.ids.empty()) {
      throw DataError(concat(texts.where(item), ": expected a text with tokens, found none"));
    }
    rows.items[i] = row_of(std::move(encoding));
    if (labels.empty()) {
      rows.items[i].value = number_of(texts, item);
    } else {
      rows.items[i].labels = {ids.find(item.label)->second};
    }
  });
  rows.cut = std::ranges::count(cut, 1);
  return rows;
}

LabelRows encode_sentences(const data::TaggedSentences& sentences, const text::Tokenizer& tokenizer,
                           const std::vector<std::string>& labels, int64_t max_length,
                           const std::atomic<bool>* stop) {
  require_labels(sentences, labels);
  const LabelIds ids = ids_of(labels);
  std::vector<LabelRow> all(sentences.items.size());
  std::vector<std::vector<bool>> reached(sentences.items.size());
  std::vector<uint8_t> cut(sentences.items.size());
  for_each_item(std::ssize(sentences.items), stop, [&](size_t i) {
    const data::TaggedSentence& sentence = sentences.items[i];
    std::string text;
    std::vector<size_t> ends;
    std::vector<int32_t> word_labels;
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      text += (w == 0 ? "" : " ") + sentence.words[w];
      ends.push_back(text.size());
      word_labels.push_back(ids.find(sentence.tags[w])->second);
    }
    text::Encoding encoding = tokenizer.encode(text);
    if (std::ssize(encoding.ids) > max_length) {
      cut[i] = 1;
      encoding = tokenizer.encode(text, {.truncation = text::Truncation{.max_length = max_length}});
    }
    std::vector<int32_t> own = token_labels(encoding, ends, word_labels, reached[i]);
    all[i] = row_of(std::move(encoding));
    all[i].labels = std::move(own);
  });
  LabelRows rows;
  rows.cut = std::ranges::count(cut, 1);
  rows.unreached.resize(labels.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::string>& tags = sentences.items[i].tags;
    for (size_t w = 0; w < tags.size(); ++w) {
      if (!reached[i][w]) ++rows.unreached[static_cast<size_t>(ids.find(tags[w])->second)];
    }
    const bool labelled = std::ranges::any_of(all[i].labels, [](int32_t label) { return label != kNoLabel; });
    if (labelled) rows.items.push_back(std::move(all[i]));
  }
  if (rows.items.empty()) {
    throw DataError(concat(sentences.file.string(), ": expected words with tokens, found none"));
  }
  return rows;
}

}  // namespace qkv::train
