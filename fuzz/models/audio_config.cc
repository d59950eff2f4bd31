// Reads the preprocessing of a Whisper folder and applies it to a sound.

#include <vector>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/models/audio_processor.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  const models::AudioProcessorConfig config =
      models::read_audio_processor(std::string(bytes), "preprocessor_config.json");
  const data::LogMel log_mel(config.features);
  log_mel(std::vector<float>(2500, 0.25F));
}

std::vector<std::string> seeds() { return golden_files({"models/golden/audio"}, ".json"); }

}  // namespace

const Reader audio_config{"audio_config", read, seeds};

}  // namespace qkv::fuzz
