#include "qkv/ops/profile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "qkv/base/scope.h"
#include "qkv/ops/attention.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/linear.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/ops/norm.h"
#include "tests/support/random.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

// A clock that the test moves.
Profile::Clock::time_point fake_time;
Profile::Clock::time_point fake_now() { return fake_time; }
void pass_ms(int milliseconds) { fake_time += std::chrono::milliseconds(milliseconds); }

const Profile::Entry* find(const std::vector<Profile::Entry>& entries, const std::string& operation,
                           const std::string& module = "", bool backward = false) {
  for (const Profile::Entry& entry : entries)
    if (entry.operation == operation && entry.module == module && entry.backward == backward) return &entry;
  return nullptr;
}

TEST(Profile, TimeIsThatOfTheInnermostScope) {
  const Profile profile(&fake_now);
  pass_ms(4);
  {
    const ProfileScope outer("outer");
    pass_ms(10);
    {
      const ProfileScope inner("inner");
      pass_ms(30);
    }
    pass_ms(10);
  }
  const std::vector<Profile::Entry> entries = profile.entries();
  ASSERT_EQ(entries.size(), 3);
  EXPECT_EQ(entries[0].operation, "inner") << "longest first";
  EXPECT_EQ(entries[1].operation, "outer");
  EXPECT_EQ(entries[2].operation, "other") << "the rest, last";
  EXPECT_DOUBLE_EQ(entries[0].seconds, 0.030);
  EXPECT_DOUBLE_EQ(entries[1].seconds, 0.020) << "what the inner scope took is not counted twice";
  EXPECT_DOUBLE_EQ(entries[2].seconds, 0.004) << "what no scope took is not left out";
  EXPECT_DOUBLE_EQ(profile.seconds(), 0.054);
}

TEST(Profile, CompositeOperationsAreOneEntry) {
  const Profile profile(&fake_now);
  {
    const auto validation = ProfileScope::whole("validation");
    const ProfileScope inner("inner");
    {
      const auto another = ProfileScope::whole("another");
      pass_ms(3);
    }
    pass_ms(3);
  }
  { const ProfileScope after("after"); }
  const std::vector<Profile::Entry> entries = profile.entries();
  ASSERT_EQ(entries.size(), 3);
  EXPECT_EQ(entries[0].operation, "validation");
  EXPECT_DOUBLE_EQ(entries[0].seconds, 0.006);
  EXPECT_EQ(entries[1].operation, "after") << "what follows counts again";
}

TEST(Profile, OnePerThread) {
  const Profile profile;
  EXPECT_THROW(Profile(), UsageError);
  std::thread([] {
    const Profile own;
    const ProfileScope scope("theirs");
  }).join();
  EXPECT_EQ(profile.entries().size(), 1) << "another thread's scopes are not ours";
}

TEST(Profile, MayEndOnAnotherThread) {
  auto profile = std::make_unique<Profile>(&fake_now);
  auto scope = std::make_unique<ProfileScope>("open");
  std::thread([&] {
    const Profile own(&fake_now);
    profile.reset();
    const ProfileScope theirs("theirs");
    EXPECT_TRUE(find(own.entries(), "theirs")) << "this thread's own profile goes on";
  }).join();
  { const ProfileScope unseen("unseen"); }
  scope.reset();  // of the profile that has ended
  const Profile next(&fake_now);
  { const ProfileScope seen("seen"); }
  EXPECT_TRUE(find(next.entries(), "seen"));
  EXPECT_FALSE(find(next.entries(), "unseen"));
}

TEST(Profile, MayEndWithinAScope) {
  auto profile = std::make_optional<Profile>(&fake_now);
  auto scope = std::make_unique<ProfileScope>("outer");
  profile.emplace(&fake_now);
  pass_ms(3);
  scope.reset();
  { const ProfileScope inner("inner"); }
  const std::vector<Profile::Entry> entries = profile->entries();
  ASSERT_EQ(entries.size(), 2) << "the scope of the first profile is not the second's";
  EXPECT_EQ(entries[0].operation, "inner");
  EXPECT_DOUBLE_EQ(entries[1].seconds, 0.003);
}

struct Model {
  Variable table = Variable::parameter(random_tensor({11, 8}, 1));
  Variable weight = Variable::parameter(random_tensor({24, 8}, 2));
  Variable norm_weight = Variable::parameter(random_tensor({8}, 3)),
           norm_bias = Variable::parameter(random_tensor({8}, 4));
  LinearWeights linear_weights{{weight}}, output{{table}};
  Tensor ids = Tensor::from(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {6});

  // An embedding, attention, a norm of the sum, and a loss; the gradients of all inputs.
  std::vector<Tensor> gradients() {
    for (Variable* one : {&table, &weight, &norm_weight, &norm_bias}) one->clear_grad();
    Tape tape;
    const NameScope scope("encoder");
    const Variable x = embedding(table, ids, {}, {});
    Variable y;
    {
      const NameScope layer("layers", 0);
      const Variable qkv = linear(x, linear_weights);
      y = multihead_attention(qkv.columns(0, 8), qkv.columns(8, 8), qkv.columns(16, 8), 2, {}).output;
    }
    const Variable z = residual_layer_norm(x, y, {}, norm_weight, norm_bias, 1e-5f);
    tape.backward(linear_cross_entropy(z, output, ids, {}).loss);
    return {table.grad().clone(), weight.grad().clone(), norm_weight.grad().clone(),
            norm_bias.grad().clone()};
  }
};

TEST(Profile, RecordsOperationsAndTheirWork) {
  Model model;
  const Profile profile;
  model.gradients();
  const std::vector<Profile::Entry> entries = profile.entries();
  const Profile::Entry* forward = find(entries, "linear", "encoder.layers.0");
  const Profile::Entry* backward = find(entries, "linear", "encoder.layers.0", true);
  ASSERT_TRUE(forward && backward);
  EXPECT_EQ(forward->calls, 1);
  EXPECT_EQ(forward->macs, 6 * 8 * 24);
  EXPECT_EQ(backward->macs, 2 * 6 * 8 * 24) << "the gradients of x and of the weight";
  EXPECT_EQ(forward->bytes, 4 * (6 * 8 + 8 * 24 + 6 * 24));
  EXPECT_GT(forward->seconds, 0);
  const Profile::Entry* attention = find(entries, "attention", "encoder.layers.0");
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention->macs, 2 * 6 * 6 * 8);
  for (const char* operation : {"embedding", "residual_layer_norm", "cross_entropy"}) {
    EXPECT_TRUE(find(entries, operation, "encoder")) << operation;
    EXPECT_TRUE(find(entries, operation, "encoder", true)) << operation;
  }
  EXPECT_TRUE(find(entries, "packing", "encoder.layers.0"));

  const std::vector<Profile::Entry> operations = profile.operations();
  const auto macs_of = [](const std::vector<Profile::Entry>& all) {
    return std::accumulate(all.begin(), all.end(), uint64_t{0},
                           [](uint64_t sum, const Profile::Entry& entry) { return sum + entry.macs; });
  };
  EXPECT_LT(operations.size(), entries.size());
  EXPECT_EQ(macs_of(operations), macs_of(entries));
  EXPECT_EQ(operations.back().operation, "other");
}

TEST(Profile, ChangesNoBits) {
  Model model;
  const std::vector<Tensor> plain = model.gradients();
  const Profile profile;
  const std::vector<Tensor> profiled = model.gradients();
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(plain[i].shape(), profiled[i].shape());
    EXPECT_EQ(std::memcmp(plain[i].data(), profiled[i].data(), plain[i].bytes()), 0) << i;
  }
}

}  // namespace
