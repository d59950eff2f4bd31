// Modules: options, inputs and decoder states.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/nn/prefix_cache.h"
#include "qkv/nn/weights_file.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::nn;
using namespace qkv::testing;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kLowest = std::numeric_limits<int64_t>::min();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows 0, 0, 1 and 2 of the keys, each beside the same row of the values: a cache whose first sequence has
// two rows.
Tensor concat_rows(const Tensor& keys, const Tensor& values) {
  Tensor all = Tensor::empty({4, keys.cols() + values.cols()});
  for (const auto& [to, from] : {std::pair{0, 0}, {1, 0}, {2, 1}, {3, 2}}) {
    Tensor row = all.slice_rows(to, 1);
    row.columns(0, keys.cols()).copy_from(keys.slice_rows(from, 1));
    row.columns(keys.cols(), values.cols()).copy_from(values.slice_rows(from, 1));
  }
  return all;
}

LayerOptions layer(bool reads_memory = true) {
  return {.d_model = 8, .heads = 2, .d_ff = 16, .reads_memory = reads_memory};
}

TEST(MisusedModules, Options) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{-8}, kHuge, kLowest}) {
    const std::string what = concat(size);
    expect_refusal("attention", "d_model " + what, [&] { MultiheadAttention({.d_model = size}); });
    expect_refusal("attention", "heads " + what, [&] { MultiheadAttention({.d_model = 8, .heads = size}); });
    expect_refusal("", "inputs " + what, [&] { Linear({.inputs = size, .outputs = 2}); });
    expect_refusal("", "outputs " + what, [&] { Linear({.inputs = 2, .outputs = size}); });
    expect_refusal("", "d_ff " + what, [&] { FeedForward({.d_model = 8, .d_ff = size}); });
    expect_refusal("", "layer d_ff " + what, [&] { EncoderLayer({.d_model = 8, .heads = 2, .d_ff = size}); });
    expect_refusal("alibi_slopes", what, [&] { alibi_slopes(size == kHuge ? -kHuge : size); });
    if (size == 0) continue;
    expect_refusal("attention", "key_heads", [&] { MultiheadAttention({.d_model = 8, .key_heads = size}); });
    expect_refusal("attention", "d_k " + what, [&] { MultiheadAttention({.d_model = 8, .d_k = size}); });
    expect_refusal("attention", "d_v " + what, [&] { MultiheadAttention({.d_model = 8, .d_v = size}); });
    expect_refusal("attention", "key_features " + what,
                   [&] { MultiheadAttention({.d_model = 8, .key_features = size}); });
    expect_refusal("shape", "norm " + what, [&] { Norm({.features = size}); });
    if (size == kHuge) continue;
    expect_refusal("encoder", "layers " + what, [&] { Encoder({.layers = size, .layer = layer()}); });
    expect_refusal("attention", "window " + what,
                   [&] { MultiheadAttention({.d_model = 8, .window = size}); });
  }
  expect_refusal("decoder", "no layers", [] { Decoder({.layers = 0, .layer = layer()}); });
  expect_refusal("attention", "heads do not divide", [] { MultiheadAttention({.d_model = 8, .heads = 3}); });
  expect_refusal("attention", "key_heads do not divide",
                 [] { MultiheadAttention({.d_model = 8, .heads = 4, .key_heads = 3}); });
  expect_refusal("attention", "odd d_k", [] {
    MultiheadAttention({.d_model = 6, .heads = 2, .positions = {.kind = PositionKind::rotary}});
  });
  for (const float softcap : {-1.0f, kNan})
    expect_refusal("attention", "softcap", [&] { MultiheadAttention({.d_model = 8, .softcap = softcap}); });
}

TEST(MisusedModules, Positions) {
  using Kind = PositionKind;
  for (const Kind kind : {Kind::learned, Kind::rotary, Kind::relative, Kind::alibi, Kind::none})
    expect_refusal("sinusoidal_positions", "kind", [&] { sinusoidal_positions(kind, 3, 4); });
  expect_refusal("shape", "count", [] { sinusoidal_positions(Kind::sinusoidal_halves, -1, 4); });
  expect_refusal("shape", "width", [] { sinusoidal_positions(Kind::sinusoidal_halves, 3, -4); });
  for (const int64_t width : {int64_t{0}, int64_t{-2}, int64_t{3}, kLowest})
    expect_refusal("rotary", "width", [&] { rotary_table({}, width, 4); });
  expect_refusal("rotary", "count", [] { rotary_table({}, 4, -1); });
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {0.0, -1.0, kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    expect_refusal("rotary", "base", [&] { rotary_table({.rotary_base = number}, 4, 3); });
    expect_refusal("rotary", "factor", [&] {
      rotary_table({.rotary_scaling = {.kind = RotaryScalingKind::linear, .factor = number}}, 4, 3);
    });
  }
  for (const int64_t buckets : {int64_t{0}, int64_t{-4}, int64_t{2}, int64_t{33}, kHuge}) {
    const PositionOptions options{.kind = Kind::relative, .buckets = buckets};
    expect_refusal("positions", "buckets", [&] { relative_bucket(3, options, Direction::both); });
    expect_refusal("positions", "buckets", [&] { RelativePositions(options, 2, Direction::both); });
  }
  const PositionOptions relative{.kind = Kind::relative};
  for (const int64_t distance : {kHuge, kLowest}) {
    const int64_t bucket = relative_bucket(distance, relative, Direction::both);
    EXPECT_EQ(bucket, distance > 0 ? 31 : 15);
  }
  EXPECT_EQ(relative_bucket(kLowest, relative, Direction::backwards), 31);
  RelativePositions positions(relative, 2, Direction::both);
  initialise(positions, 1);
  for (const int64_t n : {int64_t{-1}, kHuge, kLowest})
    expect_refusal("positions", "length", [&] { positions(n); });
  const Offsets offsets({0, 2, 3});
  for (const auto& unfit : {unfit_elements(Tensor::zeros({2}, DType::i32), {}),
                            unfit_shapes(Tensor::zeros({2}, DType::i32), {})}) {
    for (const Unfit& first : unfit) {
      if (!first.tensor.defined()) continue;
      expect_refusal("position_ids", first.what, [&] { position_ids(offsets, first.tensor); });
    }
  }
  for (const int32_t first : {-1, INT32_MAX, INT32_MIN}) {
    expect_refusal("position_ids", "first", [&] {
      position_ids(offsets, Tensor::from(std::vector{first, 0}, {2}));
    });
  }
}

TEST(MisusedModules, Inputs) {
  const EncoderLayer module(layer());
  ForwardContext context;
  const Offsets offsets({0, 1, 3});
  const Tensor x = random_tensor({3, 8}, 1);
  expect_refusal("", "not initialised", [&] { module(x, offsets, {}, context); });
  initialise(module, 1);
  const Tensor expected = module(x, offsets, {}, context).value();
  for (const auto& unfit : {unfit_elements(x, {}), unfit_shapes(x, {0})}) {
    for (const Unfit& in : unfit)
      expect_refusal("", in.what, [&] { module(in.tensor, offsets, {}, context); });
  }
  expect_refusal("", "an undefined variable", [&] { module(Variable(), offsets, {}, context); });
  for (const Offsets& others : {Offsets(), Offsets({0, 2}), Offsets({0, 1, 4})})
    expect_refusal("attention", "offsets", [&] { module(x, others, {}, context); });
  expect_refusal_or(expected, "columns", [&] { return module(strided(x), offsets, {}, context).value(); });

  Decoder decoder({.layers = 2, .layer = layer()});
  initialise(decoder, 1);
  const Memory memory{x, offsets};
  const Tensor rows = random_tensor({4, 8}, 2);
  const Offsets own({0, 2, 4});
  for (const auto& unfit : {unfit_elements(x, {}), unfit_shapes(x, {0})}) {
    for (const Unfit& in : unfit) {
      expect_refusal("", "memory " + in.what, [&] { decoder(rows, own, {in.tensor, offsets}, context); });
      expect_refusal("", "start " + in.what, [&] {
        return decoder.start({in.tensor, offsets}).layers.size();
      });
    }
  }
  expect_refusal("", "no memory", [&] { decoder(rows, own, {}, context); });
  expect_refusal("", "another number of sequences", [&] {
    decoder(rows, own, {x, Offsets({0, 3})}, context);
  });
  expect_refusal("memory", "offsets that end early", [&] {
    return decoder.start({x, Offsets({0, 1, 2})}).layers.size();
  });
  expect_refusal("cache", "dtype", [&] { return decoder.start(memory, DType::i32).layers.size(); });

  const Embedding embedding({.d_model = 8}, random_tensor({5, 8}, 3));
  const Ragged ids = Ragged::from<int32_t>({{1}, {2, 4}});
  const auto embed = [&](const Ragged& in, const TokenPlaces& places) {
    return [&embedding, &context, in, places] { return embedding(in, context, places).value(); };
  };
  for (const auto& unfit : {unfit_elements(ids.values, {}), unfit_shapes(ids.values, {0})}) {
    for (const Unfit& in : unfit) {
      expect_refusal("", "ids " + in.what, embed({in.tensor, ids.offsets}, {}));
      if (!in.tensor.defined()) continue;
      expect_refusal("", "positions " + in.what, embed(ids, {.positions = in.tensor}));
    }
  }
  for (const int64_t count : {0, 2, 4}) {
    const Tensor others = Tensor::zeros({count}, DType::i32);
    expect_refusal("embedding", "another number of ids", embed({others, ids.offsets}, {}));
    expect_refusal("embedding", "another number of positions", embed(ids, {.positions = others}));
  }
  for (const int32_t id : {-1, 5, INT32_MAX})
    expect_refusal("embedding", "id", embed(Ragged::from<int32_t>({{id}}), {}));
  expect_refusal("embedding", "a negative position",
                 embed(ids, {.positions = Tensor::from(std::vector{0, -1, 2}, {3})}));
}

TEST(MisusedModules, States) {
  Decoder decoder({.layers = 2, .layer = layer(false)});
  initialise(decoder, 1);
  const Memory two{.offsets = Offsets({0, 0, 0})};
  const Tensor x = random_tensor({5, 8}, 1);
  const auto started = [&] {
    DecoderState state = decoder.start(two);
    decoder.read(x, Offsets({0, 2, 5}), state);
    return state;
  };
  DecoderState state = started();
  for (const Offsets& offsets : {Offsets(), Offsets({0, 5}), Offsets({0, 2, 4}), Offsets({0, 1, 2, 5})})
    expect_refusal("", "read", [&] { decoder.read(x, offsets, state); });
  for (const auto& unfit :
       {unfit_elements(random_tensor({2, 8}, 2), {}), unfit_shapes(random_tensor({2, 8}, 2), {0})}) {
    for (const Unfit& in : unfit) {
      DecoderState own = started();
      expect_refusal("", "step " + in.what, [&] { decoder.step(in.tensor, own); });
    }
  }
  for (const int64_t rows : {0, 1, 3}) {
    DecoderState own = started();
    expect_refusal("cache", "a step of other rows", [&] { decoder.step(Tensor::zeros({rows, 8}), own); });
  }
  DecoderState none;
  expect_refusal("decoder", "an empty state", [&] { decoder.step(random_tensor({2, 8}, 2), none); });
  expect_refusal("decoder", "an empty state", [&] { decoder.read(x, Offsets({0, 2, 5}), none); });
  expect_refusal("decoder state", "an empty state", [&] { none.next_positions(); });
  DecoderState moved = started();
  const DecoderState taken = std::move(moved);
  expect_refusal("decoder", "a moved-from state", [&] {
    decoder.step(random_tensor({2, 8}, 2), moved);
  });  // NOLINT(bugprone-use-after-move)
  Decoder deeper({.layers = 3, .layer = layer(false)});
  initialise(deeper, 1);
  DecoderState other = deeper.start(two);
  expect_refusal("decoder", "a state of another decoder", [&] {
    decoder.step(random_tensor({2, 8}, 2), other);
  });
  expect_refusal("decoder state", "joined", [&] { state.join(deeper.start(two)); });
  for (const int64_t positions : {int64_t{-1}, int64_t{3}, kHuge, kLowest})
    expect_refusal("cache", "share", [&] { return state.share(positions).layers.size(); });
  // Parents in other sequences, out of range, and too few.
  const Offsets rows({0, 2, 4});
  using Parents = std::vector<int32_t>;
  for (const Parents& parents : {Parents{0, 0, 1}, Parents{0, 1, 1, 1}, Parents{0, 0, 1, 0},
                                 Parents{-1, 0, 1, 1}, Parents{0, 0, 1, 2}, Parents{}})
    expect_refusal("cache", "reorder", [&] { state.reorder(parents, rows); });
  expect_refusal("cache", "reorder", [&] { state.reorder(Parents{0}, Offsets({0, 1})); });
  // Failed calls leave the state unchanged.
  DecoderState fresh = started();
  const Tensor next = random_tensor({2, 8}, 2);
  const Tensor expected = decoder.step(next, fresh);
  expect_refusal_or(expected, "the state after refused calls", [&] { return decoder.step(next, state); });
}

TEST(MisusedModules, Caches) {
  for (const int64_t number : {int64_t{-1}, kHuge, kLowest}) {
    expect_refusal("cache", "sequences", [&] { KeyValueCache{number}; });
    expect_refusal("cache", "positions", [&] { block_bytes(number, 8, DType::f32); });
    expect_refusal("cache", "width", [&] { block_bytes(8, number, DType::f32); });
    expect_refusal("cache", "positions", [&] { cache_bytes(layer(), number, 3, DType::f32); });
    expect_refusal("cache", "memory tokens", [&] { cache_bytes(layer(), 3, number, DType::f32); });
    if (number != kHuge) expect_refusal("cache", "window", [&] { KeyValueCache(1, {.window = number}); });
  }
  for (const DType dtype : {DType::i32, DType::u8, DType::i8})
    expect_refusal("cache", "dtype", [&] { KeyValueCache(1, {.dtype = dtype}); });
  const Offsets two({0, 1, 3});
  const Tensor keys = random_tensor({3, 4}, 1), values = random_tensor({3, 6}, 2);
  KeyValueCache cache(2);
  for (const auto& unfit : {unfit_elements(keys, {}), unfit_shapes(keys, {1})}) {
    for (const Unfit& in : unfit) {
      expect_refusal("cache", "keys " + in.what, [&] { cache.append(in.tensor, values, two); });
      expect_refusal("cache", "values " + in.what, [&] { cache.append(keys, in.tensor, two); });
    }
  }
  EXPECT_EQ(cache.length(1), 0);
  cache.append(strided(keys), strided(values), two);
  for (const int64_t row : {int64_t{-1}, int64_t{2}, kHuge, kLowest}) {
    expect_refusal("cache", "length", [&] { cache.length(row); });
    expect_refusal("cache", "entries", [&] { cache.entries(row); });
  }
  EXPECT_EQ(cache.entries(1, -1).size(), 0u);
  EXPECT_EQ(cache.entries(1, kHuge).size(), 2u);
  expect_refusal("cache", "another width", [&] { cache.append(values, values, two); });
  expect_refusal("cache", "another number of rows", [&] { cache.append(keys, values, Offsets({0, 3})); });
  KeyValueCache wide(1);
  wide.append(values, values, Offsets({0, 3}));
  expect_refusal("cache", "join", [&] { cache.join(std::move(wide)); });
  cache.reorder(std::vector<int32_t>{0, 0, 1}, Offsets({0, 2, 3}));
  expect_refusal("cache", "rows of different lengths", [&] {
    cache.append(random_tensor({4, 4}, 3), random_tensor({4, 6}, 3), Offsets({0, 1, 3, 4}));
  });
  const Tensor expected = concat_rows(keys, values);
  expect_refusal_or(expected, "what it holds after that", [&] { return cache.load(); });

  const MemoryKeyValues none;
  expect_refusal("memory", "entries", [&] { none.entries(0); });
  for (const auto& unfit : {unfit_elements(values, {}), unfit_shapes(values, {1})}) {
    for (const Unfit& in : unfit) expect_refusal("memory", in.what, [&] { MemoryKeyValues(in.tensor, two); });
  }
  PrefixCache prefixes(-1);
  prefixes.keep(std::vector<int32_t>{1, 2}, {});
  EXPECT_FALSE(prefixes.find(std::vector<int32_t>{1, 2}).has_value());
}

TEST(MisusedModules, Parameters) {
  const Parameter none, bias({3}, {}), matrix = Parameter::weight_matrix({2, 3}, {});
  expect_refusal("", "initialise", [&] { initialise("none", none, 1); });
  expect_refusal("", "set_value", [&] { none.set_value({}); });
  expect_refusal("", "move_to", [&] { move_to(none, Device::cpu); });
  expect_refusal("parameter", "a quantized bias", [&] { bias.set_value({Tensor::zeros({3}, DType::bf16)}); });
  for (const Unfit& unfit : unfit_shapes(Tensor::zeros({2, 3}), {}))
    expect_refusal("parameter", unfit.what, [&] { matrix.set_value({unfit.tensor}); });
  const Scratch folder;
  expect_refusal("", "save without values", [&] {
    save_weights(folder / "x.safetensors", {{"bias", bias}});
  });
  expect_refusal("", "save nothing", [&] { save_weights(folder / "x.safetensors", {{"none", none}}); });
  expect_refusal("", "no such file", [&] { load_weights(folder / "y.safetensors", {{"bias", bias}}); });
  expect_refusal("", "no such folder", [&] { save_weights(folder / "no" / "x.safetensors", {}); });
}

}  // namespace
