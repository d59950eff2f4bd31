#include "qkv/data/audio/sound_file.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/data/audio/limits.h"
#include "qkv/data/audio/mono.h"

namespace qkv::data {
namespace {

constexpr int64_t kFramesOfBlock = 4096;

// A file in memory, as the library reads and writes it.
struct MemoryFile {
  std::string_view bytes;  // of a file that is read
  std::string* written = nullptr;
  sf_count_t at = 0;
  std::exception_ptr error = nullptr;  // of a write: exceptions must not cross C code

  sf_count_t size() const { return std::ssize(written != nullptr ? std::string_view(*written) : bytes); }

  sf_count_t seek(sf_count_t offset, int whence) {
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? at : size();
    sf_count_t place = 0;
    if (__builtin_add_overflow(base, offset, &place) || place < 0) return -1;
    return at = place;
  }

  sf_count_t read(void* to, sf_count_t count) {
    const sf_count_t some = std::min(count, size() - at);
    if (some <= 0) return 0;
    std::memcpy(to, bytes.data() + at, static_cast<size_t>(some));
    at += some;
    return some;
  }

  sf_count_t write(const void* from, sf_count_t count) {
    try {
      if (count <= 0) return 0;
      written->resize(static_cast<size_t>(std::max(size(), at + count)));
      std::memcpy(written->data() + at, from, static_cast<size_t>(count));
      at += count;
      return count;
    } catch (...) {
      error = std::current_exception();
      return 0;
    }
  }
};

MemoryFile& memory_file(void* file) { return *static_cast<MemoryFile*>(file); }

using SoundFile = std::unique_ptr<SNDFILE, int (*)(SNDFILE*)>;

// The library keeps the error of the last opened file in global variables: one thread opens at a time.
SoundFile open_sound_file(MemoryFile& file, int mode, SF_INFO& info, std::string& error) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  SF_VIRTUAL_IO calls{
      .get_filelen = [](void* user) { return memory_file(user).size(); },
      .seek = [](sf_count_t offset, int whence,
                 void* user) { return memory_file(user).seek(offset, whence); },
      .read = [](void* to, sf_count_t count, void* user) { return memory_file(user).read(to, count); },
      .write = [](const void* from, sf_count_t count,
                  void* user) { return memory_file(user).write(from, count); },
      .tell = [](void* user) { return memory_file(user).at; }};
  SoundFile opened(sf_open_virtual(&calls, mode, &info, &file), sf_close);
  if (opened == nullptr) error = sf_strerror(nullptr);
  return opened;
}

}  // namespace

Audio decode_sound_file(std::string_view bytes, const std::string& name, const char* format,
                        int64_t most_seconds) {
  MemoryFile memory{.bytes = bytes};
  SF_INFO info{};
  std::string error;
  const SoundFile file = open_sound_file(memory, SFM_READ, info, error);
  if (file == nullptr) refuse_audio(name, format, concat("an error: ", error));
  MonoSamples samples(info.samplerate, info.channels, most_seconds, name);
  const bool known = info.frames < SF_COUNT_MAX;
  if (known) samples.require_few(info.frames);
  std::vector<float> block(static_cast<size_t>(kFramesOfBlock * info.channels));
  while (true) {
    const sf_count_t frames = sf_readf_float(file.get(), block.data(), kFramesOfBlock);
    if (frames <= 0) break;
    samples.add(std::span(block).first(static_cast<size_t>(frames * info.channels)));
  }
  if (sf_error(file.get()) != SF_ERR_NO_ERROR)
    refuse_audio(name, format, concat("an error: ", sf_strerror(file.get())));
  if (known && samples.size() < info.frames)
    refuse_audio(name, format, concat(samples.size(), " of ", info.frames, " samples"));
  return samples.finish();
}

std::string encode_wav(const Audio& audio) {
  require_audio(audio);
  if (audio.samples.empty()) throw UsageError("audio: expected samples, found none");
  std::string bytes;
  MemoryFile memory{.bytes = {}, .written = &bytes};
  SF_INFO info{};
  info.samplerate = static_cast<int>(audio.rate);
  info.channels = 1;
  info.format = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
  std::string error;
  SoundFile file = open_sound_file(memory, SFM_WRITE, info, error);
  if (file == nullptr) throw Error(concat("cannot encode WAV: ", error));
  std::vector<short> block;
  for (size_t begin = 0; begin < audio.samples.size(); begin += kFramesOfBlock) {
    const size_t size = std::min<size_t>(kFramesOfBlock, audio.samples.size() - begin);
    block.clear();
    for (const float sample : std::span(audio.samples).subspan(begin, size)) {
      constexpr float kUnit = 32768;
      block.push_back(static_cast<short>(std::lrint(std::clamp(sample * kUnit, -kUnit, kUnit - 1))));
    }
    sf_writef_short(file.get(), block.data(), std::ssize(block));
  }
  const int status = sf_close(file.release());
  if (memory.error) std::rethrow_exception(memory.error);
  if (status != SF_ERR_NO_ERROR) throw Error(concat("cannot encode WAV: ", sf_error_number(status)));
  return bytes;
}

}  // namespace qkv::data
