#pragma once
// The part of an encoder that reads audio: two convolutions over frames of log-mel features, and positions
// (Whisper, Radford et al. 2022, section 2.2).

#include "qkv/nn/linear.h"
#include "qkv/tensor/ragged.h"

namespace qkv::models {

struct AudioStemOptions {
  int64_t mel_bins = 0;  // features of a frame
  int64_t d_model = 0;
  int64_t positions = 0;  // of the longest audio, two frames each
};

// x = gelu(conv1(frames)), gelu(conv2(x)) + positions. Both convolutions have three taps and zeros around
// each sequence; the second makes one row of two frames.
class AudioStem {
 public:
  // Throws UsageError for a size below 1.
  explicit AudioStem(const AudioStemOptions& options);

  // frames f32 [frames, mel_bins] on the host, an even number of each sequence -> [frames / 2, d_model], on
  // the parameters' device. Throws ShapeError, and UsageError for an odd number and for more than the
  // positions.
  Variable operator()(const Tensor& frames, const Offsets& offsets, nn::ForwardContext& context) const;

  // "conv1.weight" [d_model, 3 * mel_bins], taps first; "conv1.bias", "conv2.weight", "conv2.bias",
  // "embed_positions.weight".
  void visit(const nn::ParameterVisitor& visitor) const;

 private:
  AudioStemOptions options_;
  nn::Linear conv1_, conv2_;
  nn::Parameter positions_;  // [positions, d_model]
};

// The offsets of the rows that the frames become.
Offsets audio_rows(const Offsets& frames);

}  // namespace qkv::models
