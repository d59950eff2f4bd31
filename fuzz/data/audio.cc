// Decodes, resamples and encodes a sound file, and computes its features.

#include <algorithm>
#include <span>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/data/audio/audio.h"
#include "qkv/data/audio/containers.h"
#include "qkv/data/audio/log_mel.h"

namespace qkv::fuzz {
namespace {

void read_sound(std::string_view bytes) {
  data::Audio audio = data::decode_audio(bytes, "fuzz", /*most_seconds=*/600);
  if (audio.samples.size() > 1 << 13) audio.samples.resize(1 << 13);  // more is valid, but slow
  const data::Audio speech = data::resample(audio, bytes.size() % 2 == 0 ? 16000 : 2000);
  data::encode_wav(speech);
  static const data::LogMel log_mel({.mel_bins = 5, .n_fft = 40, .hop = 16});
  log_mel(std::span(speech.samples).first(std::min<size_t>(speech.samples.size(), 2000)));
}

// With checksums that fit, so that decoders see what was changed.
std::string with_checksums(std::string ogg) {
  for (size_t at = 0; at + 27 <= ogg.size();) {
    const size_t length = std::min(data::ogg_page_length(std::string_view(ogg).substr(at)), ogg.size() - at);
    const uint32_t sum = data::ogg_checksum(std::string_view(ogg).substr(at, length));
    for (size_t i = 0; i < 4; ++i) ogg[at + 22 + i] = static_cast<char>(sum >> (8 * i));
    at += length;
  }
  return ogg;
}

void read(std::string_view bytes) {
  if (!bytes.starts_with("OggS")) return read_sound(bytes);
  const std::string ogg = with_checksums(std::string(bytes));
  read_in_each_way({[&] { read_sound(bytes); }, [&] { read_sound(ogg); }});
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char* ending : {".wav", ".aiff", ".flac", ".ogg", ".mp3"}) {
    for (std::string& file : golden_files({"data/golden/audio"}, ending)) all.push_back(std::move(file));
  }
  return all;
}

}  // namespace

const Reader audio{"audio", read, seeds};

}  // namespace qkv::fuzz
