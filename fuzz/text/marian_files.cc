// Reads Marian's vocab.json and tokenizer_config.json, separated by a zero byte, with its SentencePiece
// models.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/text/translation_tokenizer.h"

namespace qkv::fuzz {
namespace {

constexpr std::initializer_list<const char*> kNames{"vocab.json", "tokenizer_config.json"};
constexpr const char* kFolder = "pipelines/golden/marian";

std::filesystem::path make_folder() {
  const std::filesystem::path folder = scratch_folder("marian_files");
  for (const char* model : {"source.spm", "target.spm"})
    std::filesystem::copy_file(golden(kFolder) / model, folder / model);
  return folder;
}

void read(std::string_view bytes) {
  static const std::filesystem::path folder = make_folder();
  write_files(folder, kNames, bytes);
  const text::TranslationTokenizer tokenizer = text::TranslationTokenizer::load(folder);
  std::vector<int32_t> ids = tokenizer.encode_source(">>fra<< Hello  wörld");
  tokenizer.decode(ids);
  ids.push_back(tokenizer.eos_id());
  for (const int32_t id : ids) tokenizer.piece(id);
}

std::vector<std::string> seeds() { return {joined_files(golden(kFolder), kNames)}; }

}  // namespace

const Reader marian_files{"marian_files", read, seeds};

}  // namespace qkv::fuzz
