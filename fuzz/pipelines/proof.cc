// Reads the proof of a model folder.

#include "qkv/pipelines/proof/proof.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/files.h"

namespace qkv::fuzz {
namespace {

// A GPT-2 with its proof.
std::filesystem::path make_folder() {
  std::filesystem::path folder = scratch_folder("proof");
  for (const auto& entry : std::filesystem::directory_iterator(golden("apps/golden/hub/gpt2"))) {
    if (entry.is_regular_file()) std::filesystem::copy_file(entry.path(), folder / entry.path().filename());
  }
  pipelines::write_proof(folder);
  return folder;
}

const std::filesystem::path& folder() {
  static const std::filesystem::path made = make_folder();
  return made;
}

void read(std::string_view bytes) {
  write(folder() / pipelines::kProofFile, bytes);
  pipelines::check_proof(folder());
}

std::vector<std::string> seeds() {
  static const std::string written = read_file(folder() / pipelines::kProofFile);
  return {written};
}

}  // namespace

const Reader proof{"proof", read, seeds};

}  // namespace qkv::fuzz
