// The part of an encoder that reads audio, against convolutions written out; models that read audio.

#include "qkv/models/audio_stem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/models/transformer.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/models/small_transformer.h"
#include "tests/ops/gradient_check.h"
#include "tests/support/devices.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

using namespace qkv::models;

constexpr AudioStemOptions kSmallStem{.mel_bins = 5, .d_model = 7, .positions = 6};

std::vector<Tensor> random_parameters(const AudioStem& stem) {
  std::vector<Tensor> values;
  stem.visit([&](const std::string&, const nn::Parameter& parameter) {
    values.push_back(random_tensor(parameter.shape, 11 + values.size()));
  });
  return values;
}

void set_parameters(const AudioStem& stem, const std::vector<Tensor>& values) {
  size_t i = 0;
  stem.visit([&](const std::string&, const nn::Parameter& parameter) {
    parameter.set_value({.values = values[i++], .scales = {}});
  });
}

AudioStem random_stem(const AudioStemOptions& options = kSmallStem) {
  AudioStem stem(options);
  set_parameters(stem, random_parameters(stem));
  return stem;
}

Tensor stem_rows(const AudioStem& stem, const Tensor& frames, const Offsets& offsets, bool training = false) {
  nn::ForwardContext context{.training = training};
  return stem(frames, offsets, context).value();
}

using Matrix = std::vector<std::vector<double>>;

Matrix rows_of(const Tensor& x) {
  Matrix rows;
  for (int64_t r = 0; r < x.rows(); ++r)
    rows.emplace_back(x.data() + r * x.cols(), x.data() + (r + 1) * x.cols());
  return rows;
}

// gelu of a convolution with three taps and padding of one, as torch.nn.Conv1d defines it. weight: [outputs,
// 3
// * inputs], the inputs of the first tap first.
Matrix convolved(const Matrix& x, const Matrix& weight, const std::vector<double>& bias, int64_t stride) {
  Matrix result;
  const auto length = std::ssize(x);
  for (int64_t centre = 0; centre < length; centre += stride) {
    std::vector<double>& row = result.emplace_back();
    for (size_t o = 0; o < weight.size(); ++o) {
      double sum = bias[o];
      for (int64_t tap = 0; tap < 3; ++tap) {
        const int64_t at = centre + tap - 1;
        if (at < 0 || at >= length) continue;
        const std::vector<double>& in = x[static_cast<size_t>(at)];
        for (size_t i = 0; i < in.size(); ++i)
          sum += weight[o][static_cast<size_t>(tap) * in.size() + i] * in[i];
      }
      row.push_back(0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))));
    }
  }
  return result;
}

Tensor convolved_twice(const std::vector<Tensor>& parameters, const Tensor& frames) {
  const Matrix x = convolved(rows_of(frames), rows_of(parameters[0]),
                             {parameters[1].values().begin(), parameters[1].values().end()}, 1);
  const Matrix y =
      convolved(x, rows_of(parameters[2]), {parameters[3].values().begin(), parameters[3].values().end()}, 2);
  const Matrix positions = rows_of(parameters[4]);
  std::vector<float> all;
  for (size_t r = 0; r < y.size(); ++r)
    for (size_t c = 0; c < y[r].size(); ++c) all.push_back(static_cast<float>(y[r][c] + positions[r][c]));
  return Tensor::from(all, {std::ssize(y), std::ssize(y.front())});
}

TEST(AudioStem, IsTwoConvolutionsAndPositions) {
  const AudioStem stem(kSmallStem);
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  stem.visit([&](const std::string& name, const nn::Parameter& parameter) {
    names.push_back(name);
    shapes.push_back(parameter.shape);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                             "embed_positions.weight"}));
  EXPECT_EQ(shapes, (std::vector<Shape>{{7, 15}, {7}, {7, 21}, {7}, {6, 7}}));
  const std::vector<Tensor> parameters = random_parameters(stem);
  set_parameters(stem, parameters);
  for (const int64_t length : {2, 4, 8, 12}) {
    const Tensor frames = random_tensor({length, 5}, 3);
    const Tensor expected = convolved_twice(parameters, frames);
    for (const bool training : {false, true})
      expect_close(stem_rows(stem, frames, Offsets::uniform(1, length), training), expected,
                   concat(length, " frames"));
  }
}

TEST(AudioStem, GivesASequenceTheBitsThatItHasAlone) {
  constexpr AudioStemOptions kWide{.mel_bins = 20, .d_model = 24, .positions = 50};
  const AudioStem stem = random_stem(kWide);
  const std::vector<int32_t> lengths{6, 2, 0, 100, 4, 58};
  const Offsets offsets = Offsets::of_lengths(lengths);
  const Tensor frames = random_tensor({offsets.tokens(), 20}, 4);
  EXPECT_EQ(audio_rows(offsets), Offsets::of_lengths(std::vector<int32_t>{3, 1, 0, 50, 2, 29}));
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    for (const bool training : {false, true}) {
      const Tensor together = stem_rows(stem, frames, offsets, training);
      ASSERT_EQ(together.shape(), (Shape{85, 24}));
      for (int64_t s = 0; s < offsets.sequences(); ++s) {
        if (offsets.length(s) == 0) continue;
        const Tensor alone = stem_rows(stem, frames.slice_rows(offsets.begin(s), offsets.length(s)),
                                       Offsets::uniform(1, offsets.length(s)), training);
        const Tensor part = together.slice_rows(offsets.begin(s) / 2, offsets.length(s) / 2);
        EXPECT_EQ(std::memcmp(alone.data(), part.data(), alone.bytes()), 0) << "sequence " << s;
      }
    }
  }
  set_threads(before);
}

TEST(AudioStem, ComputesOnEachDevice) {
  const Offsets offsets = Offsets::of_lengths(std::vector<int32_t>{4, 12, 2});
  const Tensor frames = random_tensor({18, 5}, 5);
  const Tensor expected = stem_rows(random_stem(), frames, offsets);
  for_each_device([&](Device device) {
    const AudioStem stem = random_stem();
    nn::move_to(stem, device);
    const Tensor found = stem_rows(stem, frames, offsets);
    EXPECT_EQ(found.device(), device);
    expect_close(to_host(found), expected, "rows");
  });
}

// Of both convolutions' weights and biases and of the positions, of which sequences of several lengths use
// the same rows.
TEST(AudioStem, HasTheGradientsOfDifferences) {
  const AudioStem stem(kSmallStem);
  const Offsets offsets = Offsets::of_lengths(std::vector<int32_t>{6, 2, 10});
  const Tensor frames = random_tensor({18, 5}, 6), coefficients = random_tensor({9, 7}, 7);
  const std::vector<Tensor> parameters = random_parameters(stem);
  for (const bool training : {false, true}) {
    const auto run = [&](const std::vector<Variable>& leaves) {
      std::vector<Tensor> values;
      for (const Variable& leaf : leaves) values.push_back(leaf.value());
      set_parameters(stem, values);
      nn::ForwardContext context{.training = training};
      return stem(frames, offsets, context);
    };
    set_parameters(stem, parameters);
    Gradients gradients;
    {
      nn::ForwardContext context{.training = training};
      Tape tape;
      tape.backward(weighted_sum(stem(frames, offsets, context), coefficients));
      stem.visit([&](const std::string&, const nn::Parameter& parameter) {
        gradients.push_back(parameter.variable.grad().clone());
        parameter.variable.clear_grad();
      });
    }
    ASSERT_EQ(gradients.size(), 5u);
    // The last position belongs to no sequence.
    for (const float value : gradients.back().slice_rows(5, 1).values()) EXPECT_EQ(value, 0);
    check_against_differences({.function = run, .inputs = parameters}, gradients, coefficients);
  }
}

TEST(AudioStem, RefusesOtherFrames) {
  const AudioStem stem = random_stem();
  const auto run = [&](const Tensor& frames, const Offsets& offsets) { stem_rows(stem, frames, offsets); };
  const auto lengths = [](std::vector<int32_t> values) { return Offsets::of_lengths(values); };
  expect_throw<UsageError>("audio: expected an even number of frames, found 3", [&] {
    run(random_tensor({7, 5}, 1), lengths({4, 3}));
  });
  expect_throw<UsageError>("audio: expected at most 12 frames, found 14", [&] {
    run(random_tensor({16, 5}, 1), lengths({2, 14}));
  });
  expect_throw<ShapeError>("audio: expected frames [4, 5], found [4, 6]", [&] {
    run(random_tensor({4, 6}, 1), lengths({4}));
  });
  expect_throw<ShapeError>("audio: expected frames [6, 5], found [4, 5]", [&] {
    run(random_tensor({4, 5}, 1), lengths({4, 2}));
  });
  expect_throw<ShapeError>("audio: expected frames [4, 5], found [20]",
                           [&] { run(random_tensor({20}, 1), lengths({4})); });
  expect_throw<ShapeError>("audio: expected frames [4, 5], found", [&] { run(Tensor(), lengths({4})); });
  for (const AudioStemOptions& bad : {AudioStemOptions{.mel_bins = 0, .d_model = 4, .positions = 4},
                                      AudioStemOptions{.mel_bins = 4, .d_model = 0, .positions = 4},
                                      AudioStemOptions{.mel_bins = 4, .d_model = 4, .positions = 0}})
    EXPECT_THROW(AudioStem{bad}, Error);
}

TransformerConfig small_audio_config() {
  TransformerConfig config = small(Tying::two_way);
  config.source_vocabulary = 0;
  config.mel_bins = 5;
  config.source_positions = 8;
  config.encoder_layers = config.decoder_layers = 1;
  return config;
}

TEST(AudioConfig, HasNoVocabularyOfSources) {
  small_audio_config().validate();
  const auto refused = [](const std::string& message, const auto& change) {
    TransformerConfig config = small_audio_config();
    change(config);
    expect_throw<UsageError>(message, [&] { config.validate(); });
  };
  refused("mel_bins: expected no vocabulary of sources beside audio, found 30 entries",
          [](TransformerConfig& config) { config.source_vocabulary = 30; });
  for (const auto& [tying, name] : {std::pair{Tying::three_way, "three_way"}, {Tying::inputs, "inputs"}}) {
    refused(
        concat("mel_bins: expected no vocabulary of sources beside audio, found 0 entries and tying ", name),
        [&](TransformerConfig& config) { config.tying = tying; });
  }
  refused("source_positions: expected at least 1, found 0",
          [](TransformerConfig& config) { config.source_positions = 0; });
  refused("mel_bins: expected at least 0, found -1", [](TransformerConfig& config) { config.mel_bins = -1; });
  refused("source_vocabulary: expected at least 1, found 0",
          [](TransformerConfig& config) { config.mel_bins = 0; });
}

TEST(AudioConfig, ModelsReadOneKindOfSource) {
  Transformer of_audio(small_audio_config());
  nn::initialise(of_audio, 1);
  nn::ForwardContext context;
  const Ragged ids = Ragged::from<int32_t>({{1, 2}});
  expect_throw<UsageError>("encode: expected a model that reads tokens, found one of audio",
                           [&] { of_audio.encode(ids, context); });
  const Tensor frames = random_tensor({4, 5}, 1);
  const Offsets offsets = Offsets::uniform(1, 4);
  const nn::Memory memory = of_audio.encode_audio(frames, offsets, context);
  EXPECT_EQ(memory.offsets, Offsets::uniform(1, 2));
  EXPECT_EQ(memory.values.value().shape(), (Shape{2, 16}));
  TransformerConfig config = small_audio_config();
  config.mel_bins = 0;
  config.source_vocabulary = 30;
  Transformer of_tokens(config);
  nn::initialise(of_tokens, 1);
  expect_throw<UsageError>("encode_audio: expected a model that reads audio, found one of tokens",
                           [&] { of_tokens.encode_audio(frames, offsets, context); });
  of_tokens.encode(ids, context);
}

}  // namespace
}  // namespace qkv::testing
