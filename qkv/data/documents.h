#pragma once
// Texts as documents, for language models.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/base/field_text.h"
#include "qkv/data/corpus.h"

namespace qkv::data {

// What ends a document of a text file.
enum class DocumentBounds {
  blank_lines,  // lines of white space only, which belong to no document
  lines,        // the end of the line; blank lines are no documents
  none,         // nothing: the file is one document, its line ends included
};

// Their names: "blank-lines", "lines", "none".
Words<DocumentBounds> words(DocumentBounds bounds);

struct Documents {
  std::vector<std::string> texts;  // in the order of the file; lines are joined by "\n"
  int64_t skipped_bad_utf8 = 0;    // lines

  int64_t bytes() const;
};

// Reads a text file, which gzip may compress. A line that is not UTF-8 is skipped and counted, or an error.
// Throws IoError; DataError for a text of white space only and, naming file and line, for invalid UTF-8;
// Stopped soon after *stop becomes true.
Documents read_documents(const std::filesystem::path& path, DocumentBounds bounds,
                         OnBadLine bad_utf8 = OnBadLine::fail, const std::atomic<bool>* stop = nullptr);

// Removes the last documents, those beyond 1 - share of the bytes, and returns them. A single document is cut
// after 1 - share of its characters. share: above 0, below 1. Both parts have at least one document and one
// character; throws DataError if that is impossible.
Documents split_off(Documents& documents, double share);

}  // namespace qkv::data
