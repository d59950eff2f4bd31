#pragma once
// A model folder's proof: qkv_proof.json records the folder's files and results at export.

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/models/hub/pretrained.h"

namespace qkv::pipelines {

using models::kProofFile;  // "qkv_proof.json"

// Opens the folder with open_model() and writes its proof into it: checksums of the files, configuration
// fields, the vocabulary, texts with their ids, and model outputs. Less than 20 KB. Deterministic for a
// folder, build and processor. Throws the errors of open_model(), NumericError for a model whose outputs are
// not finite, IoError.
// False, with nothing written: the folder has no tokenizer (of images: no preprocessor_config.json), so that
// there is nothing to open it with.
bool write_proof(const std::filesystem::path& folder);

struct ProofReport {
  std::vector<std::string> held;    // parts that agree, one per line
  std::vector<std::string> parted;  // differences, each with its file, field, tensor, token or output
  bool good() const { return parted.empty(); }
};

// Compares a folder with its proof. Outputs must have the same bits with the build and processor that wrote
// the proof; elsewhere they may differ by four times the measured effect of rounding: see
// docs/reliability.md; so they may on another device. A folder that cannot be opened is a difference. Throws
// IoError for a folder without a proof, DataError for a damaged proof, UsageError for a device that cannot be
// used.
ProofReport check_proof(const std::filesystem::path& folder, Device device = Device::cpu);

}  // namespace qkv::pipelines
