#pragma once
// Writes GGUF files: the inverse of GgufModel.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "qkv/io/gguf_writer.h"
#include "qkv/tensor/dtype.h"

namespace qkv::models {

struct GgufExport {
  // Of matrices: f32, f16, bf16 or one of ggml's blocks. As llama.cpp does it (tools/quantize): norms,
  // biases, position tables and token types stay f32; with 4 and 5 bits a number, the output projection (also
  // one that is tied to the table of embeddings) becomes q6_k; and rows that are no multiple of a block have
  // the next type that fits (fitting_encoding).
  DType encoding = DType::f16;
  // The sources of the chat templates by name; "default" is the usual one. Not used for GGUF files, which
  // keep their own.
  std::map<std::string, std::string> chat_templates = {};
  // How sentence-transformers' modules.json makes a vector of a text: "mean", "cls" or "lasttoken", scaled to
  // length 1; empty: the folder has none. Not used for GGUF files.
  std::string pooling = {};
  // Numbers written so far, and in all.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

struct GgufReport {
  int64_t bytes = 0;    // of the file
  int64_t numbers = 0;  // of all tensors
  std::map<DType, int64_t> tensors = {};
  // Matrices whose rows the encoding does not fit: those of this many columns have this encoding instead.
  std::map<int64_t, DType> fallbacks = {};
};

// The encoding of rows of `columns` numbers: the given one, if rows are whole blocks; else for q4_k q5_0, for
// q5_k q5_1, for q6_k q8_0; and f16 for rows that are no multiple of 32 either (llama.cpp, llama-quant.cpp).
DType fitting_encoding(DType encoding, int64_t columns);

// Writes the model in `from`, a folder or a GGUF file, as the GGUF file `to`, atomically. From a GGUF file
// the metadata are kept. Throws UsageError or DataError, naming it, for a family, a field of config.json or a
// part of the tokenizer that has no counterpart in GGUF files, or whose counterpart qkv would read as
// something else; NumericError, naming the tensor, for numbers that the encoding cannot hold; and the errors
// of reading and writing.
GgufReport export_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                       const GgufExport& options);

// The metadata of tokenizer.json, with unused tokens up to `vocabulary`.
void put_gguf_tokenizer(const std::string& json, const std::string& where, int64_t vocabulary,
                        io::GgufMetadata& metadata);

}  // namespace qkv::models
