#pragma once
// Preprocessing of sound, as described by the preprocessor_config.json of a Whisper folder.

#include <cstdint>
#include <filesystem>
#include <string>

#include "qkv/data/audio/log_mel.h"

namespace qkv::models {

struct AudioProcessorConfig {
  data::LogMelOptions features = {};
  int64_t chunk_seconds = 30;  // what the encoder reads at once: shorter sound is followed by zeros

  int64_t chunk_samples() const { return chunk_seconds * features.rate; }
  friend bool operator==(const AudioProcessorConfig&, const AudioProcessorConfig&) = default;
};

// Reads the fields of WhisperFeatureExtractor. Throws DataError naming the file and the field that is unknown
// or unsupported.
AudioProcessorConfig read_audio_processor(const std::string& json, const std::string& path);

// Reads the folder's preprocessor_config.json, or the feature_extractor of its processor_config.json (since
// transformers 5). Without either: Whisper's defaults. `mel_bins` is the model's (num_mel_bins), from which a
// file's feature_size may not differ. Also throws IoError, and UsageError for absurd numbers of bins.
AudioProcessorConfig load_audio_processor(const std::filesystem::path& folder, int64_t mel_bins);

}  // namespace qkv::models
