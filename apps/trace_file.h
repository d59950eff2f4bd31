#pragma once
// The candidates of beam searches as a file: a JSON object for each line of input.

#include <filesystem>
#include <fstream>

#include "qkv/pipelines/translate.h"

namespace qkv::apps {

class TraceFile {
 public:
  // Throws IoError where the file cannot be written. The tokenizer must outlive it.
  TraceFile(const std::filesystem::path& path, const text::TranslationTokenizer& tokenizer);
  // {"line": 1, "steps": ...}, as pipelines::to_json() writes a search::SearchTrace.
  void add(int64_t line, const pipelines::Translation& translation);
  void close();

 private:
  void require_written();

  std::filesystem::path path_;
  const text::TranslationTokenizer& tokenizer_;
  std::ofstream out_;
};

}  // namespace qkv::apps
