// Reports and costs: reports whose parts contradict each other, absurd sizes.

#include <gtest/gtest.h>

#include <climits>
#include <limits>

#include "qkv/explain/attention_report.h"
#include "qkv/explain/captured_report.h"
#include "qkv/explain/cost.h"
#include "qkv/explain/image_attention.h"
#include "qkv/explain/kernel_speed.h"
#include "qkv/explain/page_parts.h"
#include "qkv/explain/self_test.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::explain;
using namespace qkv::testing;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

AttentionReport report(const Tensor& weights) {
  return {.title = "t",
          .model = "m",
          .source_tokens = {"a", "\xFF"},
          .target_tokens = {"b", "</script>", "c"},
          .target_inputs = {},
          .layers = {{.part = Part::cross, .index = 0, .weights = weights}}};
}

void expect_refused_report(const std::string& what, const AttentionReport& bad) {
  const Scratch folder;
  THROWS("attention report", bad.validate()) << what;
  THROWS("attention report", to_json(bad)) << what;
  THROWS("attention report", to_html(bad)) << what;
  THROWS("attention report", to_svg(bad)) << what;
  THROWS("attention report", write_report(bad, folder / "x.html")) << what;
  EXPECT_FALSE(std::filesystem::exists(folder / "x.html"));
}

TEST(MisusedReports, OfTexts) {
  const Tensor good = random_tensor({2, 3, 2}, 1);
  for (const Unfit& wrong : unfit_elements(good, {})) expect_refused_report(wrong.what, report(wrong.tensor));
  for (const Unfit& wrong : unfit_shapes(good, {0})) expect_refused_report(wrong.what, report(wrong.tensor));
  for (const float number : {kNan, std::numeric_limits<float>::infinity()}) {
    Tensor bad = good.clone();
    bad.data()[3] = number;
    expect_refused_report("not finite", report(bad));
  }
  AttentionReport twice = report(good);
  twice.layers.push_back(twice.layers.front());
  expect_refused_report("twice", twice);
  AttentionReport none = report(good);
  none.layers.clear();
  expect_refused_report("none", none);
  const AttentionReport fine = report(good);
  for (const int number : {-1, 2, INT_MAX, INT_MIN}) {
    THROWS("", to_svg(fine, {.layer = number}));
    THROWS("", to_svg(fine, {.head = number}));
  }
  THROWS("", to_svg(fine, {.part = Part::encoder}));
  const Scratch folder;
  for (const char* const name : {"x", "x.pdf", "none/x.html", ""})
    THROWS("", write_report(fine, folder / name)) << name;
  THROWS("", write_report(fine, folder / (std::string(5000, 'x') + ".svg")));
  for (const char* const name :
       {"", "encoder.layers..self_attn", "encoder.layers.-1.self_attn", "encoder.layers.",
        "encoder.layers.99999999999.self_attn", ".self_attn", "decoder.layers.1.cat"})
    THROWS("attention report", attention_layer({name, good})) << name;
  EXPECT_EQ(to_html(fine).find("\"</script>\""), std::string::npos) << "a token ends the script";
}

TEST(MisusedReports, OfImages) {
  const auto with = [](const auto& change) {
    ImageAttentionReport one{.title = "t",
                             .model = "m",
                             .image = {.height = 4, .width = 4, .pixels = std::vector<uint8_t>(48, 7)},
                             .rows = 2,
                             .columns = 2,
                             .own_tokens = {"[CLS]"},
                             .layers = {Tensor::full({2, 5, 5}, 0.2f)},
                             .labels = {}};
    change(one);
    return one;
  };
  const auto refused = [&](const std::string& what, const auto& change) {
    const ImageAttentionReport bad = with(change);
    THROWS("", bad.validate()) << what;
    THROWS("", to_json(bad)) << what;
    THROWS("", to_html(bad)) << what;
    THROWS("", to_svg(bad)) << what;
  };
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{3}, kHuge, kLowest, int64_t{1} << 40}) {
    refused("rows", [&](auto& one) { one.rows = number; });
    refused("columns", [&](auto& one) { one.columns = number; });
    refused("both", [&](auto& one) { one.rows = one.columns = number; });
    refused("height", [&](auto& one) { one.image.height = number; });
  }
  refused("pixels", [](auto& one) { one.image.pixels.pop_back(); });
  refused("no image", [](auto& one) { one.image = {}; });
  refused("no tokens", [](auto& one) { one.own_tokens.clear(); });
  refused("no layers", [](auto& one) { one.layers.clear(); });
  const Tensor good = Tensor::full({2, 5, 5}, 0.2f);
  for (const Unfit& wrong : unfit_elements(good, {})) {
    refused(wrong.what, [&](auto& one) { one.layers = {wrong.tensor}; });
    THROWS("", attention_rollout(std::span(&wrong.tensor, 1))) << wrong.what;
  }
  for (const Unfit& wrong : unfit_shapes(good, {0})) {
    refused(wrong.what, [&](auto& one) { one.layers = {good, wrong.tensor}; });
    THROWS("", attention_rollout(std::vector{good, wrong.tensor})) << wrong.what;
  }
  Tensor bad = good.clone();
  bad.data()[3] = kNan;
  refused("NaN", [&](auto& one) { one.layers = {bad}; });
  EXPECT_TRUE(attention_rollout({}).empty());
  THROWS("x.pdf", write_report(with([](auto&) {}), "/tmp/x.pdf"));
}

TEST(MisusedReports, Pages) {
  THROWS("{{B}}", filled("a {{B}} c", {{"A", "x"}}));
  EXPECT_EQ(filled("a {{B", {}), "a {{B");
  EXPECT_EQ(filled("}} a {{A}}", {{"A", "{{A}}"}}), "}} a {{A}}");
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64(std::string(1, '\xFF')), "/w==");
  const Tensor good = random_tensor({2, 3, 2}, 1);
  for (const Unfit& wrong : unfit_elements(good, {})) THROWS("", json_numbers(wrong.tensor)) << wrong.what;
  for (const int rank : {0, 1, 2}) {
    const Tensor flat = rank == 0   ? Tensor::full({}, 1)
                        : rank == 1 ? Tensor::zeros({3})
                                    : Tensor::zeros({3, 2});
    THROWS("", json_numbers(flat));
  }
}

TEST(MisusedCosts, Sizes) {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, kHuge, kLowest, int64_t{1} << 40}) {
    const auto refused = [&](const char* field, const auto& call) {
      // 2^40 of one thing is a size; its products with the others may be too many.
      if (number == int64_t{1} << 40)
        expect_orderly(field, call);
      else {
        THROWS("", call()) << field;
      }
    };
    refused("d_model", [&] { attention_cost({.d_model = number}); });
    refused("heads", [&] { attention_cost({.heads = number}); });
    refused("batch", [&] { attention_cost({.batch = number}); });
    refused("query_length", [&] { attention_cost({.query_length = number}); });
    refused("d_ff", [&] { feed_forward_cost({.d_ff = number}); });
    refused("tokens", [&] { feed_forward_cost({.tokens = number}); });
    refused("inputs", [&] { linear_cost({.inputs = number}); });
    refused("outputs", [&] { linear_cost({.outputs = number}); });
    refused("norm", [&] { norm_cost(number, 3); });
    refused("norm", [&] { norm_cost(8, number); });
    refused("residual", [&] { residual_cost(number, 3); });
    models::TransformerConfig config = models::preset("tiny");
    config.source_vocabulary = config.target_vocabulary = 10;
    refused("batch", [&] { transformer_cost(config, {.batch = number}); });
    refused("source", [&] { transformer_cost(config, {.source_length = number}); });
    refused("target", [&] { transformer_cost(config, {.target_length = number}); });
    config.d_model = number;
    refused("d_model", [&] { transformer_cost(config, {}); });
    expect_orderly("pairs", [&] { return attended_pairs(number, number, true); });
    expect_orderly("pairs", [&] { return attended_pairs(3, number, false); });
    expect_orderly("times", [&] { return number * Cost{.parameters = 3}; });
    expect_orderly("plus", [&] { return Cost{.macs = number} + Cost{.macs = number}; });
  }
  EXPECT_EQ(total({}), Cost());
}

TEST(MisusedMeasurements, OptionsAndKernels) {
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    THROWS("seconds", measure_kernels({.seconds = seconds}));
  EXPECT_LE(measure_kernels({.seconds = 1e-6, .stop = [] { return true; }}).size(), 1u);
  THROWS("seconds", measure_device({.seconds = 0}));
  // A kernel that is missing or wrong fails its checks and nothing else.
  int failed = 0;
  for (const SelfCheck& check : self_test({.kernels = {}})) failed += check.passed ? 0 : 1;
  EXPECT_GT(failed, 3);
}

}  // namespace
