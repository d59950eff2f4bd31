// Modules: options, inputs and decoder states.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/nn/attention/prefix_cache.h"
#include "qkv/nn/decoder.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/nn/weights_file.h"
#include "qkv/ops/rotary.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::nn;
using namespace qkv::testing;

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
    THROWS("attention", MultiheadAttention({.d_model = size})) << ("d_model " + what);
    THROWS("attention", MultiheadAttention({.d_model = 8, .heads = size})) << ("heads " + what);
    THROWS("", Linear({.inputs = size, .outputs = 2})) << ("inputs " + what);
    THROWS("", Linear({.inputs = 2, .outputs = size})) << ("outputs " + what);
    THROWS("", DenseFeedForward({.d_model = 8, .d_ff = size})) << ("d_ff " + what);
    THROWS("", EncoderLayer({.d_model = 8, .heads = 2, .d_ff = size})) << ("layer d_ff " + what);
    THROWS("alibi_slopes", alibi_slopes(size == kHuge ? -kHuge : size)) << what;
    if (size == 0) continue;
    THROWS("attention", MultiheadAttention({.d_model = 8, .key_heads = size}));
    THROWS("attention", MultiheadAttention({.d_model = 8, .d_k = size})) << ("d_k " + what);
    THROWS("attention", MultiheadAttention({.d_model = 8, .d_v = size})) << ("d_v " + what);
    THROWS("shape", Norm({.features = size})) << ("norm " + what);
    if (size == kHuge) continue;
    THROWS("layers", Encoder({.layers = alike(size, layer())})) << ("layers " + what);
    THROWS("attention", MultiheadAttention({.d_model = 8, .variant = {.window = size}}))
        << ("window " + what);
  }
  THROWS("decoder", Decoder({.layers = alike(0, layer())}));
  THROWS("attention", MultiheadAttention({.d_model = 8, .heads = 3}));
  THROWS("attention", MultiheadAttention({.d_model = 8, .heads = 4, .key_heads = 3}));
  THROWS("attention",
         MultiheadAttention(
             {.d_model = 6, .heads = 2, .variant = {.positions = {.kind = PositionKind::rotary}}}));
  for (const float softcap : {-1.0f, kNan, std::numeric_limits<float>::infinity()})
    THROWS("attention", MultiheadAttention({.d_model = 8, .variant = {.softcap = softcap}}));
}

TEST(MisusedModules, Positions) {
  using Kind = PositionKind;
  for (const Kind kind : {Kind::learned, Kind::rotary, Kind::relative, Kind::alibi, Kind::none})
    THROWS("sinusoidal_positions", sinusoidal_positions(kind, 3, 4));
  THROWS("shape", sinusoidal_positions(Kind::sinusoidal_halves, -1, 4));
  THROWS("shape", sinusoidal_positions(Kind::sinusoidal_halves, 3, -4));
  for (const int64_t width : {int64_t{0}, int64_t{-2}, int64_t{3}, kLowest})
    THROWS("rotary", rotary_table({}, width, 4));
  THROWS("rotary", rotary_table({}, 4, -1));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {0.0, -1.0, kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    THROWS("rotary", rotary_table({.rotary_base = number}, 4, 3));
    THROWS("rotary",
           rotary_table({.rotary_scaling = {.kind = RotaryScalingKind::linear, .factor = number}}, 4, 3));
  }
  for (const int64_t buckets : {int64_t{0}, int64_t{-4}, int64_t{2}, int64_t{33}, kHuge}) {
    const PositionOptions options{.kind = Kind::relative, .buckets = buckets};
    THROWS("positions", relative_bucket(3, options, Direction::both));
    THROWS("positions", RelativePositions(options, 2, Direction::both));
  }
  const PositionOptions relative{.kind = Kind::relative};
  for (const int64_t distance : {kHuge, kLowest}) {
    const int64_t bucket = relative_bucket(distance, relative, Direction::both);
    EXPECT_EQ(bucket, distance > 0 ? 31 : 15);
  }
  EXPECT_EQ(relative_bucket(kLowest, relative, Direction::backwards), 31);
  RelativePositions positions(relative, 2, Direction::both);
  initialise(positions, 1);
  for (const int64_t n : {int64_t{-1}, kHuge, kLowest}) THROWS("positions", positions(n));
  const Offsets offsets({0, 2, 3});
  for (const Unfit& first : unfit_variants(Tensor::zeros({2}, DType::i32), {})) {
    if (!first.tensor.defined()) continue;
    THROWS("position_ids", position_ids(offsets, first.tensor)) << first.what;
  }
  for (const int32_t first : {-1, INT32_MAX, INT32_MIN}) {
    THROWS("position_ids", position_ids(offsets, Tensor::from(std::vector{first, 0}, {2})));
  }
}

TEST(MisusedModules, Inputs) {
  const EncoderLayer module(layer());
  ForwardContext context;
  const Offsets offsets({0, 1, 3});
  const Tensor x = random_tensor({3, 8}, 1);
  THROWS("", module(x, offsets, {}, context));
  initialise(module, 1);
  for (const Unfit& in : unfit_variants(x, {0}))
    THROWS("", module(in.tensor, offsets, {}, context)) << in.what;
  THROWS("", module(Variable(), offsets, {}, context));
  for (const Offsets& others : {Offsets(), Offsets({0, 2}), Offsets({0, 1, 4})})
    THROWS("attention", module(x, others, {}, context));
  THROWS("contiguous", module(strided(x), offsets, {}, context));

  Decoder decoder({.layers = alike(2, layer())});
  initialise(decoder, 1);
  const Memory memory{x, offsets};
  const Tensor rows = random_tensor({4, 8}, 2);
  const Offsets own({0, 2, 4});
  for (const Unfit& in : unfit_variants(x, {0})) {
    THROWS("", decoder(rows, own, {in.tensor, offsets}, context)) << ("memory " + in.what);
    THROWS("", decoder.start({in.tensor, offsets}).layers.size()) << ("start " + in.what);
  }
  THROWS("", decoder(rows, own, {}, context));
  THROWS("", decoder(rows, own, {x, Offsets({0, 3})}, context));
  THROWS("memory", decoder.start({x, Offsets({0, 1, 2})}).layers.size());
  THROWS("cache", decoder.start(memory, DType::i32).layers.size());

  const Embedding embedding({.d_model = 8}, random_tensor({5, 8}, 3));
  const Ragged ids = Ragged::from<int32_t>({{1}, {2, 4}});
  const auto embed = [&](const Ragged& in, const TokenPlaces& places) {
    return [&embedding, &context, in, places] { return embedding(in, context, places).value(); };
  };
  for (const Unfit& in : unfit_variants(ids.values, {0})) {
    THROWS("", embed({in.tensor, ids.offsets}, {})()) << ("ids " + in.what);
    if (!in.tensor.defined()) continue;
    THROWS("", embed(ids, {.positions = in.tensor})()) << ("positions " + in.what);
  }
  for (const int64_t count : {0, 2, 4}) {
    const Tensor others = Tensor::zeros({count}, DType::i32);
    THROWS("embedding", embed({others, ids.offsets}, {})());
    THROWS("embedding", embed(ids, {.positions = others})());
  }
  for (const int32_t id : {-1, 5, INT32_MAX}) THROWS("embedding", embed(Ragged::from<int32_t>({{id}}), {})());
  THROWS("embedding", embed(ids, {.positions = Tensor::from(std::vector{0, -1, 2}, {3})})());
}

TEST(MisusedModules, States) {
  Decoder decoder({.layers = alike(2, layer(false))});
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
    THROWS("", decoder.read(x, offsets, state));
  for (const Unfit& in : unfit_variants(random_tensor({2, 8}, 2), {0})) {
    DecoderState own = started();
    THROWS("", decoder.step(in.tensor, own)) << ("step " + in.what);
  }
  for (const int64_t rows : {0, 1, 3}) {
    DecoderState own = started();
    THROWS("cache", decoder.step(Tensor::zeros({rows, 8}), own));
  }
  DecoderState none;
  THROWS("decoder", decoder.step(random_tensor({2, 8}, 2), none));
  THROWS("decoder", decoder.read(x, Offsets({0, 2, 5}), none));
  THROWS("decoder state", none.next_positions());
  DecoderState moved = started();
  const DecoderState taken = std::move(moved);
  THROWS("decoder", decoder.step(random_tensor({2, 8}, 2), moved));  // NOLINT(bugprone-use-after-move)
  Decoder deeper({.layers = alike(3, layer(false))});
  initialise(deeper, 1);
  DecoderState other = deeper.start(two);
  THROWS("decoder", decoder.step(random_tensor({2, 8}, 2), other));
  THROWS("decoder state", state.join(deeper.start(two)));
  for (const int64_t positions : {int64_t{-1}, int64_t{3}, kHuge, kLowest})
    THROWS("cache", state.share(positions).layers.size());
  // Parents in other sequences, out of range, and too few.
  const Offsets rows({0, 2, 4});
  using Parents = std::vector<int32_t>;
  for (const Parents& parents : {Parents{0, 0, 1}, Parents{0, 1, 1, 1}, Parents{0, 0, 1, 0},
                                 Parents{-1, 0, 1, 1}, Parents{0, 0, 1, 2}, Parents{}})
    THROWS("cache", state.reorder(parents, rows));
  THROWS("cache", state.reorder(Parents{0}, Offsets({0, 1})));
  // Failed calls leave the state unchanged.
  DecoderState fresh = started();
  const Tensor next = random_tensor({2, 8}, 2);
  const Tensor expected = decoder.step(next, fresh);
  RETURNS(expected, decoder.step(next, state));
}

TEST(MisusedModules, Caches) {
  for (const int64_t number : {int64_t{-1}, kHuge, kLowest}) {
    THROWS("cache", KeyValueCache{number});
    THROWS("cache", block_bytes(number, 8, DType::f32));
    THROWS("cache", block_bytes(8, number, DType::f32));
    THROWS("cache", cache_bytes({.layers = {layer()}}, {.prompt = number}, 3, DType::f32));
    THROWS("cache", cache_bytes({.layers = {layer()}}, {.prompt = 3}, number, DType::f32));
    if (number != kHuge) {
      THROWS("cache", KeyValueCache(1, {.window = number}));
    }
  }
  for (const DType dtype : {DType::i32, DType::u8, DType::i8})
    THROWS("cache", KeyValueCache(1, {.dtype = dtype}));
  const Offsets two({0, 1, 3});
  const Tensor keys = random_tensor({3, 4}, 1), values = random_tensor({3, 6}, 2);
  KeyValueCache cache(2);
  for (const Unfit& in : unfit_variants(keys, {1})) {
    THROWS("cache", cache.append(in.tensor, values, two)) << ("keys " + in.what);
    THROWS("cache", cache.append(keys, in.tensor, two)) << ("values " + in.what);
  }
  EXPECT_EQ(cache.length(1), 0);
  cache.append(strided(keys), strided(values), two);
  for (const int64_t row : {int64_t{-1}, int64_t{2}, kHuge, kLowest}) {
    THROWS("cache", cache.length(row));
  }
  EXPECT_EQ(cache.positions(-1)[1].numbers.size(), 0u);
  EXPECT_EQ(cache.positions(kHuge)[1].numbers.size(), 2u);
  THROWS("cache", cache.append(values, values, two));
  THROWS("cache", cache.append(keys, values, Offsets({0, 3})));
  KeyValueCache wide(1);
  wide.append(values, values, Offsets({0, 3}));
  THROWS("cache", cache.join(std::move(wide)));
  cache.reorder(std::vector<int32_t>{0, 0, 1}, Offsets({0, 2, 3}));
  THROWS("cache", cache.append(random_tensor({4, 4}, 3), random_tensor({4, 6}, 3), Offsets({0, 1, 3, 4})));
  const Tensor expected = concat_rows(keys, values);
  RETURNS(expected, cache.load());

  const MemoryKeyValues none;
  THROWS("memory", none.tokens(0));
  for (const Unfit& in : unfit_variants(values, {1}))
    THROWS("memory", MemoryKeyValues(in.tensor, two)) << in.what;
  PrefixCache prefixes;
  prefixes.limit(-1);
  prefixes.keep(std::vector<int32_t>{1, 2}, {});
  EXPECT_FALSE(prefixes.find(std::vector<int32_t>{1, 2}).has_value());
}

TEST(MisusedModules, Parameters) {
  const Parameter none, bias({3}, {}), matrix = Parameter::weight_matrix({2, 3}, {});
  THROWS("", initialise("none", none, 1));
  THROWS("", none.set_value({}));
  THROWS("", move_to(none, Device::cpu));
  THROWS("parameter", bias.set_value({Tensor::zeros({3}, DType::bf16)}));
  for (const Unfit& unfit : unfit_shapes(Tensor::zeros({2, 3}), {}))
    THROWS("parameter", matrix.set_value({unfit.tensor})) << unfit.what;
  const Scratch folder;
  THROWS("", save_weights(folder / "x.safetensors", {{"bias", bias}}));
  THROWS("", save_weights(folder / "x.safetensors", {{"none", none}}));
  THROWS("", load_weights(folder / "y.safetensors", {{"bias", bias}}));
  THROWS("", save_weights(folder / "no" / "x.safetensors", {}));
}

}  // namespace
