#pragma once
// A model folder's proof of itself: qkv_proof.json, which says what the folder computed when it was written.

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/hub/pretrained.h"

namespace qkv::pipelines {

using models::kProofFile;  // "qkv_proof.json"

// Opens the folder as anyone would and writes its proof into it: checksums of its files, the fields of its
// configurations, its vocabulary, texts with their ids, and numbers that the model gives. Less than 20 KB. A
// function of the folder, the build and the processor. Throws what open_model() throws, NumericError for a
// model whose numbers are not finite, IoError.
void write_proof(const std::filesystem::path& folder);

struct ProofReport {
  std::vector<std::string> held;    // what was checked and holds, a line each
  std::vector<std::string> parted;  // what does not, naming file, field, tensor, token or output
  bool good() const { return parted.empty(); }
};

// Compares a folder with its proof. By the build and on the processor that wrote the proof, numbers must have
// the same bits; elsewhere they may differ by four times what rounding errors can do, which is measured: see
// docs/reliability.md. A folder that cannot be opened has parted. Throws IoError for a folder without a
// proof, DataError for a damaged proof.
ProofReport check_proof(const std::filesystem::path& folder);

}  // namespace qkv::pipelines
