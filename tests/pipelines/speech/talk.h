#pragma once
// The small folders of Whisper, and the sound that their tests read.

#include <cmath>
#include <filesystem>
#include <vector>

#include "qkv/data/audio/audio.h"
#include "qkv/pipelines/speech/transcribe.h"

namespace qkv::pipelines {

inline const std::filesystem::path kAppData = std::filesystem::path(QKV_TEST_DATA) / "apps/golden";
// Ids of the hub folder whisper-tiny; windows have 200 frames, 2 seconds, and outputs 40 positions.
inline constexpr int32_t kEos = 309, kStart = 310, kGerman = 312, kTranslate = 315, kTranscribe = 316,
                         kPrevious = 318, kNoSpeech = 319, kNoTimestamps = 320, kZero = 321;
inline constexpr int32_t kDog = 265, kHouse = 270, kBlue = 285;

inline const Transcriber& tiny() {
  static const Transcriber transcriber(kAppData / "hub/whisper-tiny");
  return transcriber;
}
inline const Transcriber& tiny_english() {
  static const Transcriber transcriber(kAppData / "hub/whisper-tiny.en");
  return transcriber;
}
inline const data::Audio& talk() {
  static const data::Audio audio = data::read_audio(kAppData / "audio/talk.flac");
  return audio;
}

inline data::Audio part_of_talk(double begin, double seconds) {
  const auto at = [](double time) { return std::llround(time * 16000); };
  const auto first = talk().samples.begin() + at(begin);
  return {.rate = 16000, .samples = {first, first + at(seconds)}};
}

inline TranscribeOptions german(const std::vector<double>& temperatures = {0}) {
  TranscribeOptions options = tiny().default_options();
  options.language = "de";
  options.temperatures = temperatures;
  return options;
}

}  // namespace qkv::pipelines
