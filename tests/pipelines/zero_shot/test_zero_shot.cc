// Classification by labels that no model was trained on.

#include "qkv/pipelines/zero_shot/zero_shot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/scratch.h"

namespace qkv::pipelines {
namespace {

using testing::expect_parts;
using testing::expect_throw;
using testing::Scratch;

const std::filesystem::path kNli =
    std::filesystem::path(QKV_TEST_DATA) / "apps/golden/hub/nli-deberta-v3-small";
const std::vector<std::string> kLabels{"red", "blue", "a dog"};

TEST(ZeroShot, ProbabilitiesAreThoseOfEntailment) {
  const std::vector<Entailment> parts{{.entailed = 1, .contradicted = 0.5f},
                                      {.entailed = -1, .contradicted = -3},
                                      {.entailed = 2, .contradicted = 4}};
  const Classified one = ZeroShotClassifier::merged(parts, kLabels, {});
  ASSERT_EQ(one.labels.size(), 3U);
  EXPECT_EQ(one.labels[0].label, "a dog");
  const double sum = std::exp(1) + std::exp(-1) + std::exp(2);
  EXPECT_NEAR(one.labels[0].probability, std::exp(2) / sum, 1e-6);
  EXPECT_NEAR(one.labels[1].probability, std::exp(1) / sum, 1e-6);
  const Classified several = ZeroShotClassifier::merged(parts, kLabels, {.multi_label = true});
  EXPECT_EQ(several.labels[0].label, "blue");
  EXPECT_NEAR(several.labels[0].probability, 1 / (1 + std::exp(-2)), 1e-6);
  // A single label has no others to compare with.
  const Classified single =
      ZeroShotClassifier::merged(std::span(parts).first(1), std::span(kLabels).first(1), {});
  EXPECT_NEAR(single.labels[0].probability, 1 / (1 + std::exp(-0.5)), 1e-6);
  const std::vector<Entailment> failed{parts[0], {.error = "no"}};
  EXPECT_EQ(ZeroShotClassifier::merged(failed, std::span(kLabels).first(2), {}).error, "no");
}

TEST(ZeroShot, TextsAreCutAndHypothesesAreNot) {
  const ZeroShotClassifier classifier(kNli);
  std::string text;
  for (int i = 0; i < 30; ++i) text += "the red dog ";
  const auto requests = classifier.prepare(text, kLabels);
  ASSERT_EQ(requests.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(requests[i].error, "");
    EXPECT_EQ(requests[i].encoding.size(), 40U);
    const text::Encoding hypothesis = classifier.tokenizer().encode(
        "This example is " + kLabels[i] + ".", {.special_tokens = false, .truncation = {}});
    EXPECT_EQ(std::ranges::count(requests[i].encoding.text_index, int8_t{1}), std::ssize(hypothesis.ids));
  }
  const std::vector<std::string> long_label{std::string(200, 'e')};
  expect_parts(classifier.prepare("a dog", long_label)[0].error,
               {"hypothesis: expected room for the text in 40 tokens"});
}

TEST(ZeroShot, HasTheSameBitsInAnyBatch) {
  const ZeroShotClassifier classifier(kNli);
  const std::vector<std::string> texts{"a red dog", "the man", " ", "a blue house"};
  const auto all = classifier(texts, kLabels, {}, 64);
  expect_parts(all[2].error, {"expected text, found none"});
  for (const size_t i : {0, 1, 3}) {
    const Classified one = classifier(std::vector{texts[i]}, kLabels).front();
    ASSERT_EQ(one.labels.size(), all[i].labels.size());
    for (size_t k = 0; k < one.labels.size(); ++k) {
      EXPECT_EQ(one.labels[k].label, all[i].labels[k].label);
      EXPECT_EQ(one.labels[k].probability, all[i].labels[k].probability);
    }
  }
}

TEST(ZeroShot, RefusesWhatItCannotDo) {
  const ZeroShotClassifier classifier(kNli);
  const auto refused = [&](const std::vector<std::string>& labels, const std::string& hypothesis,
                           const std::string& message) {
    expect_throw<UsageError>(message,
                             [&] { classifier.prepare("a dog", labels, {.hypothesis = hypothesis}); });
  };
  refused({}, "{}", "labels: expected at least one, found none");
  refused({"a", " "}, "{}", "labels: expected texts, found an empty one");
  refused({"a", "b", "a"}, "{}", "labels: expected different ones, found 'a' twice");
  refused({"a"}, "about", "hypothesis: expected a sentence with {} in place of the label, found 'about'");
  expect_throw<DataError>(
      "expected a model of natural language inference, with a label entailment, found the labels bad, so-so, "
      "good",
      [] { ZeroShotClassifier(std::filesystem::path(QKV_TEST_DATA) / "models/golden/bert_texts"); });
}

}  // namespace
}  // namespace qkv::pipelines
