// Reads a GGUF file: every value and tensor, what it has in place of a folder's files, the tokenizer and the
// model, which then runs. An input with a second "GGUF" is a file in two parts. Errors must name the file.

#include "qkv/models/gguf/gguf_model.h"

#include <algorithm>
#include <stdexcept>

#include "fuzz/input.h"
#include "fuzz/pipelines/run_model.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/philox.h"
#include "qkv/io/gguf_writer.h"

namespace qkv::fuzz {
namespace {

namespace fs = std::filesystem;

// One use of the file. An error is one of its content, unless its message does not name the file or blames
// the caller: the command would end with another status.
void use(const fs::path& folder, const std::function<void()>& way) {
  try {
    way();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find((folder / "model").string()) == message.npos)
      throw std::logic_error(concat("expected a message that names the file, found: ", message));
    if (dynamic_cast<const UsageError*>(&error) != nullptr)
      throw std::logic_error(concat("expected an error of data, found one of usage: ", message));
    throw;
  }
}

void read_header(const fs::path& path) {
  const io::GgufFile file(path);
  for (const std::string& key : file.keys()) {
    file.shown(key);
    file.json(key);
    read_in_each_way({[&] { file.integers(key); }, [&] { file.numbers(key); }, [&] { file.texts(key); },
                      [&] { file.number(key); }, [&] { file.text(key); }, [&] { file.boolean(key); }});
  }
}

void read_parts(const fs::path& folder, const fs::path& path) {
  const models::GgufModel model(path);
  model.summary();
  const auto each = [&](const auto& part) {
    try {
      use(folder, part);
    } catch (const Error&) {
      // The others may be good.
    }
  };
  for (const std::string& name : model.names()) each([&] { model.as_stored(name, model.shape(name)); });
  for (const char* name : {"config.json", "tokenizer_config.json", "generation_config.json", "modules.json"})
    each([&] { model.text_file(name); });
  each([&] { model.tokenizer().encode("the <|im_start|> n\xC3\xA4"); });
}

void read(std::string_view bytes) {
  static const fs::path folder = scratch_folder("gguf");
  fs::path path = folder / "model.gguf";
  const size_t second = bytes.find("GGUF", 1);
  if (second != bytes.npos) {
    path = folder / "model-00001-of-00002.gguf";
    write(folder / "model-00002-of-00002.gguf", bytes.substr(second));
  }
  write(path, bytes.substr(0, second));
  const auto way = [&](const auto& read_it) { return [&] { use(folder, read_it); }; };
  read_in_each_way({way([&] { read_header(path); }), way([&] { read_parts(folder, path); }),
                    way([&] { run_model(pipelines::open_model(path)); })});
}

// A file with these metadata, and tensors with the bytes that `data` has for them.
std::string written(const io::GgufMetadata& metadata, const std::vector<io::GgufWriter::Tensor>& tensors,
                    const std::function<std::string(const io::GgufWriter::Tensor&)>& data) {
  const fs::path path = scratch_folder("gguf") / "seed.gguf";
  io::GgufWriter writer(path, metadata, tensors);
  for (const io::GgufWriter::Tensor& tensor : tensors) {
    const std::string bytes = data(tensor);
    writer.write(bytes.data(), bytes.size());
  }
  writer.commit();
  return read_file(path);
}

// A model without a tokenizer, and that of another file.
std::string completed(const io::GgufFile& model, const io::GgufFile& chat) {
  io::GgufMetadata metadata;
  for (const std::string& key : model.keys()) metadata.stored(key, model.stored(key));
  for (const std::string& key : chat.keys()) {
    if (key.starts_with("tokenizer.")) metadata.stored(key, chat.stored(key));
  }
  std::vector<io::GgufWriter::Tensor> tensors;
  for (const std::string& name : model.names())
    tensors.push_back({.name = name, .shape = model.entry(name).shape, .dtype = *model.entry(name).dtype});
  return written(metadata, tensors, [&](const io::GgufWriter::Tensor& tensor) {
    const std::span<const std::byte> bytes = model.entry(tensor.name).bytes;
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

// A LLaMA whose matrices have one encoding each.
std::string encodings(const io::GgufFile& chat, int64_t tokens) {
  io::GgufMetadata metadata;
  for (const std::string& key : chat.keys()) metadata.stored(key, chat.stored(key));
  constexpr int64_t kWidth = 256, kHead = 32;
  const std::pair<const char*, int64_t> sizes[] = {{"block_count", 1},
                                                   {"embedding_length", kWidth},
                                                   {"feed_forward_length", kHead},
                                                   {"attention.head_count", 1},
                                                   {"attention.head_count_kv", 1},
                                                   {"attention.key_length", kHead},
                                                   {"attention.value_length", kHead},
                                                   {"rope.dimension_count", kHead}};
  for (const auto& [name, size] : sizes) metadata.integer(concat("llama.", name), size);
  metadata.integer("llama.vocab_size", tokens);
  const std::vector<io::GgufWriter::Tensor> tensors{
      {"token_embd.weight", {tokens, kWidth}, DType::q4_k},
      {"output.weight", {tokens, kWidth}, DType::q8_0},
      {"output_norm.weight", {kWidth}, DType::f32},
      {"blk.0.attn_norm.weight", {kWidth}, DType::f32},
      {"blk.0.ffn_norm.weight", {kWidth}, DType::f32},
      {"blk.0.attn_q.weight", {kHead, kWidth}, DType::q6_k},
      {"blk.0.attn_k.weight", {kHead, kWidth}, DType::q5_k},
      {"blk.0.attn_v.weight", {kHead, kWidth}, DType::q5_0},
      {"blk.0.attn_output.weight", {kWidth, kHead}, DType::q4_0},
      {"blk.0.ffn_gate.weight", {kHead, kWidth}, DType::q4_1},
      {"blk.0.ffn_up.weight", {kHead, kWidth}, DType::q5_1},
      {"blk.0.ffn_down.weight", {kWidth, kHead}, DType::iq4_nl}};
  RandomStream random(/*seed=*/2);
  return written(metadata, tensors, [&](const io::GgufWriter::Tensor& tensor) {
    std::string bytes(bytes_of(tensor.dtype, tensor.shape.numel()), '\0');
    // Below 32: no scale of any encoding is infinite, and no data has "GGUF".
    for (char& byte : bytes) byte = static_cast<char>(random.below(32));
    return bytes;
  });
}

std::vector<std::string> seeds() {
  const fs::path golden_folder = golden("models/golden_gguf");
  const io::GgufFile chat(golden_folder / "chat.gguf");
  std::vector<std::string> all{encodings(chat, std::ssize(chat.texts("tokenizer.ggml.tokens"))),
                               read_file(golden("io/golden/types.gguf"))};
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(golden_folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    if (!name.ends_with(".gguf") || name.ends_with("-00002-of-00002.gguf")) continue;
    const io::GgufFile file(path);
    if (name.ends_with("-00001-of-00002.gguf")) {
      all.push_back(completed(file, chat) + read_file(golden_folder / "qwen2-00002-of-00002.gguf"));
    } else {
      all.push_back(file.has("tokenizer.ggml.tokens") ? read_file(path) : completed(file, chat));
    }
  }
  return all;
}

}  // namespace

const Reader gguf{"gguf", read, seeds};

}  // namespace qkv::fuzz
