#include "qkv/models/speech_model.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/pretrained.h"

namespace qkv::models {
namespace {

constexpr const char* kFile = "generation_config.json";
// Fields of the file that generation_of() reads, and others that follow from the tokenizer.
constexpr std::string_view kSpeechFields =
    "alignment_heads forced_decoder_ids is_multilingual lang_to_id language max_initial_timestamp_index "
    "no_timestamps_token_id prev_sot_token_id prompt_condition_type return_timestamps task task_to_id "
    "condition_on_prev_tokens compression_ratio_threshold logprob_threshold no_speech_threshold";

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr int64_t kMostTimestamp = 1 << 20;
constexpr int64_t kFirstMultilingual = 51865;  // entries of the vocabulary, in folders that do not say so

// The code in "<|en|>"; empty for other tokens.
std::string language_code(std::string_view token) {
  if (token.size() < 6 || token.size() > 7 || !token.starts_with("<|") || !token.ends_with("|>")) return {};
  const std::string_view code = token.substr(2, token.size() - 4);
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return std::ranges::all_of(code, is_letter) ? std::string(code) : std::string();
}

SpeechTokens tokens_of(const SpeechModel& model, bool multilingual) {
  const text::Tokenizer& tokenizer = model.tokenizer;
  const auto id = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (const auto found = tokenizer.id_of(name)) return *found;
    }
    throw DataError(concat((model.folder / kTokenizerFile).string(), ": expected the token ", *names.begin(),
                           ", found none"));
  };
  SpeechTokens tokens{.start = id({"<|startoftranscript|>"}),
                      .transcribe = id({"<|transcribe|>"}),
                      .translate = id({"<|translate|>"}),
                      .no_timestamps = id({"<|notimestamps|>"}),
                      .previous = id({"<|startofprev|>"}),
                      .no_speech = id({"<|nospeech|>", "<|nocaptions|>"}),
                      .eos = static_cast<int32_t>(model.config.eos_id)};
  if (!multilingual) return tokens;
  for (int32_t one = tokens.start + 1; one < tokens.no_timestamps; ++one) {
    if (const std::string code = language_code(tokenizer.token(one).value_or("")); !code.empty())
      tokens.languages.emplace_back(code, one);
  }
  if (tokens.languages.empty())
    throw DataError(
        concat((model.folder / kTokenizerFile).string(), ": expected tokens of languages, found none"));
  return tokens;
}

void require_fit(const SpeechModel& model) {
  const TransformerConfig& config = model.config;
  const int64_t frames = model.audio.chunk_samples() / model.audio.features.hop;
  if (frames != 2 * config.source_positions) {
    throw DataError(concat((model.folder / "preprocessor_config.json").string(), ": nb_max_frames: expected ",
                           2 * config.source_positions, ", the model's, found ", frames));
  }
  const SpeechTokens& tokens = model.tokens;
  for (const int32_t id :
       {tokens.start, tokens.transcribe, tokens.translate, tokens.previous, tokens.no_speech}) {
    if (id < config.target_vocabulary) continue;
    throw DataError(concat((model.folder / kTokenizerFile).string(), ": ",
                           model.tokenizer.token(id).value_or(""), ": expected an id below vocab_size, ",
                           config.target_vocabulary, ", found ", id));
  }
  if (model.tokens.first_timestamp() + config.source_positions >= config.target_vocabulary) {
    throw DataError(concat(model_file_name(model.folder, "config.json"), ": vocab_size: expected more than ",
                           model.tokens.first_timestamp() + config.source_positions,
                           " entries, the last timestamp, found ", config.target_vocabulary));
  }
}

void read_generation(const ConfigReader& fields, SpeechModel& model) {
  model.translates = fields.string("task", "") == "translate";
  model.language = fields.string("language", "");
  if (const std::string code = language_code(model.language); !code.empty()) model.language = code;
  if (const auto most = fields.find("max_initial_timestamp_index"))
    model.max_first_timestamp = static_cast<int32_t>(most->integer(0, kMostTimestamp));
  const auto heads = fields.find("alignment_heads");
  if (!heads) return;
  const nn::StackOptions decoder = model.config.decoder_stack();
  for (const JsonValue& pair : heads->items()) {
    if (pair.size() != 2) pair.fail("a layer and a head");
    const std::vector<JsonValue> parts = pair.items();
    const int64_t layer = parts[0].integer(0, decoder.size() - 1);
    model.alignment_heads.emplace_back(layer, parts[1].integer(0, decoder.first().heads - 1));
  }
}

}  // namespace

SpeechModel load_speech_model(const std::filesystem::path& folder, const LoadOptions& options) {
  SpeechModel model{.folder = folder,
                    .config = {},
                    .transformer = load_transformer(folder, options),
                    .tokenizer = load_tokenizer(folder),
                    .audio = {},
                    .tokens = {},
                    .generation = load_generation_defaults(folder, LengthsInclude::start, kSpeechFields)};
  model.config = model.transformer->config();
  model.audio = load_audio_processor(folder, model.config.mel_bins);
  bool multilingual = model.config.target_vocabulary >= kFirstMultilingual;
  if (const auto text = read_model_file(folder, kFile)) {
    const ConfigReader fields(*text, model_file_name(folder, kFile));
    multilingual = fields.boolean("is_multilingual", multilingual);
    read_generation(fields, model);
  }
  model.tokens = tokens_of(model, multilingual);
  require_fit(model);
  return model;
}

}  // namespace qkv::models
