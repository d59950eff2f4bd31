// Preprocessing of sound: the files that transformers writes (tests/golden/audio.py).

#include "qkv/models/audio_processor.h"

#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

using namespace qkv::models;

std::string whisper_json(const std::string& name) {
  return read_file(std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / "audio" / name);
}

AudioProcessorConfig read_config(const std::string& text) { return read_audio_processor(text, "p.json"); }

TEST(AudioProcessorConfig, ReadsTransformersFiles) {
  const AudioProcessorConfig tiny = read_config(whisper_json("tiny.json"));
  EXPECT_EQ(tiny, AudioProcessorConfig{});
  EXPECT_EQ(tiny.features.mel_bins, 80);
  EXPECT_EQ(tiny.chunk_samples(), 480000);
  EXPECT_EQ(read_config(whisper_json("older.json")), tiny);  // with a list of filters
  const Scratch scratch;
  scratch.write("processor_config.json", whisper_json("processor.json"));
  const AudioProcessorConfig large = load_audio_processor(scratch.path(), 128);
  EXPECT_EQ(large.features.mel_bins, 128);
  EXPECT_EQ(large.chunk_seconds, 30);
  // Its own file takes precedence.
  scratch.write("preprocessor_config.json", R"({"chunk_length": 20, "hop_length": 80, "feature_size": 40})");
  const AudioProcessorConfig other = load_audio_processor(scratch.path(), 40);
  EXPECT_EQ(other.chunk_samples(), 320000);
  EXPECT_EQ(other.features.hop, 80);
}

TEST(AudioProcessorConfig, HasDefaultsWithoutAFile) {
  const Scratch scratch;
  const AudioProcessorConfig config = load_audio_processor(scratch.path(), 128);
  EXPECT_EQ(config.features, (data::LogMelOptions{.mel_bins = 128}));
  EXPECT_EQ(config.chunk_seconds, 30);
  EXPECT_THROW(load_audio_processor(scratch.path(), 0), UsageError);
}

TEST(AudioProcessorConfig, RefusesOtherPreprocessing) {
  const auto refused = [](const std::string& fields, const std::string& message) {
    expect_throw<DataError>("p.json: " + message, [&] { read_config("{" + fields + "}"); });
  };
  refused(R"("feature_extractor_type": "Wav2Vec2FeatureExtractor")", "feature_extractor_type: expected ");
  refused(R"("sampling_rate": 8000)", "sampling_rate: expected 16000, found 8000");
  refused(R"("dither": 0.5)", "dither: expected 0, as noise makes results random, found 0.5");
  refused(R"("padding_value": 1.0)", "padding_value: expected 0, found 1.0");
  refused(R"("padding_side": "left")", "padding_side: expected ");
  refused(R"("chunk_length": 0)", "chunk_length: expected 1 to 3600 seconds, found 0");
  refused(R"("feature_size": 0)", "mel_bins: expected 1 to 1024, found 0");
  refused(R"("n_fft": 401)", "n_fft: expected a multiple of 4, found 401");
  refused(R"("hop_length": 500)", "hop: expected 1 to 400, found 500");
  refused(R"("mel_floor": 1e-5)", "mel_floor");
  const Scratch scratch;
  scratch.write("preprocessor_config.json", whisper_json("tiny.json"));
  expect_throw<DataError>("feature_size: expected 128, the model's num_mel_bins, found 80",
                          [&] { load_audio_processor(scratch.path(), 128); });
  const Scratch images;
  images.write("processor_config.json", R"({"image_processor": {}})");
  expect_throw<DataError>("feature_extractor: expected an object, as there is no preprocessor_config.json",
                          [&] { load_audio_processor(images.path(), 80); });
}

}  // namespace
}  // namespace qkv::testing
