// Model folders with a damaged JSON file: a result, or an error that names a file of the folder. A UsageError
// would end the program as a wrong command line does.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/translate.h"
#include "qkv/pipelines/zero_shot/image_zero_shot.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::pipelines;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kHubFolders = fs::path(QKV_TEST_DATA) / "apps/golden/hub";

// The fields at any depth; a few of a vocabulary suffice, as all are alike.
void add_fields(const ordered_json& value, const ordered_json::json_pointer& at,
                std::vector<ordered_json::json_pointer>& all) {
  size_t count = 0;
  for (const auto& [key, one] : value.items()) {
    if (++count > 40 || (value.is_array() && count > 2)) break;
    const ordered_json::json_pointer path = value.is_array() ? at / (count - 1) : at / key;
    if (value.is_object()) all.push_back(path);
    if (one.is_structured()) add_fields(one, path, all);
  }
}

std::vector<ordered_json> values_instead() {
  return {nullptr, true, "",  "x",   ordered_json::array(), ordered_json::object(), {-1}, {"x"}, -1,
          0,       3,    0.5, 1e300, int64_t{1} << 31,      int64_t{1} << 62};
}

// Opens the folder as each command does, and runs the model.
class Commands {
 public:
  explicit Commands(const fs::path& folder) : folder_(folder) {
    for (const auto& entry : fs::directory_iterator(folder)) files_.push_back(entry.path().filename());
  }

  // Why the outcome is none of those above; empty if it is.
  std::string complaint() {
    const std::vector<std::string> texts{"a red dog"};
    std::optional<OpenedModel> opened;
    expect_orderly([&] { opened = open_model(folder_); });
    if (!opened) return complaint_;
    if (const auto* text = std::get_if<std::shared_ptr<const LoadedTextEncoder>>(&*opened)) {
      expect_orderly([&] { TextClassifier{*text}(texts); });
      expect_orderly([&] { TokenTagger{*text}(texts); });
      expect_orderly([&] {
        const MaskFiller filler(*text);
        filler(std::vector{std::string(filler.mask_token())});
      });
      expect_orderly([&] {
        const SparseEmbedder embedder(*text);
        embedder(texts, embedder.default_options());
      });
      expect_orderly([&] {
        const TextEmbedder embedder(*text);
        embedder(texts, embedder.default_options());
      });
    } else if (const auto* language = std::get_if<std::shared_ptr<const LoadedLanguageModel>>(&*opened)) {
      expect_orderly([&] {
        const TextGenerator generator(*language);
        GenerateOptions options = generator.default_options();
        options.search.max_new_tokens = 2;
        options.search.min_new_tokens = 0;
        generator(std::vector<Prompt>{{.text = texts[0]}}, options);
      });
      expect_orderly([&] { TextScorer{*language}(texts); });
    } else if (const auto* image = std::get_if<std::shared_ptr<const LoadedImageEncoder>>(&*opened)) {
      expect_orderly([&] { ImageClassifier{*image}; });
      expect_orderly([&] { ImageEmbedder{*image}; });
    } else if (const auto* both = std::get_if<std::shared_ptr<const LoadedDualEncoder>>(&*opened)) {
      expect_orderly([&] {
        const TextEmbedder embedder((*both)->text);
        embedder(texts, embedder.default_options());
      });
      expect_orderly([&] { ImageZeroShotClassifier{*both}; });
    } else if (const auto* speech = std::get_if<std::shared_ptr<const models::SpeechModel>>(&*opened)) {
      expect_orderly([&] {
        const Transcriber transcriber(*speech);
        TranscribeOptions options = transcriber.default_options();
        options.search.max_new_tokens = 2;
        options.search.min_new_tokens = 0;
        options.words = true;
        transcriber(std::vector{spoken()}, options);
      });
    } else {
      const auto model = std::get<std::shared_ptr<const models::TranslationModel>>(*opened);
      expect_orderly([&] {
        const Translator translator(model);
        TranslateOptions options = translator.default_options();
        options.search.max_new_tokens = 2;
        options.search.min_new_tokens = 0;
        translator(texts, options);
      });
      expect_orderly([&] { PairScorer{model}(std::vector<TextPair>{{.source = "a", .target = "b"}}); });
    }
    return complaint_;
  }

 private:
  // Two tones in a short window.
  static data::Audio spoken() {
    data::Audio audio{.rate = 16000, .samples = std::vector<float>(4000)};
    for (size_t i = 0; i < audio.samples.size(); ++i)
      audio.samples[i] = i / 400 % 2 == 0 ? 0.5f : 0.1f * static_cast<float>(i % 40) / 40;
    return audio;
  }

  template <class Action>
  void expect_orderly(const Action& action) {
    try {
      action();
    } catch (const NumericError&) {  // of a model whose numbers became absurd
    } catch (const UsageError& error) {
      complaint_ += concat("a UsageError: ", error.what(), "\n");
    } catch (const Error& error) {
      const std::string message = error.what();
      const auto named = [&](const std::string& file) { return message.find(file) != message.npos; };
      if (std::ranges::none_of(files_, named)) complaint_ += "it names no file: " + message + "\n";
    } catch (const std::exception& error) {
      complaint_ += concat("not an error of qkv: ", error.what(), "\n");
    }
  }

  fs::path folder_;
  std::vector<std::string> files_;
  std::string complaint_;
};

class DamagedFolders : public ::testing::TestWithParam<std::string> {};

TEST_P(DamagedFolders, GiveResultsOrNameTheFile) {
  const qkv::testing::Scratch scratch;
  const fs::path folder = scratch / "model";
  fs::create_directory(folder);
  std::vector<fs::path> damaged;
  for (const auto& entry : fs::directory_iterator(kHubFolders / GetParam())) {
    if (!entry.is_regular_file()) continue;
    const fs::path name = entry.path().filename();
    if (name.extension() != ".json")
      fs::create_symlink(entry.path(), folder / name);
    else if (name != "text_results.json") {
      fs::copy_file(entry.path(), folder / name);
      if (name != "vocab.json") damaged.push_back(name);
    }
  }
  if (GetParam() == "all-MiniLM-L6-v2") {
    write_sentence_transformer(folder, {.vector = {.pooling = Pooling::mean}, .max_length = 8}, 16);
    for (const char* name : {"modules.json", "1_Pooling/config.json", "sentence_bert_config.json"})
      damaged.emplace_back(name);
  }
  set_log_sink([](LogLevel, const std::string&) {});
  ASSERT_EQ(Commands(folder).complaint(), "");
  struct Change {
    fs::path file;
    std::string what, content;
  };
  std::vector<Change> changes;
  std::map<fs::path, std::string> good;
  for (const fs::path& name : damaged) {
    good[name] = read_file(folder / name);
    const ordered_json document = ordered_json::parse(good[name]);
    std::vector<ordered_json::json_pointer> fields;
    add_fields(document, ordered_json::json_pointer(), fields);
    for (const auto& path : fields) {
      for (const ordered_json& value : values_instead()) {
        ordered_json bad = document;
        bad[path] = value;
        changes.push_back({name, path.to_string() + " = " + value.dump(), bad.dump()});
      }
      ordered_json bad = document;
      bad[path.parent_pointer()].erase(path.back());
      changes.push_back({name, path.to_string() + " is missing", bad.dump()});
    }
  }
  // Six of each folder; scripts/nightly tries more (QKV_MUTATIONS).
  const char* const wanted = std::getenv("QKV_MUTATIONS");
  const size_t step = 1 + changes.size() / (wanted ? std::stoul(wanted) : 6);
  for (size_t i = std::hash<std::string>()(GetParam()) % step; i < changes.size(); i += step) {
    const auto& [file, what, content] = changes[i];
    write_file_atomically(folder / file, content);
    EXPECT_EQ(Commands(folder).complaint(), "") << file << ": " << what;
    write_file_atomically(folder / file, good.at(file));
  }
  set_log_sink({});
}

std::vector<std::string> hub_folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kHubFolders)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Hub, DamagedFolders, ::testing::ValuesIn(hub_folders()), [](const auto& parameter) {
  std::string name = parameter.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
