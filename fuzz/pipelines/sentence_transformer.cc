// Reads sentence-transformers files, separated by zero bytes, with a BERT model, and embeds a text.

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/pipelines/embed.h"

namespace qkv::fuzz {
namespace {

constexpr std::initializer_list<const char*> kNames{
    "modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "tokenizer_config.json"};

struct Encoder {
  std::filesystem::path folder;
  pipelines::TextEmbedder embedder;
};

Encoder make_encoder() {
  std::filesystem::path folder = scratch_folder("sentence_transformer");
  std::filesystem::create_directories(folder / "1_Pooling");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
    std::filesystem::copy_file(golden("models/golden/bert_base") / file, folder / file);
  pipelines::TextEmbedder embedder(folder);
  return {std::move(folder), std::move(embedder)};
}

void read(std::string_view bytes) {
  static const Encoder encoder = make_encoder();
  write_files(encoder.folder, kNames, bytes);
  const pipelines::TextEmbedOptions options = encoder.embedder.default_options();
  const std::vector<std::string> texts{"the man sleeps"};
  encoder.embedder(texts, options);
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  return {
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])"
      "\0"
      R"({"word_embedding_dimension": 8, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})"
      "\0"
      R"({"max_seq_length": 12, "do_lower_case": false})"
      "\0"
      R"({"prompts": {"query": "the "}, "default_prompt_name": "query"})"
      "\0"
      R"({"model_max_length": 16})"s};
}

}  // namespace

const Reader sentence_transformer{"sentence_transformer", read, seeds};

}  // namespace qkv::fuzz
