#include "qkv/models/audio_processor.h"

#include "qkv/base/error.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/parts/processor_text.h"

namespace qkv::models {
namespace {

constexpr int64_t kLongestChunk = 3600;

}  // namespace

AudioProcessorConfig read_audio_processor(const std::string& json, const std::string& path) {
  const ConfigReader reader(json, path);
  reader.require_string("feature_extractor_type", "WhisperFeatureExtractor");
  const AudioProcessorConfig defaults;
  AudioProcessorConfig config{.features = {.mel_bins = reader.integer("feature_size", 80),
                                           .rate = reader.integer("sampling_rate", 16000),
                                           .n_fft = reader.integer("n_fft", 400),
                                           .hop = reader.integer("hop_length", 160)},
                              .chunk_seconds = reader.integer("chunk_length", defaults.chunk_seconds)};
  // transformers' filters end at 8 kHz, whatever the rate.
  reader.require_integer("sampling_rate", 16000);
  if (config.chunk_seconds < 1 || config.chunk_seconds > kLongestChunk)
    reader.reject("chunk_length", concat("1 to ", kLongestChunk, " seconds"));
  if (reader.number("padding_value", 0) != 0) reader.reject("padding_value", "0");
  if (reader.number("dither", 0) != 0) reader.reject("dither", "0, as noise makes results random");
  reader.require_string("padding_side", "right");
  // Computed by transformers from other fields (mel_filters by files of 2022), or read from its calls alone
  // (do_normalize), or without effect on features.
  reader.ignore(
      "n_samples nb_max_frames mel_filters do_normalize return_attention_mask processor_class "
      "return_tensors");
  reader.reject_unknown_model_fields();
  try {
    config.features.validate();
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
  return config;
}

AudioProcessorConfig load_audio_processor(const std::filesystem::path& folder, int64_t mel_bins) {
  if (!has_processor(folder)) {
    AudioProcessorConfig config{.features = {.mel_bins = mel_bins}};
    config.features.validate();
    return config;
  }
  const auto [text, path] = processor_text(folder, "feature_extractor");
  const AudioProcessorConfig config = read_audio_processor(text, path);
  if (config.features.mel_bins != mel_bins) {
    throw DataError(concat(path, ": feature_size: expected ", mel_bins, ", the model's num_mel_bins, found ",
                           config.features.mel_bins));
  }
  return config;
}

}  // namespace qkv::models
