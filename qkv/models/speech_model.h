#pragma once
// A folder of an encoder-decoder that transcribes audio (Whisper, Radford et al. 2022): model, tokenizer,
// features, and recommended search options.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/models/audio_processor.h"
#include "qkv/models/hub/generation_defaults.h"
#include "qkv/models/hub/load_options.h"
#include "qkv/models/transformer.h"
#include "qkv/text/tokenizer.h"

namespace qkv::models {

// Ids of the tokens with which outputs begin: <|startoftranscript|>, a language and a task, and either
// <|notimestamps|> or timestamps (section 2.3).
struct SpeechTokens {
  int32_t start = 0, transcribe = 0, translate = 0, no_timestamps = 0;
  int32_t previous = 0;   // <|startofprev|>, before the text of the audio before
  int32_t no_speech = 0;  // <|nospeech|>, whose probability after `start` is that of audio without speech
  int32_t eos = 0;
  // Codes ("en") and ids; empty: a model of English alone, whose outputs name no language and task.
  std::vector<std::pair<std::string, int32_t>> languages = {};

  // Timestamps are the ids from here on: multiples of kTimestampSeconds from the beginning of the window.
  int32_t first_timestamp() const { return no_timestamps + 1; }
};
inline constexpr double kTimestampSeconds = 0.02;

struct SpeechModel {
  std::filesystem::path folder;
  TransformerConfig config;
  std::shared_ptr<const Transformer> transformer;  // shared with step models
  text::Tokenizer tokenizer;
  AudioProcessorConfig audio;
  SpeechTokens tokens;
  GenerationDefaults generation;
  // From generation_config.json. The language is a code, or empty: detected.
  std::string language = {};
  bool translates = false;  // to English, not transcribes
  // The first timestamp of a window is at most this multiple; nothing: any.
  std::optional<int32_t> max_first_timestamp = {};
  // Layers and heads of the decoder whose cross attention aligns tokens with audio; empty: all heads of the
  // upper half of the layers.
  std::vector<std::pair<int64_t, int64_t>> alignment_heads = {};
};

// Throws the errors of load_transformer() (qkv/models/hub/pretrained.h), text::Tokenizer::load(),
// load_audio_processor() and load_generation_defaults(), and DataError for a tokenizer without the tokens
// above and for features that do not fit the model.
SpeechModel load_speech_model(const std::filesystem::path& folder, const LoadOptions& options = {});

}  // namespace qkv::models
