// Sound files, compared with soundfile's samples (tests/golden/audio.py).

#include "qkv/data/audio/audio.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/parallel.h"
#include "qkv/io/safetensors.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::data;
using namespace qkv::testing;

const std::filesystem::path kSounds = std::filesystem::path(QKV_TEST_DATA) / "data" / "golden" / "audio";

std::string sound(const std::string& name) { return read_file(kSounds / name); }

std::vector<std::string> sounds() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kSounds)) {
    if (entry.path().extension() != ".safetensors") names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// What is written to the standard error output, which must be nothing.
class Silence {
 public:
  Silence() {
    ::fflush(stderr);
    ::dup2(file_, 2);
  }
  ~Silence() {
    ::fflush(stderr);
    ::dup2(before_, 2);
    ::close(before_);
    struct stat found {};
    EXPECT_EQ(::fstat(file_, &found), 0);
    EXPECT_EQ(found.st_size, 0) << "something was printed";
    ::close(file_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int before_ = ::dup(2), file_ = ::fileno(std::tmpfile());
};

void put(std::string& bytes, size_t at, uint32_t value, int size = 4) {
  for (int i = 0; i < size; ++i) bytes[at + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
}

std::vector<float> sine(double hertz, double rate, size_t size) {
  std::vector<float> samples;
  for (size_t i = 0; i < size; ++i) {
    const double turn = hertz * static_cast<double>(i) / rate;
    samples.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * turn + 0.3)));
  }
  return samples;
}

TEST(ReadAudio, GivesTheSamplesOfSoundfile) {
  const io::SafetensorsFile expected((kSounds / "expected.safetensors").string());
  const std::map<std::string, int64_t> rates{{"opus.ogg", 16000}, {"mono.mp3", 44100}, {"s24.wav", 11025}};
  const auto names = sounds();
  ASSERT_EQ(names.size(), 17u);
  for (const std::string& name : names) {
    const Audio found = read_audio(kSounds / name);
    if (rates.contains(name)) {
      EXPECT_EQ(found.rate, rates.at(name)) << name;
    }
    const Tensor samples = expected.tensor(name);
    ASSERT_EQ(std::ssize(found.samples), samples.numel()) << name;
    // Integers are exact. Decoders of lossy formats round differently, also between versions.
    const bool lossy = name.ends_with(".ogg") || name.ends_with(".mp3");
    float largest = 0;
    for (size_t i = 0; i < found.samples.size(); ++i)
      largest = std::max(largest, std::abs(found.samples[i] - samples.values()[i]));
    EXPECT_LE(largest, lossy ? 1e-4F : 0.0F) << name;
  }
  EXPECT_EQ(read_audio(kSounds / "s16.wav").rate, 16000);
  EXPECT_DOUBLE_EQ(read_audio(kSounds / "s16.wav").seconds(), 0.2);
}

TEST(ReadAudio, RefusesWhatIsNoSound) {
  const Scratch scratch;
  const auto refused = [&](std::string_view bytes) {
    const auto path = scratch.write("a sound.wav", bytes);
    const std::string message = message_of<DataError>([&] { read_audio(path); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    return message;
  };
  expect_contains(refused(""), "expected a WAV, FLAC, MP3, Ogg or AIFF file, found an empty file");
  expect_contains(refused("hello, this is text"), "found another format");
  const std::string mp4 =
      refused(std::string_view("\0\0\0\x20"
                               "ftypM4A \0\0\0\0",
                               16));
  expect_contains(mp4, "found an MP4 or M4A (`ffmpeg -i FILE out.wav` converts it)");
  expect_contains(refused("\x1A\x45\xDF\xA3webm"), "found a WebM or Matroska (`ffmpeg -i FILE");
  expect_contains(refused("\xFF\xF1\x50\x80"), "found an AAC");
  expect_contains(refused("RIFF1234AVI LIST"), "found an AVI");
  expect_contains(refused("RIFF1234WAVE"), "expected a complete WAV file");
  expect_contains(refused("OggS"), "expected a complete Ogg file");
  expect_contains(refused("fLaC"), "expected a complete FLAC file");
  expect_contains(refused("ID3\4\0\0\0\0\0\0"), "expected a complete MP3 file");
  EXPECT_THROW(read_audio(scratch / "nothing.wav"), IoError);
  EXPECT_THROW(read_audio(scratch.path()), IoError);
  ASSERT_EQ(::mkfifo((scratch / "pipe.wav").c_str(), 0600), 0);
  EXPECT_THROW(read_audio(scratch / "pipe.wav"), IoError);
  const auto large = scratch.write("large.wav", "");
  std::filesystem::resize_file(large, static_cast<uintmax_t>(kMaxAudioFileBytes) + 1);
  expect_throw<DataError>("large.wav: expected sound of at most 2147483648 bytes, found 2147483649",
                          [&] { read_audio(large); });
}

TEST(ReadAudio, RefusesSoundsThatEndTooEarly) {
  const Silence silence;
  for (const std::string& name : sounds()) {
    const std::string bytes = sound(name);
    const Audio whole = decode_audio(bytes, name);
    const bool knows_its_length = !name.ends_with(".ogg") && !name.ends_with(".mp3");
    for (size_t length = 0; length < bytes.size(); length += length < 128 ? 1 : 37) {
      try {
        const Audio part = decode_audio(std::string_view(bytes).substr(0, length), name);
        EXPECT_FALSE(knows_its_length) << name << ", " << length << " of " << bytes.size() << " bytes";
        // Decoders may take packets up to a cut, and what libmpg123 delays is within two frames.
        EXPECT_LE(part.samples.size(), whole.samples.size()) << name;
      } catch (const DataError& error) {
        expect_contains(error.what(), name + ": expected ");
      }
    }
    if (!knows_its_length) continue;
    // s24.wav has a part after the samples (of their peaks), which may be missing.
    EXPECT_THROW(decode_audio(std::string_view(bytes).substr(0, bytes.size() / 2), name), DataError) << name;
  }
  // What is stated is there: the frames of an MP3 file, the pages of an Ogg file.
  for (const char* name : {"stereo.mp3", "vorbis.ogg"}) {
    const std::string bytes = sound(name);
    EXPECT_THROW(decode_audio(std::string_view(bytes).substr(0, bytes.size() / 2), name), DataError) << name;
    EXPECT_THROW(decode_audio(std::string_view(bytes).substr(0, bytes.size() - 1), "a.ogg"), DataError)
        << name;
  }
}

TEST(ReadAudio, SurvivesDamage) {
  const Silence silence;
  for (const std::string& name : sounds()) {
    const std::string bytes = sound(name);
    for (size_t at = 0; at < bytes.size(); at += at < 128 ? 1 : 13) {
      for (const int flipped : {0xFF, 0x01, 0x80}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ flipped);
        try {
          EXPECT_FALSE(decode_audio(damaged, name, 600).samples.empty());
        } catch (const DataError&) {
          // Rejected, which is allowed.
        }
      }
    }
  }
}

TEST(ReadAudio, FindsWrongChecksums) {
  for (const char* name : {"vorbis.ogg", "opus.ogg", "s16.flac"}) {
    std::string bytes = sound(name);
    bytes[bytes.size() * 3 / 4] ^= 0x10;
    EXPECT_THROW(decode_audio(bytes, name), DataError) << name;
  }
  const std::string bytes = sound("vorbis.ogg");
  const size_t comments = bytes.find("OggS", 4), sounds_begin = bytes.find("OggS", bytes.size() / 2);
  ASSERT_LT(sounds_begin, bytes.size());
  expect_throw<DataError>("a.ogg: expected a complete Ogg file, found page 2 in place of page 1", [&] {
    decode_audio(bytes.substr(0, comments) + bytes.substr(sounds_begin), "a.ogg");
  });
  expect_throw<DataError>("a.ogg: expected a complete Ogg file, found no page that ends sound",
                          [&] { decode_audio(bytes.substr(0, comments), "a.ogg"); });
  std::string several = sound("opus.ogg") + sound("vorbis.ogg");
  expect_throw<DataError>("a.ogg: expected an Ogg file of one stream, found several",
                          [&] { decode_audio(several, "a.ogg"); });
}

TEST(ReadAudio, RefusesAbsurdHeaders) {
  const std::string bytes = sound("s16.wav");  // 44 bytes of header
  ASSERT_EQ(bytes.substr(36, 4), "data");
  const auto with = [&](size_t at, uint32_t value, int size = 4) {
    std::string other = bytes;
    put(other, at, value, size);
    return other;
  };
  expect_throw<DataError>(
      "a.wav: expected a complete WAV file, found 6400 of 4294967294 bytes of its part 'data'",
      [&] { decode_audio(with(40, 0xFFFFFFFE), "a.wav"); });
  // Lengths that were unknown when the header was written, of ffmpeg and SoX.
  for (const uint32_t unknown : {0xFFFFFFFFU, 0x7FFFF000U})
    EXPECT_EQ(decode_audio(with(40, unknown), "a.wav"), decode_audio(bytes, "a.wav"));
  EXPECT_THROW(decode_audio(with(24, 0), "a.wav"), DataError);
  expect_throw<DataError>("a.wav: expected a rate from 1000 to 384000 samples per second, found 10",
                          [&] { decode_audio(with(24, 10), "a.wav"); });
  expect_throw<DataError>("a.wav: expected a rate from 1000 to 384000 samples per second, found 4000000",
                          [&] { decode_audio(with(24, 4000000), "a.wav"); });
  EXPECT_THROW(decode_audio(with(22, 0, 2), "a.wav"), DataError);
  EXPECT_THROW(decode_audio(with(22, 65535, 2), "a.wav"), DataError);
  std::string thousand = with(22, 1000, 2);
  put(thousand, 32, 2000, 2);  // bytes of a frame
  expect_throw<DataError>("a.wav: expected 1 to 32 channels, found 1000",
                          [&] { decode_audio(thousand, "a.wav"); });
  expect_throw<DataError>("expected sound, found no samples", [&] {
    std::string none = with(40, 0).substr(0, 44);
    put(none, 4, 36);
    decode_audio(none, "a.wav");
  });
  expect_throw<DataError>("found MPEG audio in a WAV file",
                          [&] { decode_audio(with(20, 0x55, 2), "a.wav"); });
  // 36 bits of a FLAC file's STREAMINFO are the number of samples; 0 is an unknown one.
  std::string flac = sound("s24.flac");
  const Audio audio = decode_audio(flac, "a.flac");
  flac[21] = static_cast<char>(flac[21] | 0x0F);
  flac.replace(22, 4, "\xFF\xFF\xFF\xFF");
  expect_throw<DataError>("a.flac: expected at most 86400 seconds of sound, found 8589934",
                          [&] { decode_audio(flac, "a.flac"); });
  flac[21] = static_cast<char>(flac[21] & 0xF0);
  flac.replace(22, 4, std::string("\0\0\x30\x39", 4));
  expect_throw<DataError>("a.flac: expected a complete FLAC file, found 1600 of 12345 samples",
                          [&] { decode_audio(flac, "a.flac"); });
  flac.replace(22, 4, std::string(4, '\0'));
  EXPECT_EQ(decode_audio(flac, "a.flac"), audio);
}

TEST(ReadAudio, RefusesTooManySecondsAndSamplesThatAreNotFinite) {
  expect_throw<DataError>("a.wav: expected at most 1 seconds of sound, found 2", [&] {
    decode_audio(encode_wav({.rate = 8000, .samples = std::vector<float>(16001, 0.5F)}), "a.wav", 1);
  });
  std::string bytes = sound("f32.wav");
  const size_t samples = bytes.find("data") + 8;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30F}) {
    std::memcpy(bytes.data() + samples + 80, &bad, sizeof bad);  // of frame 10
    const std::string message = message_of<DataError>([&] { decode_audio(bytes, "a.wav"); });
    expect_contains(message, "a.wav: expected samples from -1 to 1, found ");
    expect_contains(message, "as number 10");
  }
}

TEST(ReadAudio, ReadsPastTags) {
  const std::string tag = std::string("ID3\4\0\0\0\0\1\0", 10) + std::string(128, 'x');
  for (const char* name : {"stereo.mp3", "s24.flac"})
    EXPECT_EQ(decode_audio(tag + sound(name), name), decode_audio(sound(name), name)) << name;
  EXPECT_EQ(decode_audio(sound("mono.mp3") + "TAG" + std::string(125, ' '), "a.mp3"),
            decode_audio(sound("mono.mp3"), "a.mp3"));
}

TEST(EncodeWav, IsReadAgain) {
  const Audio audio{.rate = 16000, .samples = {0.5F, -0.25F, 1.0F, -1.0F, 7.0F, -7.0F, 0.3F, 0.00002F}};
  const Audio again = decode_audio(encode_wav(audio), "again");
  EXPECT_EQ(again.rate, 16000);
  const float largest = 1 - 1.0F / 32768;
  EXPECT_EQ(again.samples, (std::vector<float>{0.5F, -0.25F, largest, -1.0F, largest, -1.0F, 9830.0F / 32768,
                                               1.0F / 32768}));
  const std::string bytes = sound("s16.wav");
  const Audio speech = decode_audio(bytes, "s16.wav");
  EXPECT_EQ(decode_audio(encode_wav(speech), "again"), speech);
  EXPECT_THROW(encode_wav({.rate = 16000}), UsageError);
  EXPECT_THROW(encode_wav({.rate = 0, .samples = {0.5F}}), UsageError);
  EXPECT_THROW(encode_wav({.rate = 8000, .samples = {std::numeric_limits<float>::infinity()}}), UsageError);
}

// Sines below and above half the new rate, away from the ends, where the signal does not begin or end.
TEST(Resample, KeepsWhatBothRatesHold) {
  struct Case {
    int64_t from, to;
    double hertz, bound;  // of the absolute error; measured: half of it or less
  };
  for (const Case& one : std::vector<Case>{{48000, 16000, 440, 2e-6},
                                           {48000, 16000, 6500, 2e-6},
                                           {44100, 16000, 1000, 2e-6},
                                           {44100, 16000, 6500, 2e-6},
                                           {8000, 16000, 3000, 2e-6},
                                           {22050, 16000, 3000, 2e-6},
                                           {16000, 48000, 5000, 2e-6}}) {
    const auto size = static_cast<size_t>(one.from);
    const Audio found =
        resample({.rate = one.from, .samples = sine(one.hertz, static_cast<double>(one.from), size)}, one.to);
    EXPECT_EQ(found.rate, one.to);
    const auto expected = sine(one.hertz, static_cast<double>(one.to), static_cast<size_t>(one.to));
    ASSERT_EQ(found.samples.size(), expected.size());
    float largest = 0;
    for (size_t i = 200; i + 200 < expected.size(); ++i)
      largest = std::max(largest, std::abs(found.samples[i] - expected[i]));
    EXPECT_LE(largest, one.bound) << one.from << " to " << one.to << ", " << one.hertz << " Hz";
  }
  // 12 kHz would appear as 4 kHz.
  const Audio silent = resample({.rate = 48000, .samples = sine(12000, 48000, 48000)}, 16000);
  float largest = 0;
  for (size_t i = 200; i + 200 < silent.samples.size(); ++i)
    largest = std::max(largest, std::abs(silent.samples[i]));
  EXPECT_LE(largest, 2e-6);
}

TEST(Resample, HasTheNearestLength) {
  for (const auto& [samples, from, to, expected] :
       std::vector<std::array<int64_t, 4>>{{1, 48000, 16000, 0},
                                           {2, 48000, 16000, 1},
                                           {3, 48000, 16000, 1},
                                           {1000, 44100, 16000, 363},
                                           {441, 44100, 16000, 160},
                                           {7, 8000, 16000, 14},
                                           {12345, 22050, 16000, 8958}}) {
    const Audio audio{.rate = from,
                      .samples = sine(100, static_cast<double>(from), static_cast<size_t>(samples))};
    const Audio found = resample(audio, to);
    EXPECT_EQ(std::ssize(found.samples), expected) << samples << " from " << from << " to " << to;
    // Also the last sample is interpolated.
    if (expected > 1) {
      EXPECT_NE(found.samples.back(), 0) << samples << " from " << from << " to " << to;
    }
  }
  const Audio audio{.rate = 16000, .samples = {0.25F, 3}};
  EXPECT_EQ(resample(audio, 16000), audio);
  EXPECT_EQ(resample({.rate = 8000}, 16000), (Audio{.rate = 16000}));
}

// It works in pieces of two seconds: a sine without a seam, of rates without a common divisor too, and the
// same bits for any number of threads.
TEST(Resample, HasNoSeams) {
  for (const auto& [from, to] :
       std::vector<std::pair<int64_t, int64_t>>{{44100, 16000}, {11027, 16000}, {1009, 1000}}) {
    const double hertz = static_cast<double>(std::min(from, to)) / 10;
    const Audio audio{.rate = from,
                      .samples = sine(hertz, static_cast<double>(from), static_cast<size_t>(from * 9 / 2))};
    const int before = threads();
    set_threads(1);
    const Audio found = resample(audio, to);
    set_threads(3);
    EXPECT_EQ(resample(audio, to), found);
    set_threads(before);
    const auto expected = sine(hertz, static_cast<double>(to), found.samples.size());
    float largest = 0;
    for (size_t i = 200; i + 200 < expected.size(); ++i)
      largest = std::max(largest, std::abs(found.samples[i] - expected[i]));
    EXPECT_LE(largest, 2e-6F) << from << " to " << to;
  }
}

TEST(Resample, RefusesAbsurdRates) {
  const Audio audio{.rate = 16000, .samples = {0.25F, 0.5F}};
  for (const int64_t rate : {int64_t{0}, int64_t{-16000}, int64_t{999}, int64_t{384001}, INT64_MAX})
    EXPECT_THROW(resample(audio, rate), UsageError) << rate;
  EXPECT_THROW(resample({.rate = 0, .samples = {0.5F}}, 16000), UsageError);
  EXPECT_THROW(resample({.rate = 8000, .samples = {std::numeric_limits<float>::quiet_NaN()}}, 16000),
               UsageError);
}

}  // namespace
