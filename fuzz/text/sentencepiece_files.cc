// Reads the configuration files of a SentencePiece model: the model's name and the files, separated by zero
// bytes.

#include <algorithm>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/text/tokenizer.h"

namespace qkv::fuzz {
namespace {

constexpr std::initializer_list<const char*> kModels{"spiece.model", "tokenizer.model",
                                                     "sentencepiece.bpe.model"};
constexpr std::initializer_list<const char*> kNames{"tokenizer_config.json", "special_tokens_map.json",
                                                    "config.json"};

// A folder for each model name.
std::filesystem::path folder_of(const std::string& model) {
  std::filesystem::path folder = scratch_folder("sentencepiece_files-" + model);
  if (!std::filesystem::exists(folder / model))
    std::filesystem::copy_file(golden("text/golden/sentencepiece_bpe.model"), folder / model);
  return folder;
}

void read(std::string_view bytes) {
  const std::string model(bytes.substr(0, bytes.find('\0')));
  if (std::ranges::find(kModels, std::string_view(model)) == kModels.end()) return;
  const std::filesystem::path folder = folder_of(model);
  write_files(folder, kNames, bytes.substr(std::min(model.size() + 1, bytes.size())));
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  tokenizer.decode(tokenizer.encode("Hello <extra_id_0>  wörld, 中文 12345\n", "second text").ids);
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {"spiece.model\0{\"extra_ids\": 3}\0{\"eos_token\": \"</s>\"}\0{\"model_type\": \"t5\"}"s,
          "tokenizer.model\0"
          R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "add_eos_token": true,
 "added_tokens_decoder": {"2": {"content": "</s>", "special": true},
                          "900": {"content": "<extra>", "special": true, "lstrip": true}}})"
          "\0"
          R"({"unk_token": {"content": "<unk>", "normalized": false}})"s,
          "sentencepiece.bpe.model\0"
          R"({"tokenizer_class": "XLMRobertaTokenizer", "mask_token": {"content": "<mask>", "lstrip": true}})"
          "\0\0"
          R"({"model_type": "xlm-roberta"})"s};
}

}  // namespace

const Reader sentencepiece_files{"sentencepiece_files", read, seeds};

}  // namespace qkv::fuzz
