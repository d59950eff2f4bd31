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

void run(const std::shared_ptr<const LoadedDualEncoder>& model) {
  run(model->text);
  run(model->image);
}

void run(const std::shared_ptr<const models::SpeechModel>& model) {
  const models::TransformerConfig& config = model->config;
  if (config.source_positions * config.d_model > 1 << 18) return;  // valid, but slow
  const Transcriber transcriber(model);
  TranscribeOptions options = transcriber.default_options();
  options.search.max_new_tokens = std::min(options.search.max_new_tokens, 3);
  options.search.min_new_tokens = std::min(options.search.min_new_tokens, 3);
  options.search.beam = std::min(options.search.beam, 4);
  options.temperatures = {0};
  options.words = true;
  data::Audio audio{.rate = 16000, .samples = std::vector<float>(1600)};
  for (size_t i = 0; i < audio.samples.size(); ++i) audio.samples[i] = static_cast<float>(i * 37 % 101) / 101;
  transcriber(std::span(&audio, 1), options);
}

}  // namespace

void run_model(const OpenedModel& model) {
  std::visit([](const auto& one) { run(one); }, model);
}

}  // namespace qkv::fuzz
