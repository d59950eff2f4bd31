// Requests that are prepared, run together and finished have the same bits as plain calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/translate.h"

namespace qkv::pipelines {
namespace {

const std::filesystem::path kData = QKV_TEST_DATA;
const std::filesystem::path kModels = kData / "models" / "golden";

void expect_same(const search::Hypothesis& found, const search::Hypothesis& expected) {
  EXPECT_EQ(found.ids, expected.ids);
  EXPECT_EQ(found.score, expected.score);
  EXPECT_EQ(found.log_probability, expected.log_probability);
  EXPECT_EQ(found.token_log_probabilities, expected.token_log_probabilities);
  EXPECT_EQ(found.complete, expected.complete);
}

// Runs an engine until it is idle; returns the result of each request.
std::map<uint64_t, search::Decoded> run(search::Engine& engine) {
  std::map<uint64_t, search::Decoded> decoded;
  while (!engine.idle()) {
    for (search::Decoded& one : engine.step()) decoded[one.request_id] = std::move(one);
  }
  return decoded;
}

// Hypotheses with different ids may have equal texts, so a beam search returns its whole beam.
template <class Pipeline, class Options, class Input, class TextsOf>
void expect_each_text_once(const Pipeline& pipeline, Options options, const std::vector<Input>& inputs,
                           const TextsOf& texts_of) {
  size_t again = 0, several = 0;
  for (const Input& input : inputs) {
    search::Engine engine = pipeline.make_engine();
    options.search.nbest = options.search.sampling ? 6 : options.search.beam;
    auto request = pipeline.prepare(input, options);
    engine.submit(request.decode);
    const size_t decoded = run(engine).at(0).hypotheses.size();
    const std::vector<std::string> all = texts_of(pipeline(std::span(&input, 1), options).at(0));
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
    again += decoded - all.size();
    if (options.search.sampling) continue;
    options.search.nbest = 2;
    const std::vector<std::string> two = texts_of(pipeline(std::span(&input, 1), options).at(0));
    EXPECT_TRUE(std::ranges::equal(two, std::span(all).first(std::min<size_t>(2, all.size()))));
    several += two.size() == 2 ? 1 : 0;
  }
  if (options.search.sampling) {
    EXPECT_GT(again, 0U) << "no text came twice: this test needs one that does";
  } else {
    EXPECT_GT(several, 0U);
  }
}

TEST(Requests, ReturnEachTextOnce) {
  const TextGenerator generator(kModels / "gpt2_untied_relu");
  GenerateOptions options = generator.default_options();
  options.search.sampling = search::Sampling{.temperature = 0.01};
  const std::vector<Prompt> prompts = {{.text = "a"}, {.text = "one two"}};
  expect_each_text_once(generator, options, prompts, [](const Generated& generated) {
    std::vector<std::string> texts;
    for (const Completion& one : generated.completions) texts.push_back(one.text);
    return texts;
  });

  const Translator translator(kData / "pipelines" / "golden" / "marian");
  TranslateOptions how = translator.default_options();
  how.search.beam = 16;  // other pieces of the same words
  const std::vector<Source> sources = {
      {.text = "one"}, {.text = "twenty-one"}, {.text = "two hundred and six"}};
  expect_each_text_once(translator, how, sources, [](const Translation& found) {
    std::vector<std::string> texts;
    for (const TranslatedHypothesis& one : found.hypotheses) texts.push_back(one.text);
    return texts;
  });
}

TEST(Requests, OfATranslatorShareAnEngine) {
  const Translator translator(kData / "pipelines" / "golden" / "marian");
  std::vector<TranslateOptions> options(6, translator.default_options());
  options[1].search.beam = 1;
  options[2].search = {.beam = 1, .nbest = 3, .sampling = search::Sampling{.temperature = 1.5, .seed = 7}};
  options[3].search.nbest = 3;
  options[3].search.alternatives = true;
  options[4].search.nbest = 2;
  options[4].alignment = options[4].trace = true;
  options[5].search.no_repeat_ngram = 2;
  options[5].search.max_new_tokens = 6;
  const std::vector<Source> sources = {{.text = "twenty-one"},       {.text = "two hundred and six"},
                                       {.text = "thirty", .key = 5}, {.text = "seven"},
                                       {.text = "twelve"},           {.text = "one one one", .key = 9}};
  search::Engine engine = translator.make_engine({.batch_tokens = 12});
  std::map<uint64_t, TranslationRequest> requests;
  std::map<uint64_t, search::Decoded> decoded;
  const auto keep = [&](std::vector<search::Decoded> ended) {
    for (search::Decoded& one : ended) decoded[one.request_id] = std::move(one);
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    TranslationRequest request = translator.prepare(sources[i], options[i]);
    ASSERT_FALSE(request.done()) << request.translation.error;
    const uint64_t id = engine.submit(request.decode);
    requests.emplace(id, std::move(request));
    if (i == 2) keep(engine.step());  // the others arrive while these are decoded
  }
  while (!engine.idle()) keep(engine.step());
  ASSERT_EQ(decoded.size(), sources.size());
  for (auto& [id, request] : requests) {
    const auto i = static_cast<size_t>(id);
    const Translation found = translator.finish(std::move(request), std::move(decoded[id]));
    const Translation expected = translator(std::span(&sources[i], 1), options[i]).front();
    EXPECT_EQ(found.error, "");
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.source_pieces, expected.source_pieces);
    ASSERT_EQ(found.hypotheses.size(), expected.hypotheses.size());
    ASSERT_FALSE(found.hypotheses.empty());
    for (size_t k = 0; k < found.hypotheses.size(); ++k) {
      expect_same(found.hypotheses[k].hypothesis, expected.hypotheses[k].hypothesis);
      EXPECT_EQ(found.hypotheses[k].alignment, expected.hypotheses[k].alignment);
      EXPECT_EQ(found.hypotheses[k].alignment.empty(), i != 4);
    }
    ASSERT_EQ(found.trace.has_value(), i == 4);
    if (i == 4) {
      EXPECT_EQ(found.trace->steps.size(), expected.trace->steps.size());
      EXPECT_FALSE(found.trace->steps.empty());
    }
  }
}

TEST(Requests, OfATranslatorMayHaveNothingToDecode) {
  const Translator translator(kData / "pipelines" / "golden" / "marian");
  TranslationRequest blank = translator.prepare({.text = "  "}, translator.default_options());
  ASSERT_TRUE(blank.done());
  EXPECT_EQ(translator.finish(std::move(blank)).error, "");
  TranslationRequest bad = translator.prepare({.text = "tw\xffo"}, translator.default_options());
  ASSERT_TRUE(bad.done());
  EXPECT_EQ(translator.finish(std::move(bad)).error, "expected UTF-8, found a malformed character at byte 2");
  search::Engine engine = translator.make_engine();
  TranslationRequest stopped = translator.prepare({.text = "two"}, translator.default_options());
  const uint64_t id = engine.submit(stopped.decode);
  ASSERT_TRUE(engine.cancel(id));
  auto decoded = run(engine);
  EXPECT_EQ(translator.finish(std::move(stopped), std::move(decoded[id])).error, "cancelled");
}

TEST(Requests, OfAGeneratorShareAnEngine) {
  const TextGenerator generator(kModels / "gpt2_untied_relu");
  std::vector<GenerateOptions> options(3, generator.default_options());
  for (GenerateOptions& one : options) one.search.max_new_tokens = 6;
  options[1].search.beam = 3;
  options[1].search.nbest = 2;
  options[2].search.sampling = search::Sampling{.top_k = 9, .seed = 3};
  std::string told;
  const std::vector<Prompt> prompts = {
      {.text = "the man", .on_text = [&](std::string_view text) { told += text; }},
      {.text = "a red dog"},
      {.text = "the dog", .key = 4}};
  search::Engine engine = generator.make_engine();
  std::vector<GenerationRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    requests.push_back(generator.prepare(prompts[i], options[i]));
    ASSERT_FALSE(requests[i].done()) << requests[i].generated.error;
    EXPECT_EQ(engine.submit(requests[i].decode), i);
  }
  auto decoded = run(engine);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Generated found = generator.finish(std::move(requests[i]), std::move(decoded[i]));
    Prompt silent = prompts[i];
    silent.on_text = {};
    const Generated expected = generator(std::span(&silent, 1), options[i]).front();
    ASSERT_EQ(found.completions.size(), expected.completions.size()) << found.error;
    ASSERT_FALSE(found.completions.empty());
    for (size_t k = 0; k < found.completions.size(); ++k) {
      EXPECT_EQ(found.completions[k].text, expected.completions[k].text);
      expect_same(found.completions[k].hypothesis, expected.completions[k].hypothesis);
    }
    if (i == 0) {
      EXPECT_EQ(told, found.completions[0].text);
    }
  }
  EXPECT_NE(told, "");
}

TEST(Requests, OfTwoPipelinesShareAnEncoder) {
  const auto encoder = open_text_encoder(kModels / "bert_texts");
  const TextClassifier classifier(encoder);
  const TextEmbedder embedder(encoder);
  const std::vector<std::string> texts = {"a red dog", "the man", "the man\ta red dog"};
  const TextEmbedOptions cls{.vector = {.pooling = Pooling::cls, .normalize = true}};
  std::vector<EncoderRequest> to_classify;
  std::vector<EmbedRequest> to_embed;
  for (const std::string& text : texts) {
    to_classify.push_back(classifier.prepare(text, {.pairs = true}));
    to_embed.push_back(embedder.prepare(text, cls));
  }
  std::vector<const EncoderRequest*> all;
  for (size_t i = 0; i < texts.size(); ++i) {
    all.push_back(&to_classify[i]);
    all.push_back(&to_embed[i]);
  }
  const auto labels = classifier(texts, {.pairs = true});
  const auto vectors = embedder(texts, cls);
  size_t seen = 0;
  encode(*encoder->model, all, [&](size_t i, const Tensor& hidden) {
    ++seen;
    if (i % 2 == 1) {
      EXPECT_EQ(embedder.finish(to_embed[i / 2], hidden).values, vectors[i / 2].values);
      return;
    }
    const Classified found = classifier.finish(to_classify[i / 2], hidden);
    ASSERT_EQ(found.labels.size(), labels[i / 2].labels.size());
    for (size_t k = 0; k < found.labels.size(); ++k) {
      EXPECT_EQ(found.labels[k].label, labels[i / 2].labels[k].label);
      EXPECT_EQ(found.labels[k].probability, labels[i / 2].labels[k].probability);
    }
  });
  EXPECT_EQ(seen, all.size());
  EXPECT_EQ(vectors[0].values.size(), static_cast<size_t>(encoder->model->config().embedding.d_model));
}

TEST(Requests, OfTwoImagePipelinesShareAnEncoder) {
  const auto encoder = open_image_encoder(kModels / "vit_images");
  const ImageClassifier classifier(encoder);
  const ImageEmbedder embedder(encoder);
  const std::string good = (kData / "data" / "golden" / "images" / "rgb.png").string();
  const ImageRequest to_classify = classifier.prepare(good), missing = classifier.prepare(good + "-not");
  const ImageEmbedRequest to_embed = embedder.prepare(good, {.pooling = Pooling::max});
  EXPECT_NE(missing.error.find("rgb.png-not"), std::string::npos) << missing.error;
  const std::vector<const ImageRequest*> all{&missing, &to_embed, &to_classify};
  std::vector<size_t> seen;
  classifier.encode(all, [&](size_t i, const Tensor& hidden) {
    seen.push_back(i);
    if (i == 1) {
      EXPECT_EQ(embedder.finish(to_embed, hidden).values,
                embedder(std::span(&good, 1), {.pooling = Pooling::max}).front().values);
    } else {
      EXPECT_EQ(classifier.finish(to_classify, hidden).labels.front().probability,
                classifier(std::span(&good, 1)).front().labels.front().probability);
    }
  });
  EXPECT_EQ(seen, (std::vector<size_t>{1, 2}));
}

}  // namespace
}  // namespace qkv::pipelines
