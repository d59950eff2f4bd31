#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/metrics/exact_match.h"

namespace qkv::metrics {
namespace {

TEST(ExactMatch, CountsEqualTexts) {
  const ExactMatch result = exact_match({"eins", "zwei ", "drei", "Vier"}, {"eins", "zwei", "drei", "vier"});
  EXPECT_EQ(result.matches, 2);
  EXPECT_EQ(result.segments, 4);
  EXPECT_EQ(result.share(), 0.5);
}

TEST(ExactMatch, RejectsMismatchedCorpora) {
  EXPECT_THROW(exact_match({}, {}), DataError);
  EXPECT_THROW(exact_match({"eins"}, {"eins", "zwei"}), DataError);
}

}  // namespace
}  // namespace qkv::metrics
