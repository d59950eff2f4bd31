#pragma once
// A file with the candidates of beam searches: one JSON object per input line.

#include <filesystem>
#include <fstream>

#include "qkv/pipelines/translate.h"

namespace qkv::apps {

class TraceFile {
 public:
  // Throws IoError if the file cannot be written. The tokenizer must outlive it.
  TraceFile(const std::filesystem::path& path, const text::TranslationTokenizer& tokenizer);
  // {"line": 1, "steps": ...}, as written by pipelines::to_json() for a search::SearchTrace.
  void add(int64_t line, const pipelines::Translation& translation);
  void close();

 private:
  void require_written();

  std::filesystem::path path_;
  const text::TranslationTokenizer& tokenizer_;
  std::ofstream out_;
};

}  // namespace qkv::apps
