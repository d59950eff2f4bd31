#pragma once
// What decoders of sound have in common: limits, and the mean of the channels.

#include <cstdint>
#include <span>
#include <string>

#include "qkv/data/audio/audio.h"

namespace qkv::data {

// Collects the blocks that a decoder returns. All functions throw DataError naming the file.
class MonoSamples {
 public:
  // Throws for absurd rates and numbers of channels. `name` must outlive the object.
  MonoSamples(int64_t rate, int64_t channels, int64_t most_seconds, const std::string& name);

  // Throws if a file of this many frames (samples of each channel) would be too long.
  void require_few(int64_t frames) const;
  // Takes [frames, channels] samples. Throws for too many, and for a sample that is not finite.
  void add(std::span<const float> block);
  int64_t size() const { return std::ssize(audio_.samples); }
  // Throws for no samples.
  Audio finish();

 private:
  int64_t channels_, most_seconds_;
  const std::string& name_;
  Audio audio_;
};

// Throws DataError about a damaged file: "NAME: expected a complete <format> file, found <what>".
[[noreturn]] void refuse_audio(const std::string& name, const char* format, const std::string& what);

}  // namespace qkv::data
