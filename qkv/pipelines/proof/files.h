#pragma once
// The parts of a proof that concern files: checksums, configuration fields and tokens.

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// Whether a folder has the files that turn text, or images, into what its model reads.
bool has_inputs(const std::filesystem::path& folder);

// A file of a model folder at export.
struct FileProof {
  std::string name;  // relative to the folder
  std::string
      checksum;  // CRC-32C of its bytes; for weights of the header, which contains the tensors' checksums
  std::vector<std::pair<std::string, std::string>> fields;  // of a JSON object: excerpts of its values
};

// Files that determine a folder's results: configurations, tokenizer, weights.
std::vector<FileProof> prove_files(const std::filesystem::path& folder);
// Differences, one per line: "config.json: d_model: expected 64, found 65".
std::vector<std::string> compare_files(const std::filesystem::path& folder,
                                       const std::vector<FileProof>& expected);

// A vocabulary as checksums of the rows and columns of a square table of its entries: a differing entry is
// where a row and a column differ. Its size is proportional to the square root of the number of entries.
struct VocabularyProof {
  std::string name;
  int64_t size = 0;
  std::string rows, columns;  // eight hexadecimal digits each
};

std::vector<VocabularyProof> prove_vocabularies(const OpenedModel& model);
std::vector<std::string> compare_vocabularies(const OpenedModel& model,
                                              const std::vector<VocabularyProof>& expected);

}  // namespace qkv::pipelines
