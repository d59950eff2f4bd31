#pragma once
// Model folders as Hugging Face lays them out: config.json, model.safetensors (or its shards),
// generation_config.json. Their tokenizers are text's business.
//
// A folder with int8 weights is qkv's own, as others would take its numbers for the weights: its model_type
// is the family's with "qkv-" in front, and its tensors have the names and the layout that parameters have
// here.

#include <filesystem>
#include <memory>
#include <string_view>

#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"

namespace qkv::models {

enum class FolderKind { translation, language, encoder, image };

// What a folder's config.json says it holds. Throws IoError, and DataError for a model_type that nothing here
// opens.
FolderKind folder_kind(const std::filesystem::path& folder);

// Decoders: "gpt2", "llama". Which tokens end a text is taken from generation_config.json where that says so.
// Throws IoError for what cannot be opened; DataError, naming the file and the field or tensor, what was
// expected and what was found, for an unknown model_type, a field of config.json that asks for something
// that is not here, a tensor that is missing or of another shape or dtype, a shard that is missing. Numbers
// that need no conversion stay in the mapped file. So for the others below.
std::unique_ptr<LanguageModel> load_language_model(const std::filesystem::path& folder,
                                                   const LoadOptions& options = {});

// Encoders, with the heads of the class that config.json names: "bert", "roberta", "distilbert"; the encoder
// of "t5", also out of the folder of an encoder-decoder.
std::unique_ptr<TextEncoder> load_text_encoder(const std::filesystem::path& folder,
                                               const LoadOptions& options = {});

// Encoders of images: "vit", "deit".
std::unique_ptr<ImageEncoder> load_image_encoder(const std::filesystem::path& folder,
                                                 const LoadOptions& options = {});

// Encoder-decoders: "t5", "marian", and "qkv", which has our own words for what those cannot say. With its
// tokenizer: qkv/models/translation_model.h.
std::unique_ptr<Transformer> load_transformer(const std::filesystem::path& folder,
                                              const LoadOptions& options = {});

// Writes config.json and model.safetensors in the words of a family ("gpt2"), each atomically, the weights
// last and in the form that they have. Throws UsageError for a family that is unknown or cannot say what the
// model is, IoError.
void save_language_model(const std::filesystem::path& folder, const LanguageModel& model,
                         std::string_view model_type);
void save_text_encoder(const std::filesystem::path& folder, const TextEncoder& model,
                       std::string_view model_type);
void save_image_encoder(const std::filesystem::path& folder, const ImageEncoder& model,
                        std::string_view model_type);

// Likewise in the words of the first family that has them, and generation_config.json.
void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults);

// The dtype of a model's weight matrices and tables.
DType weight_dtype(const LanguageModel& model);
DType weight_dtype(const TextEncoder& model);
DType weight_dtype(const ImageEncoder& model);
DType weight_dtype(const Transformer& model);

// The family that a folder's config.json names, without what it says of int8: "bert" for "qkv-bert".
std::string family_of(const std::filesystem::path& folder);

}  // namespace qkv::models
