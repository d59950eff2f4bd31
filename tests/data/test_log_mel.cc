// Whisper's features, compared with transformers' (tests/golden/audio.py).

#include "qkv/data/audio/log_mel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/io/safetensors.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::data;
using namespace qkv::testing;

// transformers rounds each bin to single precision (2^-24 of its value, 1.3e-8 in the logarithm), and both
// round the logarithm, between -10 and 2, to it: by 4.8e-7 at most, a quarter of which is in the feature. If
// they round to neighbours, the difference is 2.4e-7.
constexpr float kRounding = 2.5e-7F;

const io::SafetensorsFile& expected_features() {
  static const io::SafetensorsFile file(
      (std::filesystem::path(QKV_TEST_DATA) / "data/golden/audio/features.safetensors").string());
  return file;
}

void expect_features(const Tensor& found, const std::string& name) {
  const Tensor expected = expected_features().tensor(name);
  ASSERT_EQ(found.shape(), expected.shape()) << name;
  float largest = 0;
  for (int64_t i = 0; i < found.numel(); ++i)
    largest = std::max(largest, std::abs(found.values()[i] - expected.values()[i]));
  EXPECT_LE(largest, kRounding) << name;
}

std::vector<float> speech() {
  const Tensor signal = expected_features().tensor("signal");
  return {signal.values().begin(), signal.values().end()};
}

TEST(LogMel, MatchesTransformers) {
  const std::vector<float> signal = speech();
  expect_features(LogMel({.mel_bins = 80})(signal), "features.80");
  expect_features(LogMel({.mel_bins = 128})(signal), "features.128");
  expect_features(LogMel()(std::span(signal).first(2999)), "short.80");
}

// The definition, in other sizes than Whisper's, and for the fewest samples.
TEST(LogMel, IsTheSpectrumOfReflectedWindows) {
  const std::vector<float> signal = speech();
  for (const int64_t n_fft : {4, 8, 12, 36, 100}) {
    const LogMelOptions options{.mel_bins = 3, .rate = 8000, .n_fft = n_fft, .hop = 3};
    const int64_t size = n_fft / 2 + 1;
    const Tensor found = LogMel(options)(std::span(signal).first(static_cast<size_t>(size)));
    ASSERT_EQ(found.shape(), Shape({size / 3, 3}));
    const auto mel = [](double hertz) {
      return hertz < 1000 ? hertz * 0.015 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
    };
    const auto hertz = [](double m) { return m < 15 ? m / 0.015 : 1000 * std::pow(6.4, (m - 15) / 27); };
    std::vector<double> logs;
    for (int64_t t = 0; t < size / 3; ++t) {
      for (int m = 0; m < 3; ++m) {
        const double low = hertz(mel(4000) * m / 4), mid = hertz(mel(4000) * (m + 1) / 4),
                     high = hertz(mel(4000) * (m + 2) / 4);
        double sum = 0;
        for (int64_t k = 0; k <= n_fft / 2; ++k) {
          std::complex<double> bin = 0;
          for (int64_t n = 0; n < n_fft; ++n) {
            int64_t place = t * 3 - n_fft / 2 + n;
            if (place < 0) place = -place;
            if (place >= size) place = 2 * size - 2 - place;
            const double turn = 2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(n_fft);
            bin += (1 - std::cos(turn)) / 2 * double{signal[static_cast<size_t>(place)]} *
                   std::polar(1.0, -turn * static_cast<double>(k));
          }
          const double at = 8000.0 * static_cast<double>(k) / static_cast<double>(n_fft);
          const double height = std::min((at - low) / (mid - low), (high - at) / (high - mid));
          sum += std::max(height, 0.0) * 2 / (high - low) * std::norm(bin);
        }
        logs.push_back(std::log10(std::max(sum, 1e-10)));
      }
    }
    const double largest = *std::ranges::max_element(logs);
    for (size_t i = 0; i < logs.size(); ++i)
      EXPECT_NEAR(found.values()[i], (std::max(logs[i], largest - 8) + 4) / 4, 2 * kRounding) << n_fft;
  }
}

TEST(LogMel, SilenceIsTheFloor) {
  const Tensor found = LogMel()(std::vector<float>(1600, 0.0F));
  ASSERT_EQ(found.shape(), Shape({10, 80}));
  for (const float feature : found.values()) EXPECT_EQ(feature, -1.5F);  // (log10(1e-10) + 4) / 4
}

TEST(LogMel, HasTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> signal = speech();
  for (int i = 0; i < 3; ++i) signal.insert(signal.end(), signal.begin(), signal.end());
  const LogMel log_mel;
  const int before = threads();
  set_threads(1);
  const Tensor one = log_mel(signal);
  set_threads(4);
  const Tensor four = log_mel(signal);
  set_threads(before);
  EXPECT_TRUE(std::ranges::equal(one.values(), four.values()));
  // A frame depends on its window, and all on the largest feature: the first frames of a longer signal differ
  // from these only by it.
  EXPECT_EQ(one.dim(0), std::ssize(signal) / 160);
}

TEST(LogMel, RefusesWhatItCannotRead) {
  const LogMel log_mel;
  expect_throw<UsageError>("audio: expected at least 201 samples, found 0", [&] { log_mel({}); });
  expect_throw<UsageError>("found 200", [&] { log_mel(std::vector<float>(200, 0.5F)); });
  EXPECT_EQ(log_mel(std::vector<float>(201, 0.5F)).dim(0), 1);
  std::vector<float> signal(400, 0.5F);
  signal[77] = std::numeric_limits<float>::quiet_NaN();
  expect_throw<UsageError>("found nan", [&] { log_mel(signal); });
  expect_throw<UsageError>("mel_bins: expected 1 to 1024, found 0", [] { LogMel({.mel_bins = 0}); });
  expect_throw<UsageError>("n_fft: expected a multiple of 4, found 402", [] { LogMel({.n_fft = 402}); });
  expect_throw<UsageError>("n_fft: expected 4 to 2048", [] { LogMel({.n_fft = 1 << 20}); });
  expect_throw<UsageError>("hop: expected 1 to 400, found 0", [] { LogMel({.hop = 0}); });
  expect_throw<UsageError>("expected a rate from 1000", [] { LogMel({.rate = 0}); });
}

}  // namespace
