// Places for calls whose work takes memory.

#include "qkv/serve/work/places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace qkv::serve;

CallHandle caller(const std::string& client) {
  return std::make_shared<Call>(client, Clock::now() + std::chrono::hours(1));
}

TEST(Places, LimitWhatHasBegun) {
  Places places(2);
  std::vector<int> begun;
  std::vector<CallHandle> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(caller("one"));
    places.enter(calls.back(), [&begun, i] { begun.push_back(i); });
  }
  EXPECT_EQ(begun, (std::vector<int>{0, 1}));
  places.leave();
  EXPECT_EQ(begun, (std::vector<int>{0, 1, 2}));
  for (int i = 0; i < 4; ++i) places.leave();
  EXPECT_EQ(begun, (std::vector<int>{0, 1, 2, 3, 4}));
  // All have left.
  for (int i = 5; i < 8; ++i) places.enter(caller("one"), [&begun, i] { begun.push_back(i); });
  EXPECT_EQ(begun.size(), 7U);
}

TEST(Places, ClientsTakeTurns) {
  Places places(1);
  std::string begun;
  std::vector<CallHandle> calls;
  const auto enter = [&](const std::string& client) {
    calls.push_back(caller(client));
    places.enter(calls.back(), [&begun, client] { begun += client; });
  };
  for (const char* client : {"a", "a", "a", "a", "b", "b", "c"}) enter(client);
  for (int i = 0; i < 6; ++i) places.leave();
  EXPECT_EQ(begun, "aabcaba");
}

TEST(Places, CancelledCallsAreDropped) {
  Places places(1);
  std::string begun;
  const auto alive = std::make_shared<int>();
  std::vector<CallHandle> calls;
  for (const char* client : {"a", "b", "c"}) {
    calls.push_back(caller(client));
    places.enter(calls.back(), [&begun, client, alive] { begun += client; });
  }
  const long waiting = alive.use_count();
  calls[1]->cancel();
  EXPECT_EQ(alive.use_count(), waiting - 1) << "its memory is freed at once";
  places.leave();
  places.leave();
  EXPECT_EQ(begun, "ac");
  // Cancelled before: never begins while others have the place.
  places.enter(caller("d"), [&begun] { begun += "d"; });
  const CallHandle late = caller("e");
  late->cancel();
  places.enter(late, [&begun] { begun += "e"; });
  places.leave();
  EXPECT_EQ(begun, "acd");
}

// A place that becomes free while one leaves goes to the next.
TEST(Places, MayBeLeftAtOnce) {
  Places places(1);
  int begun = 0;
  std::vector<CallHandle> calls;
  places.enter(caller("first"), [&begun] { ++begun; });
  for (int i = 0; i < 20; ++i) {
    calls.push_back(caller("a"));
    places.enter(calls.back(), [&] {
      ++begun;
      places.leave();
    });
  }
  EXPECT_EQ(begun, 1);
  places.leave();
  EXPECT_EQ(begun, 21);
}

}  // namespace
