// After an allocation that fails, the same call has its result.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "qkv/ops/linear.h"
#include "qkv/search/transformer.h"
#include "tests/search/random_transformer.h"

namespace {

thread_local int64_t allocations_left = -1;  // of this thread, until one fails; negative: none does

}  // namespace

// Sanitizers have allocation functions of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QKV_OWN_NEW
void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(std::max<size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace qkv::search {
namespace {

class FailedAllocations : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef QKV_OWN_NEW
    GTEST_SKIP() << "needs a build without sanitizers";
#endif
  }
};

// Fails the n-th allocation of `call`, for n from 0 until it succeeds; returns the number of failures.
template <class Call>
int64_t fail_in_turn(const Call& call) {
  for (int64_t n = 0;; ++n) {
    try {
      allocations_left = n;
      call();
      const bool reached = allocations_left < 0;
      allocations_left = -1;
      if (!reached) return n;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
    }
  }
}

TEST_F(FailedAllocations, OfALinearMapLeaveItUsable) {
  const LinearWeights map({Tensor::full({2, 3}, 1.5f), Tensor::full({3, 3}, 2.f)});
  const Variable x(Tensor::full({1, 3}, 1.f));
  Variable y;
  EXPECT_GT(fail_in_turn([&] { y = linear(x, map, WeightLayout::in_place); }), 5);
  const std::vector<float> expected{4.5, 4.5, 6, 6, 6};
  EXPECT_TRUE(std::ranges::equal(y.value().values(), expected));
}

TEST_F(FailedAllocations, OfASearchLeaveNoRequestWithoutItsPlace) {
  const auto model = testing::random_transformer(testing::small_config(), 1);
  std::vector<Request> requests;
  for (const auto& source : testing::random_sentences(3, 5, 22, 1))
    requests.push_back({.source = source, .options = {.max_new_tokens = 2}});
  const std::vector<Decoded> expected = search_each({model}, requests);
  const int64_t failures = fail_in_turn([&] {
    for (const Decoded& one : search_each({model}, requests)) {
      if (one.error) std::rethrow_exception(one.error);
    }
  });
  EXPECT_GT(failures, 100);
  const std::vector<Decoded> found = search_each({model}, requests);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(found[i].hypotheses.front().ids, expected[i].hypotheses.front().ids);
}

}  // namespace
}  // namespace qkv::search
