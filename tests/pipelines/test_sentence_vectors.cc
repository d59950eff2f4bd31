// sentence-transformers folders: its files beside a small BERT or decoder give its vectors
// (tests/golden/sentence_vectors.py), and unsupported settings are rejected by name.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "tests/support/pytorch_files.h"
#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using qkv::testing::message_of;
using qkv::testing::Scratch;

const std::filesystem::path kGoldenModels = QKV_TEST_DATA "/models/golden";
const std::filesystem::path kModel = kGoldenModels / "bert_base";

const json& golden() {
  static const json kGolden =
      json::parse(read_file(std::filesystem::path(QKV_TEST_DATA "/pipelines/golden/sentence_vectors.json")));
  return kGolden;
}

const json& case_named(const std::string& name) {
  for (const json& one : golden()["cases"]) {
    if (one["name"] == name) return one;
  }
  throw UsageError("no case " + name);
}

// The model with additional files.
class Folder {
 public:
  explicit Folder(const json& files, const std::filesystem::path& model = kModel) {
    std::filesystem::copy(model, scratch_.path());
    std::filesystem::copy(QKV_TEST_DATA "/pipelines/golden/dense", scratch_.path(),
                          std::filesystem::copy_options::recursive);
    for (const auto& [name, content] : files.items()) {
      std::filesystem::create_directories((scratch_ / name).parent_path());
      scratch_.write(name, content.dump());
    }
  }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};

class SentenceVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(SentenceVectors, MatchSentenceTransformers) {
  const json& one = case_named(GetParam());
  const Folder folder(one["files"], kGoldenModels / one["model"].get<std::string>());
  const TextEmbedder embedder(folder.path());
  TextEmbedOptions options = embedder.default_options();
  const json& given = one["options"];
  if (given.contains("prompt_name")) options.prompt = named_prompt(folder.path(), given["prompt_name"]);
  if (given.contains("truncate_dim")) options.vector.dimensions = given["truncate_dim"];
  const auto texts = golden()["texts"].get<std::vector<std::string>>();
  const std::vector<Embedded> found = embedder(texts, options);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto expected = one["vectors"][i].get<std::vector<float>>();
    ASSERT_EQ(found[i].values.size(), expected.size()) << texts[i] << ": " << found[i].error;
    for (size_t c = 0; c < expected.size(); ++c)
      EXPECT_NEAR(found[i].values[c], expected[c], 1e-5) << texts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SentenceVectors,
                         ::testing::Values("mean_normalized", "first_token_normalized",
                                           "max_as_version_6_writes_it", "prompted_to_the_positions",
                                           "weighted_mean", "mean_sqrt_len", "decoder_last_token",
                                           "decoder_named_prompt", "decoder_cut", "decoder_dimensions",
                                           "decoder_learned_positions", "both_directions_and_dense",
                                           "dense_activations"),
                         [](const auto& tested) { return tested.param; });

TEST(SentenceVectorFiles, DenseModulesOpenWeightsOfTorchSave) {
  const json& one = case_named("both_directions_and_dense");
  const Folder folder(one["files"], kGoldenModels / one["model"].get<std::string>());
  const std::vector<std::string> texts{"a red dog"};
  const auto vector = [&] {
    const TextEmbedder embedder(folder.path());
    return embedder(texts, embedder.default_options())[0].values;
  };
  const std::vector<float> expected = vector();
  for (const char* module : {"2_Dense", "3_Dense", "4_Dense"})
    qkv::testing::make_pytorch(folder.path() / module / "model.safetensors",
                               folder.path() / module / "pytorch_model.bin");
  EXPECT_EQ(vector(), expected);
}

TEST(SentenceVectorFiles, DefaultIsTheMeanOfAllTokens) {
  const TextEmbedder embedder(kModel);
  const TextEmbedOptions options = embedder.default_options();
  EXPECT_EQ(options.vector.pooling, Pooling::mean);
  EXPECT_FALSE(options.vector.normalize);
  EXPECT_FALSE(options.max_length.has_value());
  EXPECT_EQ(options.prompt, "");
}

TEST(SentenceVectorFiles, ADecoderBesideModulesIsAnEncoderAndOthersCanBeOne) {
  const json& one = case_named("decoder_last_token");
  const std::filesystem::path model = kGoldenModels / one["model"].get<std::string>();
  EXPECT_EQ(models::folder_kind(model), models::FolderKind::language);
  EXPECT_EQ(models::folder_kind(Folder(one["files"], model).path()), models::FolderKind::encoder);
  json files = one["files"];
  files.erase("modules.json");
  const Folder folder(files, model);
  const TextEmbedder embedder(folder.path());
  const std::vector<Embedded> last =
      embedder(std::vector<std::string>{"the dog"}, {.vector = {.pooling = Pooling::last_token}});
  nn::ForwardContext context;
  const std::vector<int32_t> ids = embedder.tokenizer().encode("the dog").ids;
  const Ragged text{Tensor::from(ids, {std::ssize(ids)}), Offsets::uniform(1, std::ssize(ids))};
  const Tensor hidden = (*models::load_language_model(folder.path()))(text, context).value();
  ASSERT_EQ(hidden.rows(), 3);  // with the end token
  EXPECT_TRUE(std::ranges::equal(last.at(0).values, hidden.slice_rows(2, 1).values()));
}

TEST(SentenceVectorFiles, AHeadThatTheWeightsLackIsNotNeeded) {
  const json& one = case_named("mean_normalized");
  const std::filesystem::path model = kGoldenModels / one["model"].get<std::string>();
  json files = one["files"];
  const auto texts = golden()["texts"].get<std::vector<std::string>>();
  const Folder whole(files, model);
  json config = json::parse(read_file(model / "config.json"));
  ASSERT_EQ(config["architectures"][0], "BertModel");
  config["architectures"] = {"BertForMaskedLM"};
  files["config.json"] = config;
  const Folder headless(files, model);
  const TextEmbedder expected(whole.path()), found(headless.path());
  for (const std::string& text : texts) {
    EXPECT_EQ(found(std::vector{text}, found.default_options()).at(0).values,
              expected(std::vector{text}, expected.default_options()).at(0).values);
  }
  files.erase("modules.json");
  const Folder other(files, model);
  testing::expect_parts(message_of<DataError>([&] { TextEmbedder(other.path()); }),
                        {"cls.predictions.transform.dense.weight"});
}

TEST(SentenceVectorFiles, AVectorDoesNotDependOnOtherTexts) {
  const json& one = case_named("decoder_last_token");
  const Folder folder(one["files"], kGoldenModels / "qwen3");
  const TextEmbedder embedder(folder.path());
  const auto texts = golden()["texts"].get<std::vector<std::string>>();
  const std::vector<Embedded> together = embedder(texts, embedder.default_options());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(embedder(std::vector{texts[i]}, embedder.default_options()).at(0).values, together[i].values);
  }
}

TEST(SentenceVectorFiles, DimensionsAreAtMostTheWidth) {
  const TextEmbedder embedder(kModel);
  for (const int64_t dimensions : {0, 9}) {
    testing::expect_parts(
        message_of<UsageError>([&] { embedder.prepare("a", {.vector = {.dimensions = dimensions}}); }),
        {"dimensions", "1 to 8", std::to_string(dimensions)});
  }
}

// Found by mutation: the file system reports another error for a name that is too long.
TEST(SentenceVectorFiles, AModuleWhoseNameIsTooLongHasNoConfiguration) {
  json files = case_named("mean_normalized")["files"];
  files["modules.json"][2]["path"] = std::string(300, 'x');
  const Folder folder(files);
  const TextEmbedder embedder(folder.path());
  const std::vector<Embedded> found =
      embedder(std::vector<std::string>{"the dog"}, embedder.default_options());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].error, "");
}

struct Refused {
  const char* name;
  const char* change;  // a JSON merge patch of the files of "mean_normalized"
  std::vector<std::string> message;
};

class RefusedSentenceFiles : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedSentenceFiles, NameTheUnsupportedSetting) {
  json files = case_named("mean_normalized")["files"];
  files.merge_patch(json::parse(GetParam().change));
  const Folder folder(files);
  const TextEmbedder embedder(folder.path());
  testing::expect_parts(message_of<DataError>([&] { embedder.default_options(); }), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RefusedSentenceFiles,
    ::testing::Values(
        Refused{
            "lstm",
            R"({"modules.json": [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
                                     {"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"}]})",
            {"modules.json: [2].type: ", "a Dense or a Normalize", "models.LSTM"}},
        Refused{
            "dense",
            R"({"modules.json": [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
                                     {"path": "3_Dense", "type": "sentence_transformers.models.Dense"}]})",
            {"3_Dense/config.json: in_features: expected 8, found 12"}},
        Refused{"no_pooling",
                R"({"modules.json": [{"path": "", "type": "x.Transformer"}]})",
                {"modules.json", "a Transformer and a Pooling", "found 1"}},
        Refused{"elsewhere",
                R"({"modules.json": [{"path": "0_Transformer", "type": "x.Transformer"},
                                     {"path": "1_Pooling", "type": "x.Pooling"}]})",
                {"modules.json: [0].path: ", "0_Transformer"}},
        Refused{"no_list", R"({"modules.json": {"0": "Transformer"}})", {"modules.json: expected a list"}},
        Refused{"two_poolings",
                R"({"1_Pooling/config.json": {"pooling_mode_max_tokens": true}})",
                {"1_Pooling/config.json", "pooling_mode_max_tokens", "expected false"}},
        Refused{"weighted",
                R"({"1_Pooling/config.json": {"pooling_mode_weightedmean_tokens": true}})",
                {"1_Pooling/config.json", "pooling_mode_weightedmean_tokens", "expected false"}},
        Refused{"median",
                R"({"1_Pooling/config.json": {"pooling_mode": "median"}})",
                {"1_Pooling/config.json", "pooling_mode", "weightedmean or lasttoken", "median"}},
        Refused{"size",
                R"({"1_Pooling/config.json": {"word_embedding_dimension": 9}})",
                {"1_Pooling/config.json", "word_embedding_dimension", "expected 8, found 9"}},
        Refused{"unknown",
                R"({"1_Pooling/config.json": {"wings": 2}})",
                {"1_Pooling/config.json", "config.json: wings: unknown field"}},
        Refused{"nothing_read",
                R"({"sentence_bert_config.json": {"max_seq_length": 0}})",
                {"sentence_bert_config.json", "max_seq_length", "found 0"}},
        Refused{"prompt",
                R"({"config_sentence_transformers.json": {"prompts": {}, "default_prompt_name": "query"}})",
                {"config_sentence_transformers.json: prompts.query: expected a string"}}),
    [](const auto& tested) { return tested.param.name; });

TEST(SentenceVectorFiles, RejectsLowerCaseThatContradictsTheTokenizer) {
  const Folder folder(case_named("first_token_normalized")["files"]);
  std::string tokenizer = read_file(folder.path() / "tokenizer.json");
  const std::string lowercase = "\"lowercase\": true";
  ASSERT_NE(tokenizer.find(lowercase), std::string::npos);
  tokenizer.replace(tokenizer.find(lowercase), lowercase.size(), "\"lowercase\": false");
  write_file_atomically(folder.path() / "tokenizer.json", tokenizer);
  const TextEmbedder embedder(folder.path());
  const std::string message = message_of<DataError>([&] { embedder.default_options(); });
  EXPECT_NE(message.find("do_lower_case"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::pipelines
