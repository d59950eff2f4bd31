// Routing of tokens to experts on every backend (backends.h).

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/backends.h"

namespace qkv::kernels {
namespace {

constexpr int64_t kTokens = 5;

struct Router {
  std::string name;
  RouterRule rule;
  bool corrected = false;
};

// Each field acts in one of these.
std::vector<Router> routers(int64_t n) {
  std::vector<Router> all{
      {"softmax of the chosen", {.experts = n, .per_token = 1 + n / 3}},
      {"softmax of all", {.experts = n, .per_token = 1 + n / 3, .normalise = false, .scale = 0.5f}},
      {"sigmoids", {.experts = n, .per_token = n, .sigmoid = true, .normalise = false, .scale = 3}, true},
      {"sigmoids by their sum", {.experts = n, .per_token = 1 + n / 2, .sigmoid = true, .scale = 2.5f}, true},
      {"corrected logits",
       {.experts = n, .per_token = 1, .sigmoid = true, .normalise = false, .corrects_logits = true},
       true}};
  if (n > 1) all.push_back({"SparseMixer", {.experts = n, .per_token = 2, .sparse_mixer = 0.4f}});
  if (n % 4 == 0) {
    all.push_back(
        {"the best groups", {.experts = n, .per_token = 2, .groups = n / 2, .group_choices = n / 4}});
    all.push_back({"groups by two",
                   {.experts = n,
                    .per_token = 1 + n / 4,
                    .sigmoid = true,
                    .groups = 4,
                    .group_choices = 2,
                    .group_scores = n / 4 > 1 ? 2 : 1},
                   true});
  }
  return all;
}

TEST(Backends, RoutersOfExperts) {
  for_lengths(1, [](int64_t n) {
    for (const Router& router : routers(n)) {
      const int64_t k = router.rule.per_token;
      expect_agreement(sizes(concat("choice, ", router.name), n), 0, [&](Call& call) {
        call.kernels.choose_experts({.rule = router.rule,
                                     .logits = call.input(kTokens * n, 1, 3),
                                     .correction = router.corrected ? call.input(n, 2) : nullptr,
                                     .tokens = kTokens,
                                     .chosen = call.integers(kTokens * k)});
      });
      std::vector<int32_t> chosen;
      for (int64_t i = 0; i < kTokens * k; ++i) chosen.push_back(static_cast<int32_t>((i / k + i % k) % n));
      expect_agreement(sizes(concat("weights, ", router.name), n), 1e-5, [&](Call& call) {
        call.kernels.expert_weights({.rule = router.rule,
                                     .logits = call.input(kTokens * n, 1, 3),
                                     .chosen = call.input(chosen),
                                     .tokens = kTokens,
                                     .weights = call.output(kTokens * k)});
      });
      for (const Accumulate accumulate : kBoth) {
        expect_agreement(sizes(concat("gradient, ", router.name), n, accumulate), 1e-5, [&](Call& call) {
          call.kernels.expert_weights_backward({.rule = router.rule,
                                                .logits = call.input(kTokens * n, 1, 3),
                                                .chosen = call.input(chosen),
                                                .tokens = kTokens,
                                                .d_weights = call.input(kTokens * k, 3),
                                                .d_logits = call.output(kTokens * n),
                                                .accumulate = accumulate});
        });
      }
    }
  });
}

// The order of NaN, infinities and equal numbers is the same everywhere.
TEST(Backends, RoutersOfNumbersWithoutAnOrder) {
  const float nan = std::nanf(""), infinity = INFINITY;
  const std::vector<float> logits{nan, 2, nan, -infinity, 2, nan, nan, nan, nan, nan, 1, infinity, -1, 1, 1};
  for (const int64_t k : {1, 3, 5}) {
    expect_agreement(concat(k, " of 5"), 0, [&](Call& call) {
      call.kernels.choose_experts({.rule = {.experts = 5, .per_token = k},
                                   .logits = call.input(logits),
                                   .tokens = 3,
                                   .chosen = call.integers(3 * k)});
    });
  }
}

}  // namespace
}  // namespace qkv::kernels
