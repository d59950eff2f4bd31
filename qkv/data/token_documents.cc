#include "qkv/data/token_documents.h"

#include <algorithm>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/base/stop.h"

namespace qkv::data {
namespace {

// A part of a document that is encoded by itself.
struct Part {
  std::string_view text;
  bool last = false;  // of its document
};

// Cuts a long document after line ends that a character other than white space follows. Byte-level tokenizers
// never join what such a line end separates.
void cut(std::string_view text, std::vector<Part>& parts) {
  constexpr size_t kPartBytes = size_t{1} << 18;
  while (text.size() > kPartBytes) {
    size_t end = text.find('\n', kPartBytes);
    while (end != text.npos && end + 1 < text.size() && (text[end + 1] == '\n' || text[end + 1] == ' '))
      end = text.find('\n', end + 1);
    if (end == text.npos || end + 1 == text.size()) break;
    parts.push_back({text.substr(0, end + 1), false});
    text.remove_prefix(end + 1);
  }
  parts.push_back({text, true});
}

// Calls visit(first, labels) for each document with something to predict: the index of its first token, and
// the number of labels.
template <class Visit>
void for_each_predicted(const TokenDocuments& documents, Visit visit) {
  for (int64_t d = 0; d < documents.documents(); ++d) {
    const int64_t first = documents.begins[static_cast<size_t>(d)];
    const int64_t labels = documents.begins[static_cast<size_t>(d) + 1] - first - 1;
    if (labels > 0) visit(first, labels);
  }
}

void check(const TokenDocuments& documents, int64_t length) {
  if (length < 1) throw UsageError(concat("length of a window: expected 1 or more tokens, found ", length));
  if (documents.labels() == 0) {
    throw DataError(concat("text: expected two or more tokens in a document, found ", documents.tokens(),
                           " in ", documents.documents(), " documents"));
  }
}

}  // namespace

int64_t TokenDocuments::labels() const {
  int64_t sum = 0;
  for_each_predicted(*this, [&](int64_t, int64_t labels) { sum += labels; });
  return sum;
}

TokenDocuments tokenize_documents(const Documents& documents, const text::Tokenizer& tokenizer,
                                  const DocumentTokens& special, const std::atomic<bool>* stop) {
  constexpr size_t kParts = 4096;  // encoded in parallel, before their ids are appended
  TokenDocuments result;
  result.bytes = documents.bytes();
  std::vector<Part> parts;
  std::vector<std::vector<int32_t>> ids;
  bool begins = true;  // whether the next part begins a document
  const auto flush = [&] {
    throw_if_stopped(stop);
    ids.assign(parts.size(), {});
    parallel_for(std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        ids[i] = tokenizer.encode(parts[i].text, {.special_tokens = false, .truncation = {}}).ids;
    });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (begins && special.start) result.ids.push_back(*special.start);
      if (special.unknown) result.unknown += std::ranges::count(ids[i], *special.unknown);
      result.ids.insert(result.ids.end(), ids[i].begin(), ids[i].end());
      begins = parts[i].last;
      if (!begins) continue;
      if (special.end) result.ids.push_back(*special.end);
      result.begins.push_back(std::ssize(result.ids));
    }
    parts.clear();
  };
  for (const std::string& text : documents.texts) {
    cut(text, parts);
    if (parts.size() >= kParts) flush();
  }
  flush();
  return result;
}

uint64_t fingerprint(const TokenDocuments& documents, const text::Tokenizer& tokenizer) {
  Hash64 hash;
  hash.add(documents.ids.data(), documents.ids.size() * sizeof(int32_t));
  hash.add(documents.begins.data(), documents.begins.size() * sizeof(int64_t));
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view token = tokenizer.token(static_cast<int32_t>(id)).value_or("");
    hash.add(uint64_t{token.size()});
    hash.add(token);
  }
  return hash.value();
}

std::vector<TokenWindow> training_windows(const TokenDocuments& documents, int64_t length, uint64_t seed,
                                          int64_t epoch) {
  constexpr uint64_t kCutStream = 0xDA7A'0003'0000'0000ull;  // beside those of shuffle.h; the epoch is added
  check(documents, length);
  RandomStream random(seed, kCutStream + static_cast<uint64_t>(epoch));
  std::vector<TokenWindow> windows;
  for_each_predicted(documents, [&](int64_t first, int64_t labels) {
    int64_t tokens = labels;
    if (labels > length) tokens = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(length)));
    for (int64_t done = 0; done < labels; tokens = std::min(length, labels - done)) {
      windows.push_back({.begin = first + done, .tokens = static_cast<int32_t>(tokens)});
      done += tokens;
    }
  });
  return windows;
}

std::vector<TokenWindow> evaluation_windows(const TokenDocuments& documents, int64_t length, int64_t stride) {
  check(documents, length);
  if (stride < 1 || stride > length) {
    throw UsageError(concat("stride: expected 1 to ", length, " tokens, the context, found ", stride));
  }
  std::vector<TokenWindow> windows;
  for_each_predicted(documents, [&](int64_t first, int64_t labels) {
    int64_t done = std::min(length, labels);
    windows.push_back({.begin = first, .tokens = static_cast<int32_t>(done)});
    while (done < labels) {
      const int64_t end = std::min(done + stride, labels);
      windows.push_back({.begin = first + end - length,
                         .tokens = static_cast<int32_t>(length),
                         .context = static_cast<int32_t>(length - (end - done))});
      done = end;
    }
  });
  return windows;
}

WindowRows window_rows(const TokenDocuments& documents, std::span<const TokenWindow> windows) {
  WindowRows rows;
  for (const TokenWindow& window : windows) {
    const auto ids = std::span(documents.ids).subspan(static_cast<size_t>(window.begin));
    const auto tokens = static_cast<size_t>(window.tokens);
    rows.inputs.append(ids.first(tokens));
    rows.inputs.end_sequence();
    const auto labels = ids.subspan(1, tokens);
    rows.labels.insert(rows.labels.end(), labels.begin(), labels.end());
  }
  return rows;
}

WindowCursor::WindowCursor(const TokenDocuments& documents, int64_t length, int64_t budget, uint64_t seed,
                           CursorState from)
    : documents_(documents), length_(length), budget_(budget), seed_(seed) {
  plan(from);
}

void WindowCursor::plan(CursorState from) {
  windows_ = training_windows(documents_, length_, seed_, from.epoch);
  std::vector<int64_t> costs;
  costs.reserve(windows_.size());
  for (const TokenWindow& window : windows_) costs.push_back(window.tokens);
  cursor_.emplace(std::move(costs), BatchOptions{.budget = budget_, .seed = seed_}, from);
}

std::vector<TokenWindow> WindowCursor::next() {
  const Batch batch = cursor_->next();
  std::vector<TokenWindow> windows;
  windows.reserve(batch.items.size());
  for (const int64_t item : batch.items) windows.push_back(windows_[static_cast<size_t>(item)]);
  if (cursor_->state().epoch != batch.epoch) plan(cursor_->state());
  return windows;
}

}  // namespace qkv::data
