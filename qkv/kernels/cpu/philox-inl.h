// Philox for a column of rows: the lanes run over rows, all at the same place of their row. Included once for
// every target of Highway.

#if defined(QKV_KERNELS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_CPU_PHILOX_INL_H_
#undef QKV_KERNELS_CPU_PHILOX_INL_H_
#else
#define QKV_KERNELS_CPU_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "qkv/base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels::HWY_NAMESPACE {

// The words of the Philox blocks with counters {row + lane, c1, c2, c3}: lane i of words[w] is word w of row
// + i.
template <class D32>
HWY_INLINE void philox_rows(D32 d32, uint64_t key, uint32_t row, uint32_t c1, uint32_t c2, uint32_t c3,
                            hwy::HWY_NAMESPACE::Vec<D32> (&words)[4]) {
  namespace hw = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_SCALAR
  const PhiloxCounter block = philox4x32(key, {row, c1, c2, c3});
  for (size_t w = 0; w < 4; ++w) words[w] = hw::Set(d32, block[w]);
#else
  // Rows in even lanes and rows in odd lanes are computed side by side, each number in the lower half of a
  // 64-bit lane, where MulEven wants it; what stands in the upper halves does not matter.
  const hw::RepartitionToWide<D32> d64;
  const auto multiplier0 = hw::Set(d32, philox::kMultiplier0);
  const auto multiplier1 = hw::Set(d32, philox::kMultiplier1);
  auto even0 = hw::BitCast(d64, hw::Iota(d32, row));
  auto odd0 = hw::ShiftRight<32>(even0);
  auto even1 = hw::Set(d64, uint64_t{c1}), even2 = hw::Set(d64, uint64_t{c2});
  auto even3 = hw::Set(d64, uint64_t{c3});
  auto odd1 = even1, odd2 = even2, odd3 = even3;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < philox::kRounds; ++round) {
    const auto key0 = hw::Set(d64, uint64_t{k0}), key1 = hw::Set(d64, uint64_t{k1});
    const auto turn = [&](auto& x0, auto& x1, auto& x2, auto& x3) HWY_ATTR {
      const auto product0 = hw::MulEven(hw::BitCast(d32, x0), multiplier0);
      const auto product1 = hw::MulEven(hw::BitCast(d32, x2), multiplier1);
      x0 = hw::Xor3(hw::ShiftRight<32>(product1), x1, key0);
      x1 = product1;
      x2 = hw::Xor3(hw::ShiftRight<32>(product0), x3, key1);
      x3 = product0;
    };
    turn(even0, even1, even2, even3);
    turn(odd0, odd1, odd2, odd3);
    k0 += philox::kWeyl0;
    k1 += philox::kWeyl1;
  }
  const auto merge = [&](auto odd, auto even) HWY_ATTR {
    return hw::OddEven(hw::BitCast(d32, hw::ShiftLeft<32>(odd)), hw::BitCast(d32, even));
  };
  words[0] = merge(odd0, even0);
  words[1] = merge(odd1, even1);
  words[2] = merge(odd2, even2);
  words[3] = merge(odd3, even3);
#endif
}

}  // namespace qkv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
