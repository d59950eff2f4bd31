#pragma once
// Log-mel spectrograms: the input of Whisper (Radford et al. 2022, section 2.2).

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/tensor/tensor.h"

namespace qkv::data {

struct LogMelOptions {
  int64_t mel_bins = 80;  // features of a frame: 80, or 128 since Whisper large-v3
  int64_t rate = 16000;   // samples per second
  int64_t n_fft = 400;    // samples of a window: a multiple of 4
  int64_t hop = 160;      // samples from one frame to the next

  // Throws UsageError naming the field.
  void validate() const;
  friend bool operator==(const LogMelOptions&, const LogMelOptions&) = default;
};

// The features of transformers' WhisperFeatureExtractor in double precision (its path of NumPy), up to
// rounding. Frame t is centred at sample t hop; the signal is reflected at its ends. With the periodic Hann
// window w, the power of bin k is |sum_n w[n] x[n] exp(-2 pi i k n / n_fft)|^2. Triangular filters of equal
// area, at equal distances on Slaney's mel scale (linear to 1 kHz, then logarithmic) from 0 to rate / 2, sum
// the bins to m; a feature is y = log10(max(m, 1e-10)), then (max(y, the spectrogram's largest y - 8) + 4)
// / 4.
class LogMel {
 public:
  explicit LogMel(const LogMelOptions& options = {});

  const LogMelOptions& options() const { return options_; }

  // f32 [samples / hop (rounded down), mel_bins], a row per frame. Any number of threads may call it; its
  // bits do not depend on threads. Throws UsageError for fewer samples than a hop, or than n_fft / 2 + 1, and
  // for samples that are not finite. Whisper's encoder expects 30 seconds: its callers append zeros.
  Tensor operator()(std::span<const float> samples) const;

 private:
  // A matrix of cosines or sines for every second bin: the product with a folded window is the real or the
  // imaginary part of these bins. In pairs of bins, [pairs, terms, 2].
  struct Waves {
    int64_t terms = 0;
    std::vector<double> values = {};
  };
  // The bins under a triangle.
  struct Filter {
    int64_t first = 0;
    std::vector<double> weights = {};
  };
  struct Scratch;

  Waves waves(int64_t parity, int64_t first, int64_t terms, double (*wave)(double)) const;
  void fold(std::span<const float> samples, int64_t begin, int64_t frames, Scratch& scratch) const;
  void transform(Scratch& scratch) const;

  LogMelOptions options_;
  std::vector<double> window_;  // [n_fft]
  Waves even_cosines_, even_sines_, odd_cosines_, odd_sines_;
  std::vector<Filter> filters_;  // [mel_bins]
};

}  // namespace qkv::data
