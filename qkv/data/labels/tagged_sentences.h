#pragma once
// Files of sentences whose words have tags.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qkv::data {

struct TaggedFormat {
  // Columns, from 1; separated by tabs in a line that has one, else by spaces.
  int64_t word_column = 1;
  int64_t tag_column = 0;  // 0: the last
};

struct TaggedSentence {
  std::vector<std::string> words, tags;  // of equal numbers
  std::vector<int64_t> lines;            // of each word in the file, from 1
};

struct TaggedSentences {
  std::filesystem::path file;
  std::vector<TaggedSentence> items;

  int64_t words() const;
  // "train.conll:3"
  std::string where(const TaggedSentence& sentence, size_t word) const;
};

// Reads a file, which gzip may compress, in one of two formats.
//  - CoNLL: a word in each line, a blank line after each sentence. Comments (a line that begins with # and
//    has no tab, or "# " before a sentence's first word), multiword tokens and empty nodes of CoNLL-U (a
//    first column such as 3-4 or 3.1, if the word is in another column) and -DOCSTART- lines are skipped.
//  - JSON lines, if the first line begins with {: {"words": [...], "tags": [...]}, or "tokens" for "words".
// Throws IoError; UsageError for a column out of range; DataError naming file and line for a line with too
// few columns, an empty word or tag, invalid JSON or UTF-8, and for a file without sentences.
TaggedSentences read_tagged_sentences(const std::filesystem::path& file, const TaggedFormat& format);

}  // namespace qkv::data
