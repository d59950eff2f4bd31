#include "qkv/kernels/cpu/kernels.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/kernels/rowwise.h"

namespace qkv::kernels {
namespace {

// All elements are distinct. `shift`: elements from the start of a cache line.
template <class T>
void expect_turned(int64_t rows, int64_t cols, int64_t gap, size_t shift) {
  const int64_t stride = cols + gap;
  std::vector<T> x(static_cast<size_t>(rows * stride));
  std::iota(x.begin(), x.end(), T{1});
  constexpr T kFree = 0;
  constexpr size_t kLine = 64;
  std::vector<T> room(static_cast<size_t>(rows * cols) + shift + 2 * kLine, kFree);
  const auto address = reinterpret_cast<uintptr_t>(room.data());
  const size_t before = (kLine - address % kLine) % kLine / sizeof(T) + shift;
  T* const y = room.data() + before;
  cpu::transpose(x.data(), stride, rows, cols, sizeof(T), y);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j)
      ASSERT_EQ(y[j * rows + i], x[static_cast<size_t>(i * stride + j)])
          << rows << " x " << cols << " of " << stride << ", shift " << shift << ": " << i << ", " << j;
  }
  EXPECT_EQ(std::count(room.begin(), room.end(), kFree), std::ssize(room) - rows * cols) << "written outside";
}

template <class T>
void expect_all_turned() {
  for_each_target([] {
    for (const int64_t rows : {0, 1, 3, 15, 16, 17, 32, 33, 64, 100}) {
      for (const int64_t cols : {0, 1, 3, 4, 5, 8, 9, 16, 31, 65}) {
        for (const int64_t gap : {0, 3}) {
          for (const size_t shift : {0, 1}) expect_turned<T>(rows, cols, gap, shift);
        }
      }
    }
  });
}

TEST(Transpose, ElementsOfFourBytes) { expect_all_turned<uint32_t>(); }
TEST(Transpose, ElementsOfTwoBytes) { expect_all_turned<uint16_t>(); }

}  // namespace
}  // namespace qkv::kernels
