#pragma once
// The parts of a proof that are about files: which bytes and fields they had, and which tokens.

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/pipelines/open_model.h"

namespace qkv::pipelines {

// A file of a model folder as it was at export.
struct FileProof {
  std::string name;  // relative to the folder
  std::string
      checksum;  // CRC-32C of its bytes; of weights, of their header, which has the tensors' checksums
  std::vector<std::pair<std::string, std::string>> fields;  // of a JSON object: excerpts of its values
};

// The files that decide what a folder computes: configurations, tokenizer, weights.
std::vector<FileProof> prove_files(const std::filesystem::path& folder);
// What is no longer so, a line each: "config.json: d_model: expected 64, found 65".
std::vector<std::string> compare_files(const std::filesystem::path& folder,
                                       const std::vector<FileProof>& expected);

// A vocabulary as checksums of the rows and columns of a table that its entries fill, row by row: one entry
// that differs is where a row and a column do, and takes the square root of the space.
struct VocabularyProof {
  std::string name;
  int64_t size = 0;
  std::string rows, columns;  // eight hexadecimal digits each
};

std::vector<VocabularyProof> prove_vocabularies(const OpenedModel& model);
std::vector<std::string> compare_vocabularies(const OpenedModel& model,
                                              const std::vector<VocabularyProof>& expected);

}  // namespace qkv::pipelines
