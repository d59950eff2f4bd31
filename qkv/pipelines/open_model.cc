#include "qkv/pipelines/open_model.h"

#include <string>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/models/dual_encoder.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/images/prompt_images.h"

namespace qkv::pipelines {
namespace {

using models::FolderKind;
using std::filesystem::path;

struct KindText {
  const char* what;
  std::string families;
  const char* used_by;
};

template <class Family>
std::string names_of(std::span<const Family> families, const auto& fits) {
  std::string names;
  for (const Family& family : families) {
    if (fits(family)) names += concat(names.empty() ? "" : ", ", family.model_type);
  }
  return names;
}
template <class Family>
std::string names_of(std::span<const Family> families) {
  return names_of(families, [](const Family&) { return true; });
}

std::string names_of_encoder_decoders(bool of_audio) {
  return names_of(models::translation_families(), [&](const models::TranslationFamily& family) {
    return family.base.config.reads_audio() == of_audio;
  });
}

KindText text_of(FolderKind kind) {
  switch (kind) {
    case FolderKind::language:
      return {"a language model", names_of(models::language_families()), "qkv generate, score or embed"};
    case FolderKind::encoder:
      return {"a text encoder", names_of(models::encoder_families()),
              "qkv fill-mask, classify, tag or embed"};
    case FolderKind::image:
      return {"an image encoder", names_of(models::image_families()), "qkv classify or embed"};
    case FolderKind::image_text:
      return {"an encoder of texts and one of images", "clip, siglip", "qkv classify or embed"};
    case FolderKind::speech:
      return {"an encoder-decoder of audio", names_of_encoder_decoders(true), "qkv transcribe"};
    case FolderKind::translation:
      break;
  }
  return {"an encoder-decoder of texts", names_of_encoder_decoders(false), "qkv translate"};
}

void require_kind(const path& folder, FolderKind wanted, FolderKind found) {
  if (found == wanted) return;
  const KindText expected = text_of(wanted), other = text_of(found);
  throw DataError(concat(models::model_file_name(folder, "config.json"), ": \"model_type\": expected ",
                         expected.what, " (", expected.families, "), found \"", models::family_of(folder),
                         "\", ", other.what, "; open it with ", other.used_by));
}

std::shared_ptr<const models::TranslationModel> load_translation(const path& folder,
                                                                 const models::LoadOptions& options) {
  return std::make_shared<const models::TranslationModel>(models::load_translation_model(folder, options));
}

std::shared_ptr<const models::SpeechModel> load_speech(const path& folder,
                                                       const models::LoadOptions& options) {
  return std::make_shared<const models::SpeechModel>(models::load_speech_model(folder, options));
}

std::shared_ptr<const LoadedLanguageModel> load_language(const path& folder,
                                                         const models::LoadOptions& options) {
  std::shared_ptr<const models::LanguageModel> model = models::load_language_model(folder, options);
  LoadedLanguageModel loaded{folder, std::move(model), models::load_tokenizer(folder),
                             models::load_generation_defaults(folder, models::LengthsInclude::prompt)};
  try {
    loaded.images = load_prompt_images(folder, loaded.model->config(), loaded.tokenizer, options);
    if (!loaded.images) loaded.no_images = concat(folder.string(), ": the model reads no images");
  } catch (const Error& error) {  // the language model reads texts nevertheless
    loaded.no_images = concat("images are not read: ", error.what());
    log_warning(loaded.no_images);
  }
  return std::make_shared<const LoadedLanguageModel>(std::move(loaded));
}

std::shared_ptr<const LoadedTextEncoder> load_encoder(const path& folder,
                                                      const models::LoadOptions& options) {
  std::shared_ptr<const models::TextEncoder> model = models::load_text_encoder(folder, options);
  text::Tokenizer tokenizer = models::load_tokenizer(folder);
  const bool of_adapter =
      !options.adapter.empty() && std::filesystem::exists(options.adapter / "modules.json");
  return std::make_shared<const LoadedTextEncoder>(
      LoadedTextEncoder{of_adapter ? options.adapter : folder, std::move(model), std::move(tokenizer)});
}

std::shared_ptr<const LoadedImageEncoder> load_image(const path& folder, const models::LoadOptions& options) {
  return std::make_shared<const LoadedImageEncoder>(LoadedImageEncoder{
      folder, models::load_image_encoder(folder, options), models::load_image_processor(folder)});
}

std::shared_ptr<const LoadedDualEncoder> load_dual(const path& folder, const models::LoadOptions& options) {
  auto model = std::make_shared<const models::DualEncoder>(models::load_dual_encoder(folder, options));
  LoadedTextEncoder text{folder, model->text, models::load_tokenizer(folder)};
  LoadedImageEncoder image{folder, model->image, models::load_image_processor(folder)};
  return std::make_shared<const LoadedDualEncoder>(
      LoadedDualEncoder{folder, std::move(model), std::make_shared<const LoadedTextEncoder>(std::move(text)),
                        std::make_shared<const LoadedImageEncoder>(std::move(image))});
}

}  // namespace

std::shared_ptr<const models::TranslationModel> required(
    std::shared_ptr<const models::TranslationModel> model) {
  if (!model || !model->transformer || !model->tokenizer)
    throw UsageError("pipeline: expected a translation model and its tokenizer, found none");
  return model;
}

std::shared_ptr<const LoadedLanguageModel> required(std::shared_ptr<const LoadedLanguageModel> model) {
  if (!model || !model->model) throw UsageError("pipeline: expected a language model, found none");
  return model;
}

std::shared_ptr<const LoadedTextEncoder> required(std::shared_ptr<const LoadedTextEncoder> model) {
  if (!model || !model->model) throw UsageError("pipeline: expected a text encoder, found none");
  return model;
}

std::shared_ptr<const LoadedImageEncoder> required(std::shared_ptr<const LoadedImageEncoder> model) {
  if (!model || !model->model) throw UsageError("pipeline: expected an image encoder, found none");
  return model;
}

std::shared_ptr<const LoadedDualEncoder> required(std::shared_ptr<const LoadedDualEncoder> model) {
  if (!model || !model->model || !model->text || !model->image)
    throw UsageError("pipeline: expected an encoder of texts and one of images, found none");
  return model;
}

std::shared_ptr<const models::SpeechModel> required(std::shared_ptr<const models::SpeechModel> model) {
  if (!model || !model->transformer) throw UsageError("pipeline: expected a model of audio, found none");
  return model;
}

OpenedModel open_model(const path& folder, const models::LoadOptions& options) {
  switch (models::folder_kind(folder)) {
    case FolderKind::language:
      return load_language(folder, options);
    case FolderKind::encoder:
      return load_encoder(folder, options);
    case FolderKind::image:
      return load_image(folder, options);
    case FolderKind::image_text:
      return load_dual(folder, options);
    case FolderKind::speech:
      return load_speech(folder, options);
    case FolderKind::translation:
      break;
  }
  return load_translation(folder, options);
}

std::shared_ptr<const models::TranslationModel> open_translation_model(const path& folder,
                                                                       const models::LoadOptions& options) {
  require_kind(folder, FolderKind::translation, models::folder_kind(folder));
  return load_translation(folder, options);
}

std::shared_ptr<const LoadedLanguageModel> open_language_model(const path& folder,
                                                               const models::LoadOptions& options) {
  require_kind(folder, FolderKind::language, models::folder_kind(folder));
  return load_language(folder, options);
}

std::shared_ptr<const LoadedTextEncoder> open_text_encoder(const path& folder,
                                                           const models::LoadOptions& options) {
  FolderKind kind = models::folder_kind(folder);
  const bool encoder_stands_alone =
      kind == FolderKind::image_text ||
      (kind != FolderKind::encoder &&
       models::find_family(models::encoder_families(), models::family_of(folder)) != nullptr);
  if (encoder_stands_alone) kind = FolderKind::encoder;
  require_kind(folder, FolderKind::encoder, kind);
  return load_encoder(folder, options);
}

std::shared_ptr<const LoadedImageEncoder> open_image_encoder(const path& folder,
                                                             const models::LoadOptions& options) {
  const FolderKind kind = models::folder_kind(folder);
  if (kind != FolderKind::image_text) require_kind(folder, FolderKind::image, kind);
  return load_image(folder, options);
}

std::shared_ptr<const LoadedDualEncoder> open_dual_encoder(const path& folder,
                                                           const models::LoadOptions& options) {
  require_kind(folder, FolderKind::image_text, models::folder_kind(folder));
  return load_dual(folder, options);
}

std::shared_ptr<const models::SpeechModel> open_speech_model(const path& folder,
                                                             const models::LoadOptions& options) {
  require_kind(folder, FolderKind::speech, models::folder_kind(folder));
  return load_speech(folder, options);
}

}  // namespace qkv::pipelines
