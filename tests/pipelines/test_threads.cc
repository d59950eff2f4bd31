// Several models, each used by several of the caller's threads at once: results equal those of sequential
// calls. ThreadSanitizer runs this too.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "qkv/base/parallel.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/translate.h"

namespace qkv::pipelines {
namespace {

const std::filesystem::path kData = QKV_TEST_DATA;

// A pipeline's results, as one string.
std::string translated(const Translator& translator, const std::vector<Source>& sources) {
  std::string all;
  for (const Translation& one : translator(sources, translator.default_options())) {
    all += one.text + one.error + ';';
    for (const auto& hypothesis : one.hypotheses) all += std::to_string(hypothesis.hypothesis.score) + '|';
  }
  return all;
}

class Threads : public ::testing::Test {
 protected:
  ~Threads() override { set_threads(before_); }

  // Each use on three threads, all at the same time.
  static void expect_same(const std::vector<std::function<std::string()>>& uses) {
    std::vector<std::string> expected;
    for (const auto& use : uses) expected.push_back(use());
    std::atomic<bool> begin = false;
    std::vector<std::thread> pool;
    for (size_t i = 0; i < 3 * uses.size(); ++i) {
      pool.emplace_back([&, i] {
        while (!begin) std::this_thread::yield();
        for (int round = 0; round < 2; ++round)
          EXPECT_EQ(uses[i % uses.size()](), expected[i % uses.size()]) << i;
      });
    }
    begin = true;
    for (std::thread& thread : pool) thread.join();
  }

 private:
  int before_ = threads();
};

TEST_F(Threads, OfTheCallerShareModelsAndEngines) {
  set_threads(2);
  const Translator marian(kData / "pipelines" / "golden" / "marian"),
      t5(kData / "pipelines" / "golden" / "t5");
  const TextClassifier classifier(kData / "models" / "golden" / "bert_texts");
  const TextGenerator generator(kData / "models" / "golden" / "gpt2_untied_relu");
  GenerateOptions short_texts = generator.default_options();
  short_texts.search.max_new_tokens = 6;
  short_texts.search.sampling = search::Sampling{.seed = 3};
  const std::vector<Source> numbers{
      {.text = "twenty-one"}, {.text = "two hundred and six"}, {.text = "tw\xffo"}};
  const std::vector<Source> words{{.text = "the man"}, {.text = "a dog"}};
  const std::vector<Prompt> prompts{{.text = "the man", .on_text = {}}, {.text = "a red dog", .on_text = {}}};
  const std::vector<std::string> texts{"the man", "a red dog runs"};
  expect_same({[&] { return translated(marian, numbers); }, [&] { return translated(t5, words); },
               [&] {
                 std::string all;
                 for (const Generated& one : generator(prompts, short_texts))
                   all += one.error + one.completions.at(0).text + ';';
                 return all;
               },
               [&] {
                 std::string all;
                 for (const auto& one : classifier(texts))
                   all += one.error + std::to_string(one.labels.at(0).probability) + ';';
                 return all;
               },
               [&] {  // another thread's own model of the same folder
                 return translated(Translator(kData / "pipelines" / "golden" / "marian"), numbers);
               }});
}

}  // namespace
}  // namespace qkv::pipelines
