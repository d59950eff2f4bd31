// KV caches: memory, sharing, and chunked prompts.

#include "qkv/nn/attention/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/nn/attention/prefix_cache.h"
#include "qkv/nn/decoder.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

nn::StackOptions stack(nn::PositionKind kind, int64_t window) {
  return {.layers = nn::alike(2, {.d_model = 32,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .d_k = 16,
                                  .d_v = 32,
                                  .d_ff = 30,
                                  .norm = nn::NormPlacement::pre,
                                  .attention = {.positions = {.kind = kind}, .window = window},
                                  .reads_memory = false}),
          .final_norm = true};
}

Tensor rows_of(const Tensor& x, const Offsets& all, const std::vector<int32_t>& first,
               const std::vector<int32_t>& count) {
  std::vector<float> rows;
  for (size_t s = 0; s < first.size(); ++s) {
    const auto own = x.slice_rows(all.begin(static_cast<int64_t>(s)) + first[s], count[s]).values();
    rows.insert(rows.end(), own.begin(), own.end());
  }
  return Tensor::from(rows, {std::ssize(rows) / x.cols(), x.cols()});
}

bool same_bits(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.values(), b.values()); }

// For any division of a prompt into reads, its outputs and those of later steps have the same bits.
TEST(Cache, ChunkedPrefillHasTheSameBits) {
  const Offsets all({0, 190, 193, 293});
  const Tensor x = random_tensor({293, 32}, 3), next = random_tensor({3, 32}, 4);
  for (const auto kind : {nn::PositionKind::none, nn::PositionKind::rotary, nn::PositionKind::relative,
                          nn::PositionKind::alibi}) {
    for (const int64_t window : {0, 5, 70}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
        const nn::Decoder decoder(stack(kind, window));
        nn::initialise(decoder, 5);
        nn::DecoderState whole = decoder.start({.offsets = all}, dtype);
        const Tensor expected = decoder.read(x, all, whole);
        nn::DecoderState cut = decoder.start({.offsets = all}, dtype);
        std::vector<int32_t> done(3, 0);
        RandomStream random(static_cast<uint64_t>(window) + 11);
        while (done != std::vector<int32_t>{190, 3, 100}) {
          std::vector<int32_t> count(3, 0);
          for (size_t s = 0; s < 3; ++s) {
            const auto left = static_cast<int32_t>(all.length(static_cast<int64_t>(s))) - done[s];
            count[s] = std::min(
                left, static_cast<int32_t>(random.below(3) == 0 ? random.below(90) : random.below(6)));
          }
          const Offsets chunk = Offsets::of_lengths(count);
          if (chunk.tokens() == 0) continue;
          const Tensor found = decoder.read(rows_of(x, all, done, count), chunk, cut);
          EXPECT_TRUE(same_bits(found, rows_of(expected, all, done, count)))
              << static_cast<int>(kind) << " window " << window << " " << name_of(dtype) << " at " << done[0];
          for (size_t s = 0; s < 3; ++s) done[s] += count[s];
        }
        for (int step = 0; step < 3; ++step)
          EXPECT_TRUE(same_bits(decoder.step(next, cut), decoder.step(next, whole)));
      }
    }
  }
}

// A window equals the corresponding mask: forward, backward and step by step.
TEST(Window, EqualsAMask) {
  const int64_t n = 150;
  for (const int64_t window : {1, 3, 64, 65, 149, 200}) {
    nn::MultiheadAttentionOptions options{.d_model = 12, .heads = 2, .variant = {.window = window}};
    const nn::MultiheadAttention attention(options);
    options.variant.window = 0;
    const nn::MultiheadAttention plain(options);
    nn::initialise(attention, 3);
    nn::initialise(plain, 3);
    Tensor keep = Tensor::empty({1, 1, n, n}, DType::u8);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) keep.data<uint8_t>()[i * n + j] = j <= i && j > i - window ? 1 : 0;
    }
    const Offsets offsets({0, static_cast<int32_t>(n), static_cast<int32_t>(n + 7)});
    const Tensor numbers = random_tensor({n + 7, 12}, 8), weights = random_tensor({n + 7, 12}, 9);
    nn::ForwardContext context;
    const auto gradient_of = [&](const nn::MultiheadAttention& one, const nn::AttentionMask& mask) {
      Tape tape;
      const Variable x = Variable::parameter(numbers.clone());
      tape.backward(one.self(x, offsets, mask, context), weights);
      return x.grad();
    };
    const Tensor found = attention.self(numbers, offsets, {.causal = true}, context).value();
    EXPECT_TRUE(
        same_bits(found, plain.self(numbers, offsets, {.causal = true, .keep = keep}, context).value()))
        << window;
    EXPECT_TRUE(same_bits(gradient_of(attention, {.causal = true}),
                          gradient_of(plain, {.causal = true, .keep = keep})))
        << window;
    if (window < n) {
      EXPECT_FALSE(same_bits(found, plain.self(numbers, offsets, {.causal = true}, context).value()));
    }
    nn::KeyValueCache cache(1, {.window = window});
    for (int64_t i = 0; i < n; ++i) {
      expect_close(attention.self_step(numbers.slice_rows(i, 1), cache), found.slice_rows(i, 1), "step",
                   2e-6);
    }
    EXPECT_EQ(cache.length(0), n);
    const int64_t held = cache.bytes() / static_cast<int64_t>(24 * sizeof(float));
    EXPECT_LE(held, std::min(n + 15, window + 64 + 16)) << "what the window has passed is freed";
    EXPECT_GE(held, std::min(n, window));
  }
  EXPECT_THROW(nn::MultiheadAttention({.d_model = 4, .variant = {.window = -1}}), UsageError);
}

TEST(Cache, MemoryIsSharedAndFreedByTheLastUser) {
  const nn::Decoder decoder(stack(nn::PositionKind::rotary, 0));
  nn::initialise(decoder, 5);
  const Tensor x = random_tensor({60, 32}, 3), other = random_tensor({40, 32}, 7);
  const auto read = [&](const Tensor& rows, nn::DecoderState& state) {
    return decoder.read(rows, Offsets::uniform(1, rows.rows()), state);
  };
  nn::DecoderState first = decoder.start({.offsets = Offsets::uniform(1, 0)});
  read(x, first);
  for (const int64_t common : {1, 15, 16, 37, 60}) {
    // Starts with a prefix of x and continues with its own tokens; both continue.
    nn::DecoderState branch = first.share(common);
    EXPECT_EQ(branch.next_positions().data<int32_t>()[0], common);
    EXPECT_LE(branch.bytes(), first.bytes());
    nn::DecoderState alone = decoder.start({.offsets = Offsets::uniform(1, 0)});
    read(x.slice_rows(0, common), alone);
    EXPECT_TRUE(same_bits(read(other, branch), read(other, alone))) << common;
    nn::DecoderState kept = first.share(60);
    EXPECT_TRUE(same_bits(decoder.step(x.slice_rows(5, 1), branch), decoder.step(x.slice_rows(5, 1), alone)));
    nn::DecoderState again = decoder.start({.offsets = Offsets::uniform(1, 0)});
    read(x, again);
    EXPECT_TRUE(
        same_bits(decoder.step(other.slice_rows(0, 1), kept), decoder.step(other.slice_rows(0, 1), again)))
        << "another one's positions change nothing";
  }
  // The memory outlives the state in which it was created.
  nn::DecoderState heir = first.share(40);
  first = {};
  nn::DecoderState alone = decoder.start({.offsets = Offsets::uniform(1, 0)});
  read(x.slice_rows(0, 40), alone);
  EXPECT_TRUE(
      same_bits(decoder.step(other.slice_rows(0, 1), heir), decoder.step(other.slice_rows(0, 1), alone)));
  EXPECT_FALSE(heir.can_share(42));
  EXPECT_NE(message_of<UsageError>([&] { heir.share(42); }).find("cannot share 42 positions of 41"),
            std::string::npos);
}

TEST(Cache, AWindowLimitsSharing) {
  const nn::Decoder decoder(stack(nn::PositionKind::none, 20));
  nn::initialise(decoder, 5);
  const Tensor x = random_tensor({200, 32}, 3), next = random_tensor({1, 32}, 4);
  nn::DecoderState state = decoder.start({.offsets = Offsets::uniform(1, 0)});
  decoder.read(x, Offsets::uniform(1, 200), state);
  EXPECT_TRUE(state.can_share(200));
  EXPECT_FALSE(state.can_share(100));
  EXPECT_FALSE(state.can_share(0));
  nn::DecoderState branch = state.share(190), alone = decoder.start({.offsets = Offsets::uniform(1, 0)});
  decoder.read(x.slice_rows(0, 190), Offsets::uniform(1, 190), alone);
  EXPECT_TRUE(same_bits(decoder.step(next, branch), decoder.step(next, alone)));
}

TEST(Cache, SplitIsTheInverseOfJoin) {
  const nn::Decoder decoder(stack(nn::PositionKind::alibi, 0));
  nn::initialise(decoder, 5);
  const Tensor x = random_tensor({30, 32}, 3), next = random_tensor({3, 32}, 4);
  const Offsets offsets({0, 4, 21, 30});
  nn::DecoderState whole = decoder.start({.offsets = offsets}), again = decoder.start({.offsets = offsets});
  decoder.read(x, offsets, whole);
  decoder.read(x, offsets, again);
  std::vector<nn::DecoderState> parts = again.split();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(again.hypothesis_offsets.sequences(), 0);
  for (nn::DecoderState& part : parts) again.join(std::move(part));
  EXPECT_TRUE(same_bits(decoder.step(next, again), decoder.step(next, whole)));
}

TEST(Cache, RoundedEntriesTakeLessMemoryAndAreClose) {
  const nn::StackOptions options = stack(nn::PositionKind::rotary, 0);
  const nn::Decoder decoder(options);
  nn::initialise(decoder, 5);
  const Tensor x = random_tensor({50, 32}, 3), next = random_tensor({1, 32}, 4);
  const Offsets one = Offsets::uniform(1, 50);
  nn::DecoderState wide = decoder.start({.offsets = one});
  decoder.read(x, one, wide);
  EXPECT_LE(wide.bytes(), nn::cache_bytes(options, {.prompt = 50}, 0, DType::f32));
  const int64_t bytes = wide.bytes();
  const Tensor exact = decoder.step(next, wide);
  for (const DType dtype : {DType::bf16, DType::q8_0}) {
    nn::DecoderState rounded = decoder.start({.offsets = one}, dtype);
    decoder.read(x, one, rounded);
    EXPECT_EQ(rounded.bytes() * 128, bytes * (dtype == DType::bf16 ? 64 : 34)) << name_of(dtype);
    EXPECT_LE(rounded.bytes(), nn::cache_bytes(options, {.prompt = 50}, 0, dtype));
    const Tensor found = decoder.step(next, rounded);
    expect_close(found, exact, name_of(dtype), 3e-2);
    EXPECT_FALSE(same_bits(found, exact)) << name_of(dtype);
    EXPECT_THROW(rounded.join(decoder.start({.offsets = one})), UsageError);
  }
  EXPECT_THROW(nn::KeyValueCache(1, {.dtype = DType::i32}), UsageError);
}

TEST(Cache, RefusesWidthsThatAreNoMultiplesOfTheBlock) {
  nn::KeyValueCache cache(1, {.dtype = DType::q8_0});
  for (const auto& [keys, values] : {std::pair(48, 32), std::pair(32, 16)}) {
    EXPECT_THROW(
        cache.append(random_tensor({2, keys}, 1), random_tensor({2, values}, 2), Offsets::uniform(1, 2)),
        ShapeError);
  }
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_THROW(nn::MemoryKeyValues(random_tensor({2, 48}, 1), Offsets::uniform(1, 2), DType::q8_0),
               ShapeError);
  nn::StackOptions options = stack(nn::PositionKind::rotary, 0);
  options.layers.front().key_heads = 1;  // of 16 numbers
  EXPECT_THROW(nn::cache_bytes(options, {}, 0, DType::q8_0), UsageError);
  EXPECT_EQ(nn::cache_bytes(options, {}, 0, DType::bf16), 0);
}

// Prompts that are read in chunks, then steps of one to three rows, which share the prompt.
TEST(Cache, HoldsNoMoreThanItsBoundWithinAWindow) {
  for (const int64_t window : {1, 30, 100, 2000}) {
    for (const int64_t chunk : {7, 64, 700}) {
      for (const int32_t rows : {1, 3}) {
        constexpr int64_t kPrompt = 700, kSteps = 150;
        nn::KeyValueCache cache(1, {.window = window});
        int64_t most = 0;
        const auto append = [&](int64_t tokens) {
          const Tensor own = Tensor::zeros({cache.rows() * tokens, 4});
          cache.append(own, own, Offsets::uniform(cache.rows(), tokens));
          most = std::max(most, cache.bytes());
          cache.forget();
        };
        for (int64_t read = 0; read < kPrompt; read += chunk) append(std::min(chunk, kPrompt - read));
        cache.reorder(std::vector<int32_t>(static_cast<size_t>(rows)), Offsets({0, rows}));
        for (int64_t i = 0; i < kSteps; ++i) {
          append(1);
          cache.reorder(rows == 1 ? std::vector<int32_t>{0} : std::vector<int32_t>{2, 0, 2},
                        Offsets({0, rows}));
        }
        const nn::CacheUse use{.prompt = kPrompt, .chunk = chunk, .rows = rows, .steps = kSteps};
        const int64_t bound = nn::cached_positions(use, window, Device::cpu), whole = kPrompt + rows * kSteps;
        EXPECT_LE(most, nn::block_bytes(bound, 8, DType::f32)) << window << ", " << chunk << ", " << rows;
        EXPECT_LE(bound, whole);
        if (window <= 100 && chunk <= 64) {
          EXPECT_LT(bound, whole) << window << ", " << chunk << ", " << rows;
        }
      }
    }
  }
}

TEST(PrefixCache, EvictsTheLeastRecentlyUsed) {
  const nn::Decoder decoder(stack(nn::PositionKind::rotary, 0));
  nn::initialise(decoder, 5);
  nn::PrefixCache cache;
  using Ids = std::vector<int32_t>;
  const auto read = [&](const Ids& ids) {
    nn::DecoderState state = decoder.start({.offsets = Offsets::uniform(1, 0)});
    decoder.read(random_tensor({std::ssize(ids), 32}, 1), Offsets::uniform(1, std::ssize(ids)), state);
    return state;
  };
  const auto keep = [&](const Ids& ids) { cache.keep(ids, read(ids)); };
  const auto length = [&](const Ids& ids) {
    const auto found = cache.find(ids);
    if (!found) return int64_t{0};
    EXPECT_EQ(found->state.next_positions().data<int32_t>()[0], found->positions);
    return found->positions;
  };
  keep({1, 2});
  EXPECT_EQ(cache.bytes(), 0) << "keeps nothing without a limit";
  const int64_t block = read({1}).bytes();  // 16 positions
  cache.limit(3 * block);
  EXPECT_EQ(length({1, 2}), 0);
  keep({1, 2, 3, 4});
  keep({7, 8});
  EXPECT_EQ(length({1, 2, 9, 9}), 2);
  EXPECT_EQ(length({1, 2, 3, 4, 5}), 4);
  EXPECT_EQ(length({1, 2, 3}), 3);
  EXPECT_EQ(length({8, 7}), 0);
  keep({1, 2, 3, 4, 5});  // replaces its prefix
  EXPECT_EQ(cache.bytes(), 2 * block);
  keep({1, 2, 3});  // present already
  EXPECT_EQ(cache.bytes(), 2 * block);
  EXPECT_EQ(length({7, 8, 1}), 2);
  keep(Ids(17, 5));  // 1 2 3 4 5 was least recently used
  EXPECT_EQ(length({1, 2, 3}), 0);
  EXPECT_EQ(length({7, 8}), 2);
  EXPECT_EQ(cache.bytes(), 3 * block);
  keep(Ids(49, 3));
  EXPECT_EQ(cache.bytes(), 3 * block) << "too long to keep";
  cache.limit(block);
  EXPECT_EQ(cache.bytes(), block);
  EXPECT_EQ(length({7, 8}), 2) << "the most recently used stays";
}

// A window that has passed the end of a kept prompt cannot continue it: the shorter prompt stays.
TEST(PrefixCache, KeepsTheBeginningThatAWindowHasPassed) {
  const nn::Decoder decoder(stack(nn::PositionKind::rotary, 3));
  nn::initialise(decoder, 5);
  nn::PrefixCache cache;
  cache.limit(1 << 30);
  std::vector<int32_t> ids(400, 4);
  nn::DecoderState state = decoder.start({.offsets = Offsets::uniform(1, 0)});
  for (const int64_t tokens : {100, 300}) {
    decoder.read(random_tensor({tokens, 32}, 1), Offsets::uniform(1, tokens), state);
    cache.keep(std::span(ids).first(tokens == 100 ? 100 : 400), state);
  }
  ids.push_back(5);
  EXPECT_EQ(cache.find(ids).value().positions, 400);
  ids.resize(100);
  ids.push_back(5);
  EXPECT_EQ(cache.find(ids).value().positions, 100);
}

TEST(KeyValueCache, ASharesMemoryDependsOnItsPositionsAlone) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0}) {
    nn::KeyValueCache cache(1, {.dtype = dtype});
    const auto append = [](nn::KeyValueCache& to, int64_t positions, uint64_t seed) {
      to.append(random_tensor({positions, 32}, seed), random_tensor({positions, 64}, seed + 1),
                Offsets::uniform(1, positions));
    };
    append(cache, 150, 1);
    const Tensor all = cache.load();
    for (const int64_t positions : {0, 3, 16, 63, 64, 70, 128, 145, 150}) {
      nn::KeyValueCache shared = cache.share(positions);
      EXPECT_EQ(shared.bytes(), nn::block_bytes(positions, 96, dtype)) << positions;
      append(shared, 200, 3);
      EXPECT_EQ(shared.bytes(), nn::block_bytes(positions + 200, 96, dtype)) << positions;
      append(cache, 1, 5);
      EXPECT_TRUE(same_bits(shared.load().slice_rows(0, positions), all.slice_rows(0, positions)));
      nn::KeyValueCache alone(1, {.dtype = dtype});
      append(alone, 200, 3);
      EXPECT_TRUE(same_bits(shared.load().slice_rows(positions, 200), alone.load()));
      EXPECT_TRUE(same_bits(cache.load().slice_rows(0, 150), all));
    }
  }
}

}  // namespace
