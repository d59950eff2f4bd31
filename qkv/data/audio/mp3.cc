#include "qkv/data/audio/mp3.h"

#include <mpg123.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/audio/mono.h"

namespace qkv::data {
namespace {

using Mp3Decoder = std::unique_ptr<mpg123_handle, void (*)(mpg123_handle*)>;

// What remains of the file. The library cannot seek in it, so it knows a length only if the file states one.
struct Mp3Bytes {
  std::string_view rest;

  static ssize_t read(void* self, void* to, size_t count) {
    std::string_view& rest = static_cast<Mp3Bytes*>(self)->rest;
    const size_t some = std::min(count, rest.size());
    if (some > 0) std::memcpy(to, rest.data(), some);
    rest.remove_prefix(some);
    return static_cast<ssize_t>(some);
  }
  static off_t seek(void*, off_t, int) { return -1; }
};

}  // namespace

Audio decode_mp3(std::string_view bytes, const std::string& name, int64_t most_seconds) {
  const Mp3Decoder decoder(mpg123_new(nullptr, nullptr), mpg123_delete);
  if (decoder == nullptr) throw std::bad_alloc();
  mpg123_handle* const mp3 = decoder.get();
  const auto refuse = [&] {
    if (mpg123_errcode(mp3) == MPG123_OUT_OF_MEM) throw std::bad_alloc();
    refuse_audio(name, "MP3", concat("an error: ", mpg123_strerror(mp3)));
  };
  const auto require = [&](int status) {
    if (status != MPG123_OK) refuse();
  };
  require(mpg123_param(mp3, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS, 0));
  // Decoded as stored, whatever the sections of a file are.
  require(mpg123_param(mp3, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0));
  require(mpg123_replace_reader_handle(mp3, Mp3Bytes::read, Mp3Bytes::seek, nullptr));
  Mp3Bytes input{bytes};
  require(mpg123_open_handle(mp3, &input));

  long rate = 0;
  int channels = 0, encoding = 0;
  require(mpg123_getformat(mp3, &rate, &channels, &encoding));
  MonoSamples samples(rate, channels, most_seconds, name);
  const off_t promised = mpg123_length(mp3);  // of the Xing or Info header (LAME's tag); negative without
  samples.require_few(promised);
  std::vector<float> block(static_cast<size_t>(4096) * static_cast<size_t>(channels));
  for (int status = MPG123_OK; status != MPG123_DONE;) {
    size_t done = 0;
    status = mpg123_read(mp3, block.data(), block.size() * sizeof(float), &done);
    if (status == MPG123_NEW_FORMAT) {
      const long old_rate = rate;
      const int old_channels = channels;
      require(mpg123_getformat(mp3, &rate, &channels, &encoding));
      if (rate != old_rate || channels != old_channels) {
        throw DataError(concat(name, ": expected MP3 sound of one rate and number of channels, found ",
                               old_rate, " x ", old_channels, " and ", rate, " x ", channels,
                               " (`ffmpeg -i FILE out.wav` converts it)"));
      }
    } else if (status != MPG123_OK && status != MPG123_DONE) {
      refuse();
    }
    if (encoding != MPG123_ENC_FLOAT_32) refuse_audio(name, "MP3", "another encoding than floats");
    samples.add(std::span(block).first(done / sizeof(float)));
  }
  // Encoders differ in whether they count the header's own frame.
  constexpr int64_t kFrame = 1152;
  if (samples.size() + 2 * kFrame < promised)
    refuse_audio(name, "MP3", concat(samples.size(), " of ", promised, " samples"));
  return samples.finish();
}

}  // namespace qkv::data
