#include "fuzz/pipelines/run_model.h"

#include <algorithm>

#include "qkv/models/speech_model.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/pipelines/translate.h"

namespace qkv::fuzz {
namespace {

using namespace pipelines;

const std::vector<std::string> kTexts{"the house is small"};

void run(const std::shared_ptr<const models::TranslationModel>& model) {
  const Translator translator(model);
  TranslateOptions options = translator.default_options();
  options.search.max_new_tokens = std::min(options.search.max_new_tokens, 3);
  options.search.min_new_tokens = std::min(options.search.min_new_tokens, 3);
  options.search.beam = std::min(options.search.beam, 4);
  translator(kTexts, options);
}

void run(const std::shared_ptr<const LoadedLanguageModel>& model) {
  const TextGenerator generator(model);
  GenerateOptions options = generator.default_options();
  options.search.max_new_tokens = std::min(options.search.max_new_tokens, 3);
  options.search.min_new_tokens = std::min(options.search.min_new_tokens, 3);
  options.search.beam = std::min(options.search.beam, 4);
  options.max_length = 0;
  generator(std::vector<Prompt>{{.text = kTexts.front()}}, options);
}

void run(const std::shared_ptr<const LoadedTextEncoder>& model) {
  const TextEmbedder embedder(model);
  embedder(kTexts, embedder.default_options());
}

void run(const std::shared_ptr<const LoadedImageEncoder>& model) {
  const models::ImageEncoderConfig& config = model->model->config();
  if (config.height * config.width > 1 << 16) return;  // valid, but slow
  const data::Image image{.height = 3, .width = 5, .pixels = std::vector<uint8_t>(45, 77)};
  const ImageEmbedder embedder(model);
  const ImageRequest request = static_cast<const ImageEncoderPipeline&>(embedder).prepare(image);
  const std::vector<const ImageRequest*> requests{&request};
  embedder.encode(requests, [](size_t, const Tensor&) {});
}

void run(const std::shared_ptr<const models::SpeechModel>& model) {
  if (model->audio.chunk_samples() > 1 << 20) return;  // valid, but slow
  data::Audio audio{.rate = 16000, .samples = std::vector<float>(4000, 0.25f)};
  for (size_t i = 0; i < audio.samples.size(); i += 7) audio.samples[i] = -0.5f;
  const Transcriber transcriber(model);
  TranscribeOptions options = transcriber.default_options();
  options.search.max_new_tokens = std::min(options.search.max_new_tokens, 3);
  options.search.min_new_tokens = std::min(options.search.min_new_tokens, 3);
  options.search.beam = std::min(options.search.beam, 4);
  options.words = true;
  transcriber(std::vector{audio}, options);
}

void run(const std::shared_ptr<const LoadedDualEncoder>& model) {
  run(model->text);
  run(model->image);
}

}  // namespace

void run_model(const OpenedModel& model) {
  std::visit([](const auto& one) { run(one); }, model);
}

}  // namespace qkv::fuzz
