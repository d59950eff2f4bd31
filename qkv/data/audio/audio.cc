#include "qkv/data/audio/audio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/data/audio/containers.h"
#include "qkv/data/audio/limits.h"
#include "qkv/data/audio/mp3.h"
#include "qkv/data/audio/sound_file.h"

namespace qkv::data {
namespace {

unsigned byte_at(std::string_view bytes, size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

bool is_form(std::string_view bytes, std::string_view kind, std::string_view form) {
  return bytes.starts_with(kind) && bytes.substr(std::min<size_t>(8, bytes.size())).starts_with(form);
}

// The header of an MPEG frame: 11 bits of synchronisation; version, layer, bit rate and rate are not the
// reserved ones.
bool is_mpeg(std::string_view bytes) {
  const unsigned second = byte_at(bytes, 1), third = byte_at(bytes, 2);
  return byte_at(bytes, 0) == 0xFF && (second & 0xE0) == 0xE0 && (second & 0x18) != 0x08 &&
         (second & 0x06) != 0 && (third & 0xF0) != 0xF0 && (third & 0x0C) != 0x0C;
}

// The bytes after tags of ID3v2 at the beginning, which MP3 and some FLAC files have.
std::string_view after_id3(std::string_view bytes) {
  while (bytes.starts_with("ID3")) {
    size_t length = 10 + ((byte_at(bytes, 5) & 0x10) != 0 ? 10 : 0);  // header, and footer if there is one
    for (size_t i = 6, shift = 21; i < 10; ++i, shift -= 7)
      length += size_t{byte_at(bytes, i) & 0x7F} << shift;
    bytes.remove_prefix(std::min(length, bytes.size()));
  }
  return bytes;
}

// The name of an unsupported file format, by its first bytes.
const char* kind_of_sound(std::string_view bytes) {
  constexpr std::array<std::pair<std::string_view, const char*>, 8> kKinds{
      {{"\x1A\x45\xDF\xA3", "a WebM or Matroska"},
       {"#!AMR", "an AMR"},
       {"caff", "a CAF"},
       {".snd", "an AU"},
       {"0&\xB2u", "a WMA"},
       {"FLV", "an FLV"},
       {"MThd", "a MIDI"},
       {"wvpk", "a WavPack"}}};
  if (bytes.substr(std::min<size_t>(4, bytes.size())).starts_with("ftyp")) return "an MP4 or M4A";
  if (is_form(bytes, "RIFF", "AVI ")) return "an AVI";
  if (byte_at(bytes, 0) == 0xFF && (byte_at(bytes, 1) & 0xF6) == 0xF0) return "an AAC";
  for (const auto& [beginning, kind] : kKinds) {
    if (bytes.starts_with(beginning)) return kind;
  }
  return nullptr;
}

}  // namespace

void require_audio(const Audio& audio) {
  require_audio_rate(audio.rate);
  for (const float sample : audio.samples) {
    if (!std::isfinite(sample))
      throw UsageError(concat("audio: expected samples that are finite, found ", sample));
  }
}

void require_audio_rate(int64_t rate) {
  if (rate < kMinAudioRate || rate > kMaxAudioRate) {
    throw UsageError(concat("audio: expected a rate from ", kMinAudioRate, " to ", kMaxAudioRate,
                            " samples per second, found ", rate));
  }
}

Audio decode_audio(std::string_view bytes, const std::string& name, int64_t most_seconds) {
  if (is_form(bytes, "RIFF", "WAVE") || is_form(bytes, "RIFX", "WAVE") || is_form(bytes, "RF64", "WAVE")) {
    require_whole_chunks(bytes, name);
    return decode_sound_file(bytes, name, "WAV", most_seconds);
  }
  if (is_form(bytes, "FORM", "AIFF") || is_form(bytes, "FORM", "AIFC")) {
    require_whole_chunks(bytes, name);
    return decode_sound_file(bytes, name, "AIFF", most_seconds);
  }
  if (bytes.starts_with("OggS")) {
    require_whole_pages(bytes, name);
    return decode_sound_file(bytes, name, "Ogg", most_seconds);
  }
  const std::string_view content = after_id3(bytes);
  if (content.starts_with("fLaC")) return decode_sound_file(content, name, "FLAC", most_seconds);
  if (content.size() < bytes.size() || is_mpeg(bytes)) return decode_mp3(bytes, name, most_seconds);
  const char* const kind = kind_of_sound(bytes);
  throw DataError(concat(name, ": expected a WAV, FLAC, MP3, Ogg or AIFF file, found ",
                         bytes.empty()     ? "an empty file"
                         : kind == nullptr ? "another format"
                                           : kind,
                         kind == nullptr ? "" : " (`ffmpeg -i FILE out.wav` converts it)"));
}

std::string read_audio_file(const std::filesystem::path& path) {
  return read_limited_file(path, kMaxAudioFileBytes, "sound");
}

Audio read_audio(const std::filesystem::path& path) {
  return decode_audio(read_audio_file(path), path.string());
}

}  // namespace qkv::data
