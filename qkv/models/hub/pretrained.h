#pragma once
// Model folders in Hugging Face's layout: config.json, model.safetensors (or shards), generation_config.json.
// A language model may also be a GGUF file (qkv/models/gguf).
//
// A folder with int8 weights is in a format of qkv's own, which other programs would misread: its model_type
// is the family's with the prefix "qkv-", and its tensors have the names and layouts of qkv's parameters.

#include <filesystem>
#include <memory>
#include <string_view>

#include "qkv/models/dual_encoder.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"
#include "qkv/text/tokenizer.h"

namespace qkv::models {

// The proof beside a model (pipelines/proof/proof.h). It belongs to one folder and is not copied.
inline constexpr const char* kProofFile = "qkv_proof.json";

// image_text: an encoder of texts and one of images, each of which opens alone, too. speech: an
// encoder-decoder that reads audio.
enum class FolderKind { translation, language, encoder, image, image_text, speech };

// The kind of model that a folder contains, from its config.json; a language model beside
// sentence-transformers' modules.json, or with attention in both directions, is an encoder. Throws IoError,
// and DataError for an unknown model_type.
FolderKind folder_kind(const std::filesystem::path& folder);

// Decoders: "gpt2", "llama". generation_config.json, if present, determines the end tokens. Throws IoError
// for a file that cannot be opened; DataError, naming the file and the field or tensor, what was expected and
// what was found, for an unknown model_type, an unsupported field of config.json, a tensor that is missing or
// of another shape or dtype, and a missing shard. Values that need no conversion stay in the mapped file. The
// functions below behave likewise.
std::unique_ptr<LanguageModel> load_language_model(const std::filesystem::path& folder,
                                                   const LoadOptions& options = {});

// The tokenizer of a model folder (text::Tokenizer::load) or of a GGUF file.
text::Tokenizer load_tokenizer(const std::filesystem::path& path);

// Encoders, with the heads of the class named in config.json: "bert", "roberta", "distilbert"; the encoder of
// "t5", also from an encoder-decoder's folder; and the stack of any decoder.
std::unique_ptr<TextEncoder> load_text_encoder(const std::filesystem::path& folder,
                                               const LoadOptions& options = {});

// Image encoders: "vit", "deit".
std::unique_ptr<ImageEncoder> load_image_encoder(const std::filesystem::path& folder,
                                                 const LoadOptions& options = {});

// Encoder-decoders: "t5", "marian", "bart" and its kin, "whisper", "qkv": the format for what those cannot
// express. With tokenizer: qkv/models/translation_model.h, speech_model.h.
std::unique_ptr<Transformer> load_transformer(const std::filesystem::path& folder,
                                              const LoadOptions& options = {});

// Writes config.json and model.safetensors in a family's format ("gpt2"), each atomically, the weights last
// and in their current dtypes. Throws UsageError for an unknown family or one that cannot express the model,
// IoError.
// `original`: the folder that the model is from; fields of its config.json that the family does not write are
// kept (label2id, pad_token_id).
void save_language_model(const std::filesystem::path& folder, const LanguageModel& model,
                         std::string_view model_type, const std::filesystem::path& original = {});
void save_text_encoder(const std::filesystem::path& folder, const TextEncoder& model,
                       std::string_view model_type, const std::filesystem::path& original = {});
void save_image_encoder(const std::filesystem::path& folder, const ImageEncoder& model,
                        std::string_view model_type, const std::filesystem::path& original = {});

// Likewise in the format of the original's family, or without one of the first family that fits; also writes
// generation_config.json, unless there is an `original`, whose decoding options the caller copies with its
// other files.
void save_transformer(const std::filesystem::path& folder, const Transformer& model,
                      const GenerationDefaults& defaults, const std::filesystem::path& original = {});

// The dtype of a model's weight matrices and tables.
DType weight_dtype(const LanguageModel& model);
DType weight_dtype(const TextEncoder& model);
DType weight_dtype(const ImageEncoder& model);
DType weight_dtype(const DualEncoder& model);
DType weight_dtype(const Transformer& model);

// The family named in a folder's config.json, without the int8 prefix: "bert" for "qkv-bert".
std::string family_of(const std::filesystem::path& folder);

}  // namespace qkv::models
