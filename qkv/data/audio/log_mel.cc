#include "qkv/data/audio/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/data/audio/limits.h"

namespace qkv::data {
namespace {

constexpr int64_t kMaxMelBins = 1024, kMaxWindow = 2048;
constexpr int64_t kFrames = 8;  // computed together, as vectors
constexpr int64_t kBlocksOfPiece = 8;

using Frames = std::array<double, kFrames>;

double mel_of(double hertz) {
  return hertz < 1000 ? 3 * hertz / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}

double hertz_of(double mel) {
  return mel < 15 ? 200 * mel / 3 : 1000 * std::exp(std::log(6.4) / 27 * (mel - 15));
}

// The place of a sample beyond an end, which is reflected there: x[-1] = x[1].
int64_t reflected(int64_t place, int64_t size) {
  if (place < 0) return -place;
  return place < size ? place : 2 * (size - 1) - place;
}

void require_between(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw UsageError(concat(field, ": expected ", least, " to ", most, ", found ", value));
}

}  // namespace

void LogMelOptions::validate() const {
  require_between("mel_bins", mel_bins, 1, kMaxMelBins);
  require_audio_rate(rate);
  require_between("n_fft", n_fft, 4, kMaxWindow);
  if (n_fft % 4 != 0) throw UsageError(concat("n_fft: expected a multiple of 4, found ", n_fft));
  require_between("hop", hop, 1, n_fft);
}

// Of kFrames windows. Symmetries of cosine and sine around n_fft / 2 and n_fft / 4 halve the terms twice:
// folded windows have n_fft / 4 terms or one more, for the bins of one parity.
struct LogMel::Scratch {
  explicit Scratch(int64_t n_fft)
      : windows(static_cast<size_t>(n_fft)),
        even_cosines(windows.size() / 4 + 1),
        even_sines(windows.size() / 4 + 1),
        odd_cosines(windows.size() / 4 + 1),
        odd_sines(windows.size() / 4 + 1),
        power(windows.size() / 2 + 4) {}

  std::vector<Frames> windows, even_cosines, even_sines, odd_cosines, odd_sines;
  std::vector<Frames> power;  // of bins 0 to n_fft / 2; room for what a pair has beyond
};

LogMel::LogMel(const LogMelOptions& options) : options_(options) {
  options_.validate();
  const int64_t n_fft = options_.n_fft, bins = n_fft / 2 + 1;
  for (int64_t n = 0; n < n_fft; ++n) {
    const double turn = static_cast<double>(n) / static_cast<double>(n_fft);
    window_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * turn));
  }
  const auto cosine = [](double x) { return std::cos(x); };
  const auto sine = [](double x) { return std::sin(x); };
  even_cosines_ = waves(0, 0, n_fft / 4 + 1, cosine);
  odd_cosines_ = waves(1, 0, n_fft / 4, cosine);
  even_sines_ = waves(0, 1, n_fft / 4 - 1, sine);
  odd_sines_ = waves(1, 1, n_fft / 4, sine);

  std::vector<double> corners;  // of the triangles, in hertz
  const auto steps = static_cast<double>(options_.mel_bins + 1);
  const double highest = static_cast<double>(options_.rate) / 2;
  for (int64_t i = 0; i <= options_.mel_bins + 1; ++i)
    corners.push_back(hertz_of(mel_of(highest) * static_cast<double>(i) / steps));
  for (size_t m = 0; m + 2 < corners.size(); ++m) {
    const double left = corners[m], top = corners[m + 1], right = corners[m + 2];
    Filter filter;
    for (int64_t k = 0; k < bins; ++k) {
      const double hertz = highest * static_cast<double>(k) / static_cast<double>(bins - 1);
      const double height = std::min((hertz - left) / (top - left), (right - hertz) / (right - top));
      if (height <= 0) continue;
      if (filter.weights.empty()) filter.first = k;
      filter.weights.push_back(height * 2 / (right - left));
    }
    filters_.push_back(std::move(filter));
  }
}

LogMel::Waves LogMel::waves(int64_t parity, int64_t first, int64_t terms, double (*wave)(double)) const {
  Waves result{.terms = terms};
  for (int64_t k = parity; k <= options_.n_fft / 2; k += 4) {
    for (int64_t n = first; n < first + terms; ++n) {
      for (const int64_t bin : {k, k + 2}) {
        const auto turn = static_cast<double>(bin * n % options_.n_fft);  // exact: small angles
        result.values.push_back(wave(2 * std::numbers::pi * turn / static_cast<double>(options_.n_fft)));
      }
    }
  }
  return result;
}

void LogMel::fold(std::span<const float> samples, int64_t begin, int64_t frames, Scratch& scratch) const {
  const int64_t n_fft = options_.n_fft, half = n_fft / 2, quarter = n_fft / 4, size = std::ssize(samples);
  for (int64_t f = 0; f < frames; ++f) {
    const int64_t start = (begin + f) * options_.hop - half;
    const bool inside = start >= 0 && start + n_fft <= size;
    for (int64_t n = 0; n < n_fft; ++n) {
      const auto place = static_cast<size_t>(inside ? start + n : reflected(start + n, size));
      const auto i = static_cast<size_t>(n);
      scratch.windows[i][static_cast<size_t>(f)] = window_[i] * double{samples[place]};
    }
  }
  const auto window = [&](int64_t n) -> const Frames& { return scratch.windows[static_cast<size_t>(n)]; };
  for (int64_t n = 0; n <= quarter; ++n) {
    const Frames &a = window(n), &b = window(half - n), &c = window(half + n),
                 &d = window((n_fft - n) % n_fft);
    const auto i = static_cast<size_t>(n), last = static_cast<size_t>(n - 1);
    for (size_t f = 0; f < kFrames; ++f) {
      // The sums and differences of x[n] and x[n_fft - n], and of their mirror images around n_fft / 4. What
      // is its own mirror image counts once.
      const double sum = n == 0 ? a[f] : a[f] + d[f], difference = a[f] - d[f];
      const double mirrored = n == 0 ? b[f] : n == quarter ? 0 : b[f] + c[f];
      const double mirrored_difference = n == quarter ? 0 : b[f] - c[f];
      scratch.even_cosines[i][f] = sum + mirrored;
      scratch.odd_cosines[i][f] = sum - mirrored;
      if (n == 0) continue;
      scratch.even_sines[last][f] = difference - mirrored_difference;
      scratch.odd_sines[last][f] = difference + mirrored_difference;
    }
  }
}

void LogMel::transform(Scratch& scratch) const {
  // Squares of a pair's products are the first addends of their power, or are added.
  const auto multiply = [&](const Waves& waves, const std::vector<Frames>& folded, size_t parity,
                            bool first) {
    const size_t terms = static_cast<size_t>(waves.terms);
    const double* wave = waves.values.data();
    for (size_t k = parity; k <= static_cast<size_t>(options_.n_fft / 2); k += 4) {
      Frames one{}, other{};
      for (size_t n = 0; n < terms; ++n, wave += 2) {
        for (size_t f = 0; f < kFrames; ++f) {
          one[f] += wave[0] * folded[n][f];
          other[f] += wave[1] * folded[n][f];
        }
      }
      Frames &power = scratch.power[k], &next = scratch.power[k + 2];
      for (size_t f = 0; f < kFrames; ++f) {
        power[f] = one[f] * one[f] + (first ? 0 : power[f]);
        next[f] = other[f] * other[f] + (first ? 0 : next[f]);
      }
    }
  };
  multiply(even_cosines_, scratch.even_cosines, 0, true);
  multiply(even_sines_, scratch.even_sines, 0, false);
  multiply(odd_cosines_, scratch.odd_cosines, 1, true);
  multiply(odd_sines_, scratch.odd_sines, 1, false);
}

Tensor LogMel::operator()(std::span<const float> samples) const {
  const int64_t least = std::max(options_.hop, options_.n_fft / 2 + 1), size = std::ssize(samples);
  if (size < least) throw UsageError(concat("audio: expected at least ", least, " samples, found ", size));
  for (const float sample : samples) {
    if (!std::isfinite(sample))
      throw UsageError(concat("audio: expected samples that are finite, found ", sample));
  }
  const int64_t frames = size / options_.hop, blocks = (frames + kFrames - 1) / kFrames;
  Tensor result = Tensor::empty({frames, options_.mel_bins});
  float* const features = result.data<float>();
  parallel_for(blocks, kBlocksOfPiece, [&](int64_t first, int64_t end) {
    Scratch scratch(options_.n_fft);
    for (int64_t block = first; block < end; ++block) {
      const int64_t begin = block * kFrames, count = std::min(kFrames, frames - begin);
      fold(samples, begin, count, scratch);
      transform(scratch);
      float* feature = features + begin * options_.mel_bins;
      for (const Filter& filter : filters_) {
        Frames sums{};
        const Frames* power = scratch.power.data() + filter.first;
        for (const double weight : filter.weights) {
          for (size_t f = 0; f < kFrames; ++f) sums[f] += weight * (*power)[f];
          ++power;
        }
        for (int64_t f = 0; f < count; ++f) {
          constexpr double kLeast = 1e-10;
          feature[f * options_.mel_bins] =
              static_cast<float>(std::log10(std::max(sums[static_cast<size_t>(f)], kLeast)));
        }
        ++feature;
      }
    }
  });
  const std::span<float> all(features, static_cast<size_t>(result.numel()));
  // From here in single precision, as NumPy's.
  const float floor = *std::ranges::max_element(all) - 8;
  for (float& feature : all) feature = (std::max(feature, floor) + 4) / 4;
  return result;
}

}  // namespace qkv::data
