#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number is a pure function of (key, counter), so it does not depend on the order or thread of
// the draws.

#include <array>
#include <cstdint>

namespace qkv {

using PhiloxCounter = std::array<uint32_t, 4>;

namespace philox {
inline constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
inline constexpr int kRounds = 10;
}  // namespace philox

// Four independent uniform 32-bit numbers.
constexpr PhiloxCounter philox4x32(uint64_t key, PhiloxCounter counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < philox::kRounds; ++round) {
    const uint64_t p0 = uint64_t{philox::kMultiplier0} * counter[0];
    const uint64_t p1 = uint64_t{philox::kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += philox::kWeyl0;
    k1 += philox::kWeyl1;
  }
  return counter;
}

// A sequential stream of random numbers (for shuffling, weight initialisation). Its complete state is (seed,
// stream, position), which can be saved and restored.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next() {
    const uint64_t block = position_ / 4;
    if (position_ % 4 == 0) {
      numbers_ = philox4x32(seed_, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                    static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)});
    }
    return numbers_[position_++ % 4];
  }

  // Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

  // Uniform in [0, bound), bound > 0. The multiplication's bias is below bound / 2^64.
  uint64_t below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    const uint64_t high = next();
    const uint64_t number = (high << 32) | next();
    return static_cast<uint64_t>((Wide{number} * bound) >> 64);
  }

 private:
  uint64_t seed_, stream_, position_ = 0;
  PhiloxCounter numbers_{};
};

}  // namespace qkv
