#include "qkv/data/audio/mono.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"

namespace qkv::data {
namespace {

// Far beyond any file, also one of integers stored as floats, and within the range of later computations.
constexpr float kLoudest = 1e9F;

}  // namespace

MonoSamples::MonoSamples(int64_t rate, int64_t channels, int64_t most_seconds, const std::string& name)
    : channels_(channels), most_seconds_(most_seconds), name_(name), audio_{.rate = rate} {
  if (rate < kMinAudioRate || rate > kMaxAudioRate) {
    throw DataError(concat(name, ": expected a rate from ", kMinAudioRate, " to ", kMaxAudioRate,
                           " samples per second, found ", rate));
  }
  if (channels < 1 || channels > kMaxAudioChannels)
    throw DataError(concat(name, ": expected 1 to ", kMaxAudioChannels, " channels, found ", channels));
}

void MonoSamples::require_few(int64_t frames) const {
  if (frames > most_seconds_ * audio_.rate) {
    throw DataError(concat(name_, ": expected at most ", most_seconds_, " seconds of sound, found ",
                           frames / audio_.rate, frames == size() ? " or more" : ""));
  }
  if (frames > kMaxAudioSamples)
    throw DataError(concat(name_, ": expected at most ", kMaxAudioSamples, " samples, found more"));
}

void MonoSamples::add(std::span<const float> block) {
  const auto channels = static_cast<size_t>(channels_);
  for (size_t i = 0; i + channels <= block.size(); i += channels) {
    double sum = 0;
    for (const float sample : block.subspan(i, channels)) {
      if (!(std::abs(sample) <= kLoudest)) {
        throw DataError(
            concat(name_, ": expected samples from -1 to 1, found ", sample, " as number ", size()));
      }
      sum += sample;
    }
    audio_.samples.push_back(static_cast<float>(sum / static_cast<double>(channels_)));
  }
  require_few(size());
}

Audio MonoSamples::finish() {
  if (audio_.samples.empty()) throw DataError(concat(name_, ": expected sound, found no samples"));
  return std::move(audio_);
}

void refuse_audio(const std::string& name, const char* format, const std::string& what) {
  throw DataError(concat(name, ": expected a complete ", format, " file, found ", what));
}

}  // namespace qkv::data
