#pragma once
// A model folder, opened with everything that its pipelines need. Handles are shared and const: any number of
// pipelines, engines and threads may use one; it is freed with the last owner.

#include <filesystem>
#include <memory>
#include <variant>

#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/image_encoder.h"
#include "qkv/models/image_processor.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/translation_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv::models {
struct DualEncoder;  // dual_encoder.h
struct SpeechModel;  // speech_model.h
}  // namespace qkv::models

namespace qkv::pipelines {

class OutputGrammars;
class PromptImages;  // images/prompt_images.h
std::shared_ptr<OutputGrammars> new_output_grammars();

// Loaded folders, by kind. Encoder-decoders are models::TranslationModel and models::SpeechModel.
struct LoadedLanguageModel {
  std::filesystem::path folder;
  std::shared_ptr<const models::LanguageModel> model;
  text::Tokenizer tokenizer;
  models::GenerationDefaults generation;                             // from generation_config.json
  std::shared_ptr<OutputGrammars> grammars = new_output_grammars();  // of completions, output_grammars.h
  std::shared_ptr<const PromptImages> images = {};                   // null: the model reads none
  std::string no_images = {};                                        // why it reads none
};

struct LoadedTextEncoder {
  std::filesystem::path folder;  // with modules.json, if any: the model's, or its adapter's
  std::shared_ptr<const models::TextEncoder> model;
  text::Tokenizer tokenizer;
};

struct LoadedImageEncoder {
  std::filesystem::path folder;
  std::shared_ptr<const models::ImageEncoder> model;
  models::ImageProcessorConfig preprocessing;  // from preprocessor_config.json
};

// Two encoders whose vectors are in one space. Each is a handle of its own for the pipelines of its kind.
struct LoadedDualEncoder {
  std::filesystem::path folder;
  std::shared_ptr<const models::DualEncoder> model;
  std::shared_ptr<const LoadedTextEncoder> text;
  std::shared_ptr<const LoadedImageEncoder> image;
};

using OpenedModel =
    std::variant<std::shared_ptr<const models::TranslationModel>, std::shared_ptr<const LoadedLanguageModel>,
                 std::shared_ptr<const LoadedTextEncoder>, std::shared_ptr<const LoadedImageEncoder>,
                 std::shared_ptr<const LoadedDualEncoder>, std::shared_ptr<const models::SpeechModel>>;

// The handle, for constructors. Throws UsageError for a null one, and for one without a model.
std::shared_ptr<const models::TranslationModel> required(
    std::shared_ptr<const models::TranslationModel> model);
std::shared_ptr<const LoadedLanguageModel> required(std::shared_ptr<const LoadedLanguageModel> model);
std::shared_ptr<const LoadedTextEncoder> required(std::shared_ptr<const LoadedTextEncoder> model);
std::shared_ptr<const LoadedImageEncoder> required(std::shared_ptr<const LoadedImageEncoder> model);
std::shared_ptr<const LoadedDualEncoder> required(std::shared_ptr<const LoadedDualEncoder> model);
std::shared_ptr<const models::SpeechModel> required(std::shared_ptr<const models::SpeechModel> model);

// Opens a folder as the kind that its config.json specifies. Throws the errors of models::load_*()
// (qkv/models/hub/pretrained.h), text::Tokenizer::load() and models::load_image_processor(), and DataError
// for a tokenizer with more tokens than the model has embeddings.
OpenedModel open_model(const std::filesystem::path& folder, const models::LoadOptions& options = {});

// These open a folder of one kind. For a folder of another kind they throw DataError naming its kind and the
// pipelines and commands that take it.
std::shared_ptr<const models::TranslationModel> open_translation_model(
    const std::filesystem::path& folder, const models::LoadOptions& options = {});
std::shared_ptr<const LoadedLanguageModel> open_language_model(const std::filesystem::path& folder,
                                                               const models::LoadOptions& options = {});
// Also opens the encoder of an encoder-decoder, for families whose encoders can be used alone (T5), the stack
// of a language model, and the encoder of texts of two encoders; the next one opens that of images.
std::shared_ptr<const LoadedTextEncoder> open_text_encoder(const std::filesystem::path& folder,
                                                           const models::LoadOptions& options = {});
std::shared_ptr<const LoadedImageEncoder> open_image_encoder(const std::filesystem::path& folder,
                                                             const models::LoadOptions& options = {});
std::shared_ptr<const LoadedDualEncoder> open_dual_encoder(const std::filesystem::path& folder,
                                                           const models::LoadOptions& options = {});
std::shared_ptr<const models::SpeechModel> open_speech_model(const std::filesystem::path& folder,
                                                             const models::LoadOptions& options = {});

}  // namespace qkv::pipelines
