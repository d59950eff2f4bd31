#pragma once
// Decoding, encoding and resampling of sound.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::data {

// One channel.
struct Audio {
  int64_t rate = 0;                 // samples per second
  std::vector<float> samples = {};  // -1 to 1; files of floats, and lossy ones, may exceed it

  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(rate); }
  friend bool operator==(const Audio&, const Audio&) = default;
};

// More is refused: rates in samples per second, channels, seconds, and samples (12 hours at 48 kHz).
inline constexpr int64_t kMinAudioRate = 1000, kMaxAudioRate = 384000, kMaxAudioChannels = 32;
inline constexpr int64_t kMaxAudioSeconds = 24 * 3600, kMaxAudioSamples = int64_t{1} << 31;

// Decodes a WAV, FLAC, MP3, Ogg (Vorbis, Opus) or AIFF file in memory; `name` is for messages. Channels
// are averaged, the rate is the file's. Integers of b bits are divided by 2^(b - 1). Throws DataError for
// another format, no samples, more than `most_seconds` of them or one of the limits above, samples that are
// not finite, and damage: samples that the header promises are missing, checksums (of FLAC and Ogg) differ,
// packets cannot be decoded. An MP3 or Ogg file cut between two packets may be taken, as may files whose
// header leaves the length open. Memory is bounded by the samples that are there, not by the header's number.
Audio decode_audio(std::string_view bytes, const std::string& name, int64_t most_seconds = kMaxAudioSeconds);

// Larger files are refused before they are read.
inline constexpr int64_t kMaxAudioFileBytes = int64_t{1} << 31;

// The bytes of a sound file. Throws IoError, and DataError for a file of more bytes.
std::string read_audio_file(const std::filesystem::path& path);

// Likewise for a file. Also throws IoError.
Audio read_audio(const std::filesystem::path& path);

// The same sound at another rate, with libsamplerate's band-limited interpolation (Smith and Gossett 1984).
// Its length is samples * rate / audio.rate to the nearest, ties up; beyond its ends the sound counts as 0.
// The same rate: unchanged. The bits do not depend on threads. Throws UsageError for a rate outside
// kMinAudioRate to kMaxAudioRate, also the audio's own, for a sample that is not finite, and for a result of
// more than kMaxAudioSamples.
Audio resample(const Audio& audio, int64_t rate);

// The bytes of a WAV file of 16-bit integers; samples are rounded, and clipped at -1 and 1 - 2^-15. Throws
// UsageError as resample() does, and for no samples.
std::string encode_wav(const Audio& audio);

}  // namespace qkv::data
