// The modules compared with PyTorch's: outputs, gradients of inputs and of every parameter
// (tests/golden/pytorch.py).

#include <gtest/gtest.h>

#include <optional>

#include "qkv/nn/decoder.h"
#include "qkv/nn/encoder.h"
#include "qkv/ops/activation.h"
#include "qkv/ops/general/weighted_sum.h"
#include "tests/nn/torch_parameters.h"
#include "tests/support/devices.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

const auto kSame = [](const std::string& name) { return name; };

// A PyTorch mask in qkv's layout [batch, heads | 1, queries | 1, keys].
Tensor four_axes(const Tensor& mask, int64_t batch) {
  if (mask.rank() == 4) return mask;
  if (mask.rank() == 2 && mask.dim(0) == batch) return mask.reshape({batch, 1, 1, mask.dim(1)});
  if (mask.rank() == 2) return mask.reshape({1, 1, mask.dim(0), mask.dim(1)});
  return mask.reshape({mask.dim(0), 1, mask.dim(1), mask.dim(2)});
}

class Multihead : public ::testing::TestWithParam<std::string> {};

TEST_P(Multihead, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  for_each_device([&](Device device) {
    const Tensor query = golden["query"];
    const bool cross = golden.flag("cross");
    const Tensor key = cross ? golden["key"] : query, value = cross ? golden["value"] : query;
    const nn::MultiheadAttention attention(
        {.d_model = golden.whole("d_model"),
         .heads = golden.whole("heads"),
         .variant = {.bias = nn::ProjectionBiases::all(golden.flag("bias"))}});
    load_torch(attention, golden, kSame, device);
    const Offsets offsets = golden.offsets("lengths", query);
    const Offsets key_offsets = !cross ? offsets : golden.offsets("key_lengths", key);
    nn::AttentionMask mask{.causal = golden.flag("causal")};
    if (golden.has("keep")) mask.keep = from_host(four_axes(golden["keep"], query.dim(0)), device);
    if (golden.has("bias")) mask.bias = from_host(four_axes(golden["bias"], query.dim(0)), device);

    std::vector<Tensor> weights;
    nn::ForwardContext context;
    context.observer = [&](const std::string&, const std::vector<Tensor>& seen) { weights = seen; };
    const Variable q = parameter_on(device, unpad(query, offsets));
    const Variable k = parameter_on(device, unpad(key, key_offsets)),
                   v = parameter_on(device, unpad(value, key_offsets));
    Tape tape;
    const Variable y = cross ? attention.cross(q, offsets, k, v, key_offsets, mask, context)
                             : attention.self(q, offsets, mask, context);
    expect_close(y.value(), unpad(golden["output"], offsets), "output");
    ASSERT_EQ(static_cast<int64_t>(weights.size()), offsets.sequences());
    for (int64_t s = 0; s < offsets.sequences(); ++s) {
      const Tensor all = golden["weights"].slice_rows(s, 1);
      const int64_t heads = all.dim(1), queries = all.dim(2), keys = all.dim(3);
      const Tensor mine = to_host(weights[static_cast<size_t>(s)]);
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < offsets.length(s); ++i) {
          for (int64_t j = 0; j < key_offsets.length(s); ++j) {
            ASSERT_NEAR(mine.data()[(h * offsets.length(s) + i) * key_offsets.length(s) + j],
                        all.data()[(h * queries + i) * keys + j], 1e-6);
          }
        }
      }
    }
    tape.backward(weighted_sum(y, from_host(unpad(golden["grad_output"], offsets), device)));
    expect_close(q.grad(), unpad(golden["grad.query"], offsets), "gradient of query");
    if (cross) {
      expect_close(k.grad(), unpad(golden["grad.key"], key_offsets), "gradient of key");
      expect_close(v.grad(), unpad(golden["grad.value"], key_offsets), "gradient of value");
    }
    expect_torch_gradients(attention, golden, kSame);
  });
}

// "multihead_self_bias" from ".../multihead_self_bias.safetensors".
std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  return std::filesystem::path(info.param).stem().string();
}

INSTANTIATE_TEST_SUITE_P(Golden, Multihead, ::testing::ValuesIn(golden_files("nn", "multihead_")), case_name);

nn::LayerOptions layer_options(const Golden& golden) {
  return {.d_model = golden.whole("d_model"),
          .heads = golden.whole("heads"),
          .d_ff = golden.whole("d_ff"),
          .activation = golden.text("activation") == "relu" ? Activation::relu : Activation::gelu_exact,
          .norm = golden.text("norm") == "pre" ? nn::NormPlacement::pre : nn::NormPlacement::post,
          .epsilon = std::stof(golden.text("epsilon"))};
}

class EncoderLayer : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderLayer, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  for_each_device([&](Device device) {
    const nn::EncoderLayer layer(layer_options(golden));
    load_torch(layer, golden, torch_name, device);
    const Offsets offsets = golden.offsets("src_lengths", golden["src"]);
    const Variable x = parameter_on(device, unpad(golden["src"], offsets));
    nn::ForwardContext context;
    Tape tape;
    const Variable y = layer(x, offsets, {}, context);
    expect_close(y.value(), unpad(golden["output"], offsets), "output");
    tape.backward(weighted_sum(y, from_host(unpad(golden["grad_output"], offsets), device)));
    expect_close(x.grad(), unpad(golden["grad.src"], offsets), "gradient of src");
    expect_torch_gradients(layer, golden, torch_name);
  });
}

INSTANTIATE_TEST_SUITE_P(Golden, EncoderLayer, ::testing::ValuesIn(golden_files("nn", "encoder_layer_")),
                         case_name);

class DecoderLayer : public ::testing::TestWithParam<std::string> {};

TEST_P(DecoderLayer, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  for_each_device([&](Device device) {
    const nn::DecoderLayer layer(layer_options(golden));
    const auto rename = [](const std::string& name) { return torch_name("decoder." + name).substr(8); };
    load_torch(layer, golden, rename, device);
    const Offsets offsets = golden.offsets("tgt_lengths", golden["tgt"]);
    const Offsets memory_offsets = golden.offsets("src_lengths", golden["memory"]);
    const Variable x = parameter_on(device, unpad(golden["tgt"], offsets));
    const nn::Memory memory{parameter_on(device, unpad(golden["memory"], memory_offsets)), memory_offsets};
    nn::ForwardContext context;
    Tape tape;
    const Variable y = layer(x, offsets, memory, context);
    expect_close(y.value(), unpad(golden["output"], offsets), "output");
    tape.backward(weighted_sum(y, from_host(unpad(golden["grad_output"], offsets), device)));
    expect_close(x.grad(), unpad(golden["grad.tgt"], offsets), "gradient of tgt");
    expect_close(memory.values.grad(), unpad(golden["grad.memory"], memory_offsets), "gradient of memory");
    expect_torch_gradients(layer, golden, rename);
  });
}

INSTANTIATE_TEST_SUITE_P(Golden, DecoderLayer, ::testing::ValuesIn(golden_files("nn", "decoder_layer_")),
                         case_name);

// nn.Transformer: both stacks, each followed by a norm.
class Stacks {
 public:
  explicit Stacks(const Golden& golden)
      : encoder({.layers = nn::alike(2, layer_options(golden)), .final_norm = true}),
        decoder({.layers = nn::alike(2, layer_options(golden)), .final_norm = true}) {}
  void visit(const nn::ParameterVisitor& visitor) const {
    nn::visit_part(visitor, "encoder", encoder);
    nn::visit_part(visitor, "decoder", decoder);
  }
  nn::Encoder encoder;
  nn::Decoder decoder;
};

class WholeTransformer : public ::testing::TestWithParam<std::string> {};

TEST_P(WholeTransformer, AgreesWithPyTorch) {
  const Golden golden(GetParam());
  for_each_device([&](Device device) {
    const Stacks stacks(golden);
    load_torch(stacks, golden, torch_name, device);
    const Offsets offsets = golden.offsets("tgt_lengths", golden["tgt"]);
    const Offsets source_offsets = golden.offsets("src_lengths", golden["src"]);
    const Variable source = parameter_on(device, unpad(golden["src"], source_offsets));
    const Variable target = parameter_on(device, unpad(golden["tgt"], offsets));
    nn::ForwardContext context;
    Tape tape;
    const nn::Memory memory{stacks.encoder(source, source_offsets, context), source_offsets};
    expect_close(memory.values.value(), unpad(golden["memory"], source_offsets), "memory");
    const Variable y = stacks.decoder(target, offsets, memory, context);
    expect_close(y.value(), unpad(golden["output"], offsets), "output");

    tape.backward(weighted_sum(y, from_host(unpad(golden["grad_output"], offsets), device)));
    expect_close(source.grad(), unpad(golden["grad.src"], source_offsets), "gradient of src");
    expect_close(target.grad(), unpad(golden["grad.tgt"], offsets), "gradient of tgt");
    expect_torch_gradients(stacks, golden, torch_name);
  });
}

INSTANTIATE_TEST_SUITE_P(Golden, WholeTransformer, ::testing::ValuesIn(golden_files("nn", "transformer_")),
                         case_name);

}  // namespace
