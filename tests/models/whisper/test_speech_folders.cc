// Folders of models that transcribe audio: copies have the tensors of the original, and what does not fit is
// named. Results are compared with transformers' by tests/apps/test_hub_folders.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/copies.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/speech_model.h"
#include "qkv/ops/quantize.h"
#include "tests/models/weight_files.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace qkv::testing {
namespace {

using namespace qkv::models;
using nlohmann::json;

namespace fs = std::filesystem;

const fs::path kSpeechFolders = QKV_TEST_DATA "/apps/golden/hub";

// f32 rounded to bf16, to the nearest, ties to even.
float as_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u);
}

Tensor wide(const io::SafetensorsFile& file, const std::string& name) {
  const Tensor tensor = file.tensor(name);
  return dequantize({tensor.reshape({1, tensor.numel()})});
}

TEST(SpeechFolders, SavedOnesHaveTheTensorsOfTheOriginal) {
  for (const char* name : {"whisper-tiny", "whisper-tiny.en", "whisper-large-v3-turbo"}) {
    const fs::path folder = kSpeechFolders / name;
    const Scratch copy;
    save_transformer(copy.path(), *load_transformer(folder), {}, folder);
    const io::SafetensorsFile before(folder / "model.safetensors"), after(copy / "model.safetensors");
    EXPECT_EQ(after.names(), before.names()) << name;
    size_t convolutions = 0;
    for (const std::string& one : after.names()) {
      ASSERT_EQ(after.shape(one), before.shape(one)) << one;
      EXPECT_TRUE(std::ranges::equal(wide(after, one).values(), wide(before, one).values())) << one;
      convolutions += after.shape(one).rank() == 3 ? 1 : 0;
    }
    EXPECT_EQ(convolutions, 2u);
    EXPECT_EQ(json::parse(read_file(copy / "config.json"))["model_type"], "whisper");
  }
}

TEST(SpeechFolders, CopiesInBf16AreRounded) {
  const fs::path folder = kSpeechFolders / "whisper-tiny";
  const Scratch scratch;
  quantize_folder(folder, scratch / "copy", DType::bf16);
  const io::SafetensorsFile before(folder / "model.safetensors"), after(scratch / "copy/model.safetensors");
  EXPECT_EQ(after.names(), before.names());
  size_t rounded = 0;
  for (const std::string& one : after.names()) {
    ASSERT_EQ(after.shape(one), before.shape(one)) << one;
    const Tensor original = before.tensor(one);
    std::vector<float> expected(original.values().begin(), original.values().end());
    if (after.dtype(one) == "BF16") {
      std::ranges::transform(expected, expected.begin(), as_bf16);
      ++rounded;
    }
    EXPECT_TRUE(std::ranges::equal(wide(after, one).values(), expected)) << one;
    EXPECT_EQ(after.dtype(one) == "BF16", before.shape(one).rank() > 1 && one.find("positions") == one.npos)
        << one;
  }
  EXPECT_GT(rounded, 20u);
}

// Of a pattern of the whole length, and some tokens.
Tensor audio_logits(const Transformer& model) {
  const TransformerConfig& config = model.config();
  const int64_t frames = 2 * config.source_positions;
  nn::ForwardContext context;
  const nn::Memory memory =
      model.encode_audio(random_tensor({frames, config.mel_bins}, 9), Offsets::uniform(1, frames), context);
  const Ragged target =
      Ragged::from<int32_t>({{static_cast<int32_t>(config.decoder_start_id), 3, 17, 5, 20}});
  return model.logits()(model.decode(target, memory, context)).value();
}

void expect_near_logits(const Tensor& found, const Tensor& exact, double share) {
  double largest = 0, worst = 0;
  for (const float x : exact.values()) largest = std::max(largest, std::abs(double{x}));
  for (int64_t i = 0; i < exact.numel(); ++i)
    worst = std::max(worst, std::abs(double{found.data()[i]} - exact.data()[i]));
  EXPECT_LE(worst, share * largest);
  EXPECT_GT(worst, 0);
}

// A folder in the layout of whisper whose rows fill blocks.
void write_speech_folder(const fs::path& folder, const Scratch& scratch) {
  const fs::path original = scratch / "original";
  fs::create_directories(original);
  json fields = json::parse(read_file(kSpeechFolders / "whisper-tiny/config.json"));
  fields.update({{"d_model", 64},
                 {"num_mel_bins", 32},
                 {"encoder_ffn_dim", 96},
                 {"decoder_ffn_dim", 96},
                 {"max_source_positions", 20}});
  std::ofstream(original / "config.json") << fields.dump();
  TransformerConfig config = load_transformer(kSpeechFolders / "whisper-tiny")->config();
  config.d_model = 64;
  config.mel_bins = 32;
  config.d_ff = config.decoder_d_ff = 96;
  config.source_positions = 20;
  Transformer model(config);
  nn::initialise(model, 5);
  save_transformer(folder, model, {}, original);
}

TEST(SpeechFolders, SmallWeightsGiveNearlyTheSameLogits) {
  const Scratch scratch;
  write_speech_folder(scratch / "model", scratch);
  const auto model = load_transformer(scratch / "model");
  const Tensor exact = audio_logits(*model);
  for (const auto& [dtype, share] : {std::pair{DType::bf16, 0.02}, std::pair{DType::i8, 0.06},
                                     std::pair{DType::q8_0, 0.06}, std::pair{DType::q4_0, 0.5}}) {
    SCOPED_TRACE(name_of(dtype));
    const fs::path copy = scratch / name_of(dtype);
    quantize_folder(scratch / "model", copy, dtype);
    const auto stored = load_transformer(copy),
               converted = load_transformer(scratch / "model", {.dtype = dtype});
    EXPECT_EQ(weight_dtype(*stored), dtype);
    EXPECT_EQ(stored->config().mel_bins, 32);
    const Tensor found = audio_logits(*stored);
    expect_near_logits(found, exact, share);
    EXPECT_TRUE(same_bits(found, audio_logits(*converted)));
    EXPECT_EQ(folder_kind(copy), FolderKind::speech);
  }
}

// Without an original, too: qkv's own format has no audio.
TEST(SpeechFolders, ModelsAreSavedInTheFormatOfWhisper) {
  const Scratch scratch;
  write_speech_folder(scratch / "model", scratch);
  const auto model = load_transformer(scratch / "model");
  save_transformer(scratch / "other", *model, {});
  EXPECT_EQ(folder_kind(scratch / "other"), FolderKind::speech);
  EXPECT_TRUE(same_bits(audio_logits(*load_transformer(scratch / "other")), audio_logits(*model)));
  TransformerConfig config = model->config();
  config.gated = true;
  Transformer strange(config);
  nn::initialise(strange, 1);
  expect_throw<UsageError>("save: expected a model of audio that whisper's config.json expresses",
                           [&] { save_transformer(scratch / "strange", strange, {}); });
  EXPECT_FALSE(fs::exists(scratch / "strange"));
  fs::create_directories(scratch / "own");
  const json own{{"model_type", "qkv"},
                 {"qkv",
                  {{"source_vocabulary", "0"},
                   {"target_vocabulary", "30"},
                   {"mel_bins", "5"},
                   {"source_positions", "8"},
                   {"tying", "two_way"}}}};
  std::ofstream(scratch / "own/config.json") << own.dump();
  expect_throw<DataError>("config.json: qkv: expected sources of tokens",
                          [&] { load_transformer(scratch / "own"); });
}

// A copy of a hub folder, with modified files.
class SpeechFolder : public ::testing::Test {
 protected:
  void copy(const std::string& name = "whisper-tiny") const {
    fs::remove_all(scratch_ / "model");
    fs::copy(kSpeechFolders / name, scratch_ / "model", fs::copy_options::recursive);
  }
  json read(const std::string& file) const { return json::parse(read_file(scratch_ / "model" / file)); }
  void write(const std::string& file, const json& value) const {
    scratch_.write("model/" + file, value.dump());
  }
  void change(const std::string& file, const json& by) const {
    json fields = read(file);
    fields.merge_patch(by);
    write(file, fields);
  }
  // The added token is named otherwise, or has another id.
  void change_token(const std::string& token, const std::string& name, std::optional<int> id = {}) const {
    json tokenizer = read("tokenizer.json");
    bool found = false;
    for (json& one : tokenizer["added_tokens"]) {
      if (one["content"] != token) continue;
      one["content"] = name;
      if (id) one["id"] = *id;
      found = true;
    }
    ASSERT_TRUE(found) << token;
    write("tokenizer.json", tokenizer);
    // Which would add it again.
    json fields = read("tokenizer_config.json");
    for (json& one : fields["additional_special_tokens"])
      if (one == token) one = name;
    write("tokenizer_config.json", fields);
  }
  SpeechModel load() const { return load_speech_model(scratch_ / "model"); }
  void expect_folder_refused(const std::vector<std::string>& parts) const {
    expect_parts(message_of<DataError>([&] { load(); }), parts);
  }

  Scratch scratch_;
};

TEST_F(SpeechFolder, IsReadWithItsTokens) {
  copy();
  const SpeechModel model = load();
  EXPECT_EQ(model.tokens.start, 310);
  EXPECT_EQ(model.tokens.translate, 315);
  EXPECT_EQ(model.tokens.transcribe, 316);
  EXPECT_EQ(model.tokens.previous, 318);
  EXPECT_EQ(model.tokens.no_speech, 319);
  EXPECT_EQ(model.tokens.no_timestamps, 320);
  EXPECT_EQ(model.tokens.first_timestamp(), 321);
  EXPECT_EQ(model.tokens.eos, 309);
  const std::vector<std::pair<std::string, int32_t>> languages{
      {"en", 311}, {"de", 312}, {"fr", 313}, {"yue", 314}};
  EXPECT_EQ(model.tokens.languages, languages);
  EXPECT_EQ(model.max_first_timestamp, 20);
  EXPECT_EQ(model.alignment_heads, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 0}}));
  EXPECT_EQ(model.language, "");
  EXPECT_FALSE(model.translates);
  EXPECT_EQ(load_speech_model(kSpeechFolders / "whisper-tiny.en").tokens.languages.size(), 0u);
}

TEST_F(SpeechFolder, GenerationFieldsAreRead) {
  copy();
  change("generation_config.json", {{"language", "<|fr|>"},
                                    {"task", "translate"},
                                    {"max_initial_timestamp_index", 0},
                                    {"alignment_heads", nullptr}});
  const SpeechModel model = load();
  EXPECT_EQ(model.language, "fr");
  EXPECT_TRUE(model.translates);
  EXPECT_EQ(model.max_first_timestamp, 0) << "not: any";
  EXPECT_TRUE(model.alignment_heads.empty());
  change("generation_config.json", {{"max_initial_timestamp_index", nullptr}, {"is_multilingual", false}});
  EXPECT_EQ(load().max_first_timestamp, std::nullopt);
  EXPECT_TRUE(load().tokens.languages.empty());
  // Without the file: English alone, unless the vocabulary is that of several languages.
  fs::remove(scratch_ / "model/generation_config.json");
  EXPECT_TRUE(load().tokens.languages.empty());
}

TEST_F(SpeechFolder, TokenizersWithoutItsTokensAreRefused) {
  for (const auto& [token, name] : {std::pair{"<|nocaptions|>", "<|nospeech|>"},
                                    {"<|startofprev|>", "<|startofprev|>"},
                                    {"<|transcribe|>", "<|transcribe|>"},
                                    {"<|startoftranscript|>", "<|startoftranscript|>"}}) {
    copy();
    change_token(token, "<|wings|>");
    expect_folder_refused({(scratch_ / "model/tokenizer.json").string(), name, "found none"});
  }
  copy();
  for (const char* language : {"en", "de", "fr", "yue"})
    change_token(concat("<|", language, "|>"), concat("<|", language, "-x|>"));
  expect_folder_refused({"tokenizer.json: expected tokens of languages, found none"});
}

// Its probability would be read behind those of the vocabulary.
TEST_F(SpeechFolder, TokensOutsideTheVocabularyAreRefused) {
  for (const char* token : {"<|nocaptions|>", "<|startofprev|>", "<|translate|>"}) {
    copy();
    change_token(token, token, 5000);
    expect_folder_refused({"tokenizer.json: ", token, "expected an id below vocab_size, 422, found 5000"});
  }
  // tokenizer_config.json may name a token that tokenizer.json lacks.
  copy();
  change("tokenizer_config.json", {{"additional_special_tokens", {"<|nospeech|>"}}});
  expect_folder_refused({"tokenizer.json: <|nospeech|>: expected an id below vocab_size, 422, found 422"});
}

TEST_F(SpeechFolder, FeaturesThatDoNotFitAreRefused) {
  copy();
  change("preprocessor_config.json", {{"feature_size", 128}});
  expect_folder_refused({"preprocessor_config.json", "feature_size: expected 80", "found 128"});
  copy();
  change("preprocessor_config.json", {{"chunk_length", 3}, {"n_samples", 48000}, {"nb_max_frames", 300}});
  expect_folder_refused({"preprocessor_config.json: nb_max_frames: expected 200, the model's, found 300"});
  copy();
  fs::remove(scratch_ / "model/preprocessor_config.json");  // the usual 30 seconds
  expect_folder_refused({"preprocessor_config.json: nb_max_frames: expected 200, the model's, found 3000"});
}

TEST_F(SpeechFolder, AVocabularyWithoutRoomForTimestampsIsRefused) {
  copy();
  rewrite_tensor(scratch_ / "model", "model.decoder.embed_tokens.weight",
                 [](const Tensor& table) { return table.slice_rows(0, 421).clone(); });
  change("config.json", {{"vocab_size", 421}});
  expect_folder_refused(
      {"config.json: vocab_size: expected more than 421 entries, the last timestamp, found 421"});
}

TEST_F(SpeechFolder, GenerationFieldsOutOfRangeAreNamed) {
  const auto refused = [&](const json& by, const std::vector<std::string>& parts) {
    copy();
    change("generation_config.json", by);
    expect_folder_refused(parts);
  };
  for (const json& head :
       {json::array({2, 0}), json::array({0, 2}), json::array({-1, 0}), json::array({0, "a"})})
    refused({{"alignment_heads", {{0, 0}, head}}}, {"generation_config.json", "alignment_heads[1]"});
  refused({{"alignment_heads", {{0, 0, 1}}}}, {"alignment_heads[0]: expected a layer and a head"});
  refused({{"max_initial_timestamp_index", -1}}, {"generation_config.json", "max_initial_timestamp_index"});
  refused({{"max_initial_timestamp_index", 2147483647}}, {"max_initial_timestamp_index"});
  refused({{"wings", 2}}, {"generation_config.json", "wings"});
}

}  // namespace
}  // namespace qkv::testing
