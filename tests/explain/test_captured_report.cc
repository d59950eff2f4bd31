#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/explain/captured_report.h"

namespace qkv::explain {
namespace {

TEST(CapturedReport, NamesSayPartAndLayer) {
  const Tensor weights = Tensor::full({2, 3, 3}, 0.25f);
  const AttentionLayer encoder = attention_layer({"encoder.layers.0.self_attn", weights});
  EXPECT_EQ(encoder.part, Part::encoder);
  EXPECT_EQ(encoder.index, 0);
  EXPECT_EQ(encoder.weights.data(), weights.data());
  EXPECT_EQ(attention_layer({"decoder.layers.11.self_attn", weights}).part, Part::decoder);
  EXPECT_EQ(attention_layer({"decoder.layers.11.self_attn", weights}).index, 11);
  EXPECT_EQ(attention_layer({"decoder.layers.3.encoder_attn", weights}).part, Part::cross);
  for (const char* name :
       {"", "decoder.layers.x.self_attn", "decoder.layers..self_attn", "encoder.layers.self_attn",
        "decoder.layers.-1.self_attn", "layers.0.self_attn", "decoder.layers.1.fc1"}) {
    EXPECT_THROW(attention_layer({name, weights}), DataError) << name;
  }
}

TEST(CapturedReport, KeepsWhatWasReadApartFromWhatWasWritten) {
  pipelines::TextCapture captured;
  captured.source_tokens = {"two", "</s>"};
  captured.target_input_tokens = {"<pad>", "zwei"};
  captured.target_output_tokens = {"zwei", "</s>"};
  captured.source = "two";
  captured.target = "zwei";
  const Tensor weights = Tensor::full({1, 2, 2}, 0.5f);
  captured.capture.attentions = {{"encoder.layers.0.self_attn", weights},
                                 {"decoder.layers.0.self_attn", weights},
                                 {"decoder.layers.0.encoder_attn", weights}};
  const AttentionReport report = attention_report(captured, "a folder");
  report.validate();
  EXPECT_EQ(report.title, "two \xe2\x86\x92 zwei");
  EXPECT_EQ(report.queries(Part::decoder), captured.target_output_tokens);
  EXPECT_EQ(report.keys(Part::decoder), captured.target_input_tokens);
  EXPECT_EQ(report.keys(Part::cross), captured.source_tokens);
  EXPECT_EQ(report.layers.size(), 3u);
}

}  // namespace
}  // namespace qkv::explain
