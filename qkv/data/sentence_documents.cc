#include "qkv/data/sentence_documents.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/hash.h"
#include "qkv/base/parallel.h"
#include "qkv/base/stop.h"
#include "qkv/base/utf8.h"
#include "qkv/text/lines.h"

namespace qkv::data {
namespace {

[[noreturn]] void refuse_empty(const std::filesystem::path& path, int64_t lines) {
  throw DataError(concat(path.string(), ": expected text, one sentence a line, found ",
                         lines == 0 ? "an empty file" : "no sentences"));
}

// Collects the sentences of documents, tokenized some thousand at a time.
class Collector {
 public:
  Collector(const text::Tokenizer& tokenizer, const SentenceOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  void add(std::string line) {
    lines_.push_back({std::move(line), ends_document_});
    ends_document_ = false;
  }
  void end_document() { ends_document_ = true; }
  bool full() const { return lines_.size() >= 4096; }

  void flush() {
    std::vector<std::vector<int32_t>> ids(lines_.size());
    parallel_for(std::ssize(lines_), 16, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        ids[i] = tokenizer_.encode(lines_[i].text, {.special_tokens = false, .truncation = {}}).ids;
    });
    for (size_t i = 0; i < ids.size(); ++i) {
      if (lines_[i].begins_document) close_document();
      append(std::move(ids[i]));
    }
    lines_.clear();
  }

  SentenceDocuments finish() {
    flush();
    close_document();
    return std::move(result_);
  }

  SentenceDocuments& result() { return result_; }

 private:
  struct Line {
    std::string text;
    bool begins_document = false;
  };

  void append(std::vector<int32_t> ids) {
    if (ids.empty()) {
      ++result_.skipped_empty;
      return;
    }
    if (std::ssize(ids) > options_.max_tokens) {
      ids.resize(static_cast<size_t>(options_.max_tokens));
      ++result_.cut;
    }
    if (options_.unknown) result_.unknown += std::ranges::count(ids, *options_.unknown);
    result_.ids.insert(result_.ids.end(), ids.begin(), ids.end());
    result_.sentence_begins.push_back(result_.tokens());
  }
  void close_document() {
    if (result_.document_begins.back() < result_.sentences())
      result_.document_begins.push_back(result_.sentences());
  }

  const text::Tokenizer& tokenizer_;
  SentenceOptions options_;
  std::vector<Line> lines_;
  bool ends_document_ = false;  // before the next line
  SentenceDocuments result_;
};

}  // namespace

DocumentCounts count_documents(const std::filesystem::path& path) {
  text::LineReader reader(path);
  DocumentCounts counts;
  std::string line;
  int64_t sentences = 0;  // of the current document
  const auto end_document = [&] {
    if (sentences > 0) ++counts.documents;
    counts.sentences += sentences;
    counts.longest = std::max(counts.longest, sentences);
    sentences = 0;
  };
  while (reader.next(line)) {
    if (text::is_blank(line)) {
      end_document();
    } else {
      ++sentences;
    }
  }
  end_document();
  if (counts.sentences == 0) refuse_empty(path, reader.lines());
  return counts;
}

void require_documents_for_pairs(const DocumentCounts& counts, const std::filesystem::path& path) {
  if (counts.documents >= 2 && counts.longest >= 2) return;
  throw DataError(concat(
      path.string(), ": next-sentence prediction needs two or more documents with blank lines between them, ",
      "one of them of two or more sentences; found ",
      counts.documents == 1 ? concat("one document of ", counted(counts.sentences, "sentences"))
                            : concat(counts.documents, " documents of one sentence each"),
      "; --no-nsp (train.no_nsp) trains without it"));
}

DocumentCounts SentenceDocuments::counts() const {
  DocumentCounts result{.documents = documents(), .sentences = sentences()};
  for (size_t d = 0; d + 1 < document_begins.size(); ++d)
    result.longest = std::max(result.longest, document_begins[d + 1] - document_begins[d]);
  return result;
}

std::string SentenceDocuments::summary() const {
  std::string details;
  const auto add = [&](int64_t count, const char* things, const char* what) {
    if (count > 0) details += concat(details.empty() ? " (" : ", ", counted(count, things), what);
  };
  add(cut, "sentences", " cut");
  add(unknown, "unknown tokens", "");
  add(skipped_bad_utf8, "lines", " of invalid UTF-8 skipped");
  add(skipped_empty, "lines", " without a token skipped");
  return concat(counted(documents(), "documents"), ", ", counted(sentences(), "sentences"), ", ",
                counted(tokens(), "tokens"), details, details.empty() ? "" : ")");
}

double SentenceDocuments::unigram_entropy() const {
  if (ids.empty()) return 0;
  std::vector<int64_t> counts(static_cast<size_t>(*std::ranges::max_element(ids)) + 1);
  for (const int32_t id : ids) ++counts[static_cast<size_t>(id)];
  double entropy = 0;
  for (const int64_t count : counts) {
    const double p = static_cast<double>(count) / static_cast<double>(tokens());
    if (count > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

uint64_t SentenceDocuments::fingerprint() const {
  Hash64 hash;
  hash.add(ids.data(), ids.size() * sizeof(int32_t));
  for (const auto* begins : {&sentence_begins, &document_begins})
    hash.add(begins->data(), begins->size() * sizeof(int64_t));
  return hash.value();
}

SentenceDocuments read_sentence_documents(const std::filesystem::path& path, const text::Tokenizer& tokenizer,
                                          const SentenceOptions& options, const std::atomic<bool>* stop) {
  if (options.max_tokens < 1)
    throw UsageError(concat("tokens of a sentence: expected 1 or more, found ", options.max_tokens));
  text::LineReader reader(path);
  Collector collector(tokenizer, options);
  std::string line;
  while (reader.next(line)) {
    if (text::is_blank(line)) {
      collector.end_document();
    } else if (!valid_utf8(line)) {
      if (options.bad_utf8 == OnBadLine::fail) reader.require_utf8(line);
      ++collector.result().skipped_bad_utf8;
    } else {
      collector.add(std::move(line));
      line.clear();
    }
    if (!collector.full()) continue;
    throw_if_stopped(stop);
    collector.flush();
  }
  SentenceDocuments result = collector.finish();
  if (result.sentences() == 0) refuse_empty(path, reader.lines());
  return result;
}

}  // namespace qkv::data
