// Pipelines: null and wrong models, invalid texts and options, results that belong to another request.

#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <sstream>

#include "qkv/models/speech_model.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/image_attention.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/lines.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/pipelines/translate.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::pipelines;
using namespace qkv::testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::filesystem::path kData = QKV_TEST_DATA;
const std::filesystem::path kModels = kData / "models" / "golden", kHub = kData / "apps" / "golden" / "hub";
const std::filesystem::path kMarian = kData / "pipelines" / "golden" / "marian";

// Texts that a model cannot read, or not easily.
const std::vector<std::string>& strange_texts() {
  static const std::vector<std::string> all{"",
                                            " ",
                                            std::string(1, '\0'),
                                            "\xFF\xFE",
                                            "a\xC3",
                                            std::string(50'000, 'a'),
                                            std::string(3000, ' ') + "b",
                                            "\t",
                                            "a\tb\tc",
                                            "[MASK] [MASK]",
                                            "</s><pad>\u202E\uFEFF"};
  return all;
}

// Each text gives a result or an error of its own.
template <class Run>
void expect_results(const std::string& what, const Run& run) {
  expect_orderly(what, [&] {
    const auto results = run(std::span(strange_texts()));
    ASSERT_EQ(results.size(), strange_texts().size()) << what;
    for (const size_t bad : {3u, 4u}) EXPECT_NE(results[bad].error, "") << what << ": invalid UTF-8";
  });
}

TEST(MisusedPipelines, NoModels) {
  const auto encoder = std::make_shared<const LoadedTextEncoder>(
      LoadedTextEncoder{{}, nullptr, text::Tokenizer::load(kModels / "bert_base")});
  const auto language =
      std::make_shared<const LoadedLanguageModel>(LoadedLanguageModel{{}, nullptr, encoder->tokenizer, {}});
  const auto image = std::make_shared<const LoadedImageEncoder>();
  const auto pair = std::make_shared<const models::TranslationModel>();
  using Texts = std::shared_ptr<const LoadedTextEncoder>;
  for (const Texts& none : {Texts(), Texts(encoder)}) {
    THROWS("expected", TextClassifier{none});
    THROWS("expected", TokenTagger{none});
    THROWS("expected", MaskFiller{none});
    THROWS("expected", TextEmbedder{none});
  }
  using Language = std::shared_ptr<const LoadedLanguageModel>;
  for (const Language& none : {Language(), Language(language)}) {
    THROWS("expected", TextGenerator{none});
    THROWS("expected", TextScorer{none});
  }
  using Image = std::shared_ptr<const LoadedImageEncoder>;
  for (const Image& none : {Image(), Image(image)}) {
    THROWS("expected", ImageClassifier{none});
    THROWS("expected", ImageEmbedder{none});
  }
  using Pair = std::shared_ptr<const models::TranslationModel>;
  const Pair good = open_translation_model(kMarian);
  for (const Pair& none : {Pair(), Pair(pair)}) {
    THROWS("expected", Translator{none});
    THROWS("expected", Translator{std::vector{good, none}});
    THROWS("expected", PairScorer{none});
  }
  THROWS("expected", Translator{std::vector<Pair>{}});
  const Scratch folder;
  for (const std::filesystem::path& path :
       {std::filesystem::path(), folder.path(), folder / "none", folder / std::string(5000, 'x')}) {
    THROWS("", open_model(path));
    THROWS("", TextClassifier{path});
    THROWS("", TextGenerator{path});
    THROWS("", Translator{path});
    THROWS("", PairScorer{path});
    THROWS("", ImageClassifier{path});
    THROWS("", write_proof(path));
  }
  for (const auto& path : {kMarian, kModels / "gpt2", kModels / "bert_base", kModels / "vit_images"}) {
    expect_orderly("kind", [&] { TextClassifier{path}; });
    expect_orderly("kind", [&] { TokenTagger{path}; });
    expect_orderly("kind", [&] { MaskFiller{path}; });
    expect_orderly("kind", [&] { TextEmbedder{path}; });
    expect_orderly("kind", [&] { TextGenerator{path}; });
    expect_orderly("kind", [&] { TextScorer{path}; });
    expect_orderly("kind", [&] { Translator{path}; });
    expect_orderly("kind", [&] { ImageEmbedder{path}; });
  }
}

TEST(MisusedPipelines, Speech) {
  THROWS("expected", Transcriber{std::shared_ptr<const models::SpeechModel>()});
  auto empty = std::make_shared<models::SpeechModel>(models::load_speech_model(kHub / "whisper-tiny.en"));
  empty->transformer = nullptr;
  THROWS("expected", Transcriber{std::shared_ptr<const models::SpeechModel>(empty)});
  for (const auto& path : {std::filesystem::path(), kMarian, kModels / "bert_base"})
    THROWS("", Transcriber{path});
  const Transcriber transcribe(kHub / "whisper-tiny.en");
  TranscribeOptions options = transcribe.default_options();
  options.temperatures = {0};
  const auto error_of = [&](const data::Audio& audio) {
    return transcribe(std::vector{audio}, options).at(0).error;
  };
  EXPECT_EQ(error_of({.rate = 16000, .samples = std::vector<float>(900, 1e30f)}), "");
  for (const int64_t rate : {int64_t{0}, int64_t{-1}, int64_t{999}, kHuge, kLowest})
    EXPECT_NE(error_of({.rate = rate, .samples = {0.5f}}), "") << rate;
  for (const int64_t rate : {16000, 8000}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> samples(900, 0.25f);
      samples[400] = bad;
      EXPECT_NE(error_of({.rate = rate, .samples = samples}), "") << rate;
    }
  }
  const data::Audio audio{.rate = 16000, .samples = std::vector<float>(900, 0.25f)};
  TranscriptionJob job = transcribe.start(audio, options);
  THROWS("accept: expected the result of a request, found none made", job.accept({}));
  ASSERT_TRUE(job.next());
  THROWS("expected an output, found none", job.accept({}));
  for (const search::Hypothesis& bad :
       {search::Hypothesis{}, search::Hypothesis{.ids = {1, 2}, .token_log_probabilities = {}}})
    THROWS("accept: expected an output of the last request", job.accept({.hypotheses = {bad}}));
  job.fail("no more");
  EXPECT_FALSE(job.next());
  EXPECT_EQ(job.transcription().error, "no more");
}

TEST(MisusedPipelines, TextsOfEncoders) {
  const TextClassifier classify(kModels / "bert_texts");
  const TokenTagger tag(kModels / "bert_tokens");
  const MaskFiller fill(kModels / "bert_masked");
  const TextEmbedder embed(kModels / "bert_base");
  const SparseEmbedder sparse(kModels / "bert_masked");
  expect_results("sparse", [&](auto texts) { return sparse(texts); });
  expect_results("classify", [&](auto texts) { return classify(texts); });
  expect_results("pairs", [&](auto texts) { return classify(texts, {.pairs = true}); });
  expect_results("tag", [&](auto texts) { return tag(texts); });
  expect_results("fill", [&](auto texts) { return fill(texts); });
  expect_results("embed", [&](auto texts) { return embed(texts); });
  expect_results("prompt", [&](auto texts) { return embed(texts, {.prompt = std::string(100, 'q')}); });
  const std::vector<std::string> one{"a red dog", "a [MASK] dog"};
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    THROWS("batch_tokens", classify(one, {}, number));
    THROWS("batch_tokens", tag(one, number));
    THROWS("count", fill(one, {.count = number}));
    THROWS("max_length", embed(one, {.max_length = number}));
    THROWS("top", sparse(one, {.top = number}));
  }
  expect_orderly("count", [&] { EXPECT_LT(fill(one, {.count = kHuge}).back().masks.at(0).size(), 1000u); });
  expect_orderly("length", [&] { EXPECT_EQ(embed(one, {.max_length = kHuge}).front().error, ""); });
  THROWS("pooler",
         TextEmbedder(kModels / "bert_masked").prepare("a", {.vector = {.pooling = Pooling::pooler}}));
  expect_orderly("pooling", [&] { embed(one, {.vector = {.pooling = static_cast<Pooling>(9)}}); });
}

// finish() with the hidden states of another request.
TEST(MisusedPipelines, ResultsOfEncoders) {
  const TextClassifier classify(kModels / "bert_texts");
  const TokenTagger tag(kModels / "bert_tokens");
  const MaskFiller fill(kModels / "bert_masked");
  const TextEmbedder embed(kModels / "bert_base");
  const TagRequest tagged = tag.prepare("a red dog");
  const FillMaskRequest filled = fill.prepare("a [MASK] dog");
  const SparseEmbedder sparse(kModels / "bert_masked");
  const EmbedRequest embedded = embed.prepare("a red dog");
  const EncoderRequest classified = classify.prepare("a red dog");
  const Tensor good =
      random_tensor({std::ssize(tagged.encoding.ids), tag.model().config().embedding.d_model}, 1);
  std::vector<Unfit> unfit = unfit_variants(good, {});
  for (const Unfit& wrong : unfit) {
    THROWS("", tag.finish(tagged, wrong.tensor)) << wrong.what;
    THROWS("", fill.finish(filled, wrong.tensor)) << wrong.what;
    THROWS("", sparse.finish(sparse.prepare("a red dog"), wrong.tensor)) << wrong.what;
    if (wrong.what.find("axis 0") != std::string::npos && wrong.what.find("empty") == std::string::npos)
      continue;
    THROWS("", embed.finish(embedded, wrong.tensor)) << wrong.what;
    THROWS("", classify.finish(classified, wrong.tensor)) << wrong.what;
  }
  TagRequest other = tagged;
  other.text = "a";
  THROWS("", tag.finish(other, good));
  other = tagged;
  other.encoding.special_mask.pop_back();
  THROWS("", tag.finish(other, good));
  other = tagged;
  other.encoding.offsets[1] = {.begin = SIZE_MAX, .end = 0};
  THROWS("", tag.finish(other, good));
  FillMaskRequest count = filled;
  count.options.count = -1;
  expect_orderly("count", [&] { fill.finish(count, good); });
  const auto use = [](size_t, const Tensor&) {};
  const EncoderRequest* const requests[] = {&classified, nullptr};
  THROWS("request 1", encode(tag.model(), requests, use));
  THROWS("function", encode(tag.model(), std::span(requests).first(1), {}));
  EncoderRequest ids = classified;
  ids.encoding.ids[0] = INT_MAX;
  const EncoderRequest* const strange = &ids;
  THROWS("", encode(tag.model(), std::span(&strange, 1), use));
  ids = classified;
  ids.encoding.type_ids.assign(ids.encoding.ids.size(), 7);
  THROWS("", encode(tag.model(), std::span(&strange, 1), use));
  std::vector<float> none;
  scale_to_one(none);
}

TEST(MisusedPipelines, Generation) {
  const TextGenerator generate(kHub / "gpt2");
  const TextScorer score(kHub / "gpt2");
  const auto prompts = [](std::span<const std::string> texts) {
    std::vector<Prompt> all;
    for (const std::string& text : texts) all.push_back({.text = text});
    return all;
  };
  GenerateOptions few = generate.default_options();
  few.search.max_new_tokens = 3;
  expect_results("generate", [&](auto texts) { return generate(prompts(texts), few); });
  expect_results("score", [&](auto texts) { return score(texts); });
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest})
    THROWS("batch_tokens", score(strange_texts(), number));
  GenerateOptions bad = few;
  bad.search.beam = 0;
  THROWS("beam", generate.prepare({.text = "a"}, bad));
  bad = few;
  bad.search.nbest = bad.search.beam = 2;
  const auto ignore = [](std::string_view) {};
  THROWS("on_text", generate.prepare({.text = "a", .on_text = ignore}, bad));
  for (const int32_t id : {-1, INT_MAX, INT_MIN}) {
    bad = few;
    bad.search.suppress_tokens = bad.search.stop = {id};
    expect_orderly("ids", [&] { generate(std::vector<Prompt>{{.text = "a"}}, bad); });
  }
  // Results of other requests, and of requests that were never decoded.
  search::Decoded decoded;
  decoded.hypotheses.emplace_back().ids = {-1, INT_MAX, 3};
  expect_orderly("ids", [&] { generate.finish(generate.prepare({.text = "a"}, few), decoded); });
  expect_orderly("none", [&] { generate.finish({}, {}); });
  expect_orderly("streamed",
                 [&] { generate.finish(generate.prepare({.text = "a", .on_text = ignore}, few), decoded); });
  GenerationRequest request = generate.prepare({.text = "a"}, few);
  const GenerationRequest taken = std::move(request);
  expect_orderly("moved", [&] { generate.finish(std::move(request)); });  // NOLINT(bugprone-use-after-move)
  expect_orderly("scores", [&] { score.finish({.ids = {1, -1}, .error = {}}, {}); });
  expect_orderly("scores", [&] { score.finish({}, {1, 2, 3}); });
}

TEST(MisusedPipelines, Translation) {
  const Translator translate(kMarian);
  const PairScorer score(kMarian);
  TranslateOptions few = translate.default_options();
  few.search.max_new_tokens = 3;
  expect_results("translate", [&](auto texts) { return translate(texts, few); });
  expect_results("score", [&](auto texts) {
    std::vector<TextPair> pairs;
    for (const std::string& text : texts) pairs.push_back({.source = text, .target = text});
    return score(pairs);
  });
  expect_results("prefix", [&](auto texts) {
    std::vector<Source> sources;
    for (const std::string& text : texts) sources.push_back({.text = "one", .prefix = text});
    return translate(sources, few);
  });
  for (const int64_t number : {int64_t{1}, int64_t{-1}, kLowest}) {
    TranslateOptions bad = few;
    bad.max_source_tokens = number;
    THROWS("max_source_tokens", translate.prepare({.text = "one"}, bad));
  }
  for (const int64_t number : {int64_t{2}, int64_t{3}, kHuge}) {
    TranslateOptions cut = few;
    cut.max_source_tokens = number;
    cut.truncate = true;
    expect_results("truncate", [&](auto texts) { return translate(texts, cut); });
  }
  TranslateOptions both = few;
  both.trace = true;
  both.search.sampling = search::Sampling{};
  both.search.beam = 1;
  THROWS("trace", translate.prepare({.text = "one"}, both));
  for (const int64_t number : {int64_t{-1}, kLowest}) {
    THROWS("", translate.make_engine({.batch_tokens = number}));
    THROWS("", translate.make_engine({.cache_bytes = number}));
  }
  THROWS("", translate.make_engine({}, {.cache_dtype = DType::i32}));
  few.alignment = true;
  for (const int32_t id : {-1, INT_MAX, INT_MIN}) {
    search::Decoded decoded;
    decoded.hypotheses.emplace_back().ids = {id, 3};
    expect_orderly("ids", [&] { translate.finish(translate.prepare({.text = "one"}, few), decoded); });
  }
  expect_orderly("none", [&] { translate.finish({}, {}); });
  expect_orderly("scores", [&] { score.finish({.source = {1}, .target = {-1, INT_MAX}, .error = {}}, {1}); });
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += "one ";
  THROWS("", capture_text(translate.model(), "", "eins"));
  THROWS("", capture_text(translate.model(), "one", "\xFF"));
  expect_orderly("long", [&] { capture_text(translate.model(), long_text, "eins"); });
  for (const std::string& text : strange_texts()) {
    const Source source = source_of_line(text, -1, true);
    EXPECT_LE(source.text.size() + source.prefix.size(), text.size());
    EXPECT_EQ(pair_of_line(text).error.empty(), text.find('\t') != std::string::npos);
  }
}

TEST(MisusedPipelines, Images) {
  const Scratch folder;
  const auto path = kModels / "vit_images";
  const ImageClassifier classify(path);
  const ImageEmbedder embed(path);
  const std::vector<std::string> paths{"",
                                       "/no/such/file",
                                       "/tmp",
                                       folder.write("x.png", "PNG").string(),
                                       std::string(5000, 'x'),
                                       std::string("a\0b", 3),
                                       "\xFF"};
  for (const auto& result : classify(paths)) EXPECT_NE(result.error, "");
  for (const auto& result : embed(paths)) EXPECT_NE(result.error, "");
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest})
    THROWS("batch_tokens", ImageClassifier(path, {.batch_tokens = number}));
  for (const int64_t side : {int64_t{0}, int64_t{-4}, int64_t{5}, kHuge, kLowest, int64_t{1} << 40}) {
    THROWS("image size", ImageClassifier(path, {.size = models::ImageSize{side, 8}}));
    THROWS("image size", ImageClassifier(path, {.size = models::ImageSize{side, side}}));
  }
  for (const data::Image& image :
       {data::Image{}, data::Image{.height = 4, .width = 4, .pixels = std::vector<uint8_t>(47)}}) {
    THROWS("image", classify.ImageEncoderPipeline::prepare(image));
    THROWS("image", capture_attention(classify, image));
  }
  const data::Image grey{.height = 4, .width = 4, .pixels = std::vector<uint8_t>(48, 100)};
  const ImageRequest good = classify.ImageEncoderPipeline::prepare(grey);
  const auto use = [](size_t, const Tensor&) {};
  std::vector<Unfit> unfit = unfit_variants(good.pixels, {});
  for (const Unfit& wrong : unfit) {
    const ImageRequest bad{.pixels = wrong.tensor, .error = {}};
    const ImageRequest* const request = &bad;
    THROWS("request 0", classify.encode(std::span(&request, 1), use)) << wrong.what;
  }
  const ImageRequest* const none = nullptr;
  THROWS("request 0", classify.encode(std::span(&none, 1), use));
  for (const Unfit& wrong :
       unfit_elements(random_tensor({10, classify.model().config().encoder.d_model()}, 1), {}))
    THROWS("", classify.finish({}, wrong.tensor)) << wrong.what;
}

TEST(MisusedPipelines, Lines) {
  std::istringstream in("a\n\xFF\n");
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kLowest}) {
    THROWS("chunk_lines", LineReader(in, {.chunk_lines = number}));
    THROWS("chunk_bytes", LineReader(in, {.chunk_bytes = number}));
    THROWS("max_line_bytes", LineReader(in, {.max_line_bytes = number}));
  }
  LineReader reader(in, {.chunk_lines = kHuge, .chunk_bytes = kHuge, .max_line_bytes = kHuge});
  LineChunk chunk;
  EXPECT_TRUE(reader.next(chunk));
  EXPECT_EQ(chunk.errors.size(), 2u);
  EXPECT_FALSE(reader.next(chunk));
  // JSON of numbers and texts that JSON lacks.
  Translation strange;
  strange.text = "\xFF";
  TranslatedHypothesis& hypothesis = strange.hypotheses.emplace_back();
  hypothesis.text = "\xC3";
  hypothesis.hypothesis.score = kNan;
  EXPECT_NE(to_json(strange).find("null"), std::string::npos) << to_json(strange);
}

}  // namespace
