// Layers and whole stacks against torch.nn.TransformerEncoderLayer, TransformerDecoderLayer and Transformer
// (tests/golden/pytorch.py): padded there, ragged here.

#include "qkv/nn/decoder.h"
#include "qkv/nn/positions.h"
#include "tests/nn/pytorch_names.h"

namespace qkv::nn {
namespace {

using testing::expect_close;
using testing::Golden;
using testing::pack;

LayerOptions options_of(const Golden& golden) {
  return {.d_model = golden.integer("d_model"),
          .heads = golden.integer("heads"),
          .d_ff = golden.integer("d_ff"),
          .activation = golden.text("activation") == "relu" ? Activation::relu : Activation::gelu_exact,
          .norm = golden.text("norm") == "post" ? NormPlacement::post : NormPlacement::pre,
          .epsilon = golden.number("epsilon")};
}

// A padded input without its padding.
struct Input {
  Input(const Golden& golden, const std::string& name, const std::string& lengths)
      : offsets(testing::offsets_of(golden, lengths, golden.tensor(name))),
        rows(Variable::parameter(pack(golden.tensor(name), offsets))) {}
  Offsets offsets;
  Variable rows;
};

class PytorchLayers : public ::testing::TestWithParam<std::string> {
 protected:
  static Golden golden(const std::string& what) { return Golden("nn/golden/" + what + "_" + GetParam()); }
};

TEST_P(PytorchLayers, EncoderLayer) {
  const Golden golden = PytorchLayers::golden("encoder_layer");
  const EncoderLayer layer(options_of(golden));
  testing::load_parameters(golden, layer);
  const Input src(golden, "src", "src_lengths");
  Pass pass;
  Tape tape;
  const Variable output = layer(src.rows, src.offsets, {}, pass);
  expect_close(output.value(), pack(golden.tensor("output"), src.offsets), "output");
  tape.backward(weighted_sum(output, pack(golden.tensor("grad_output"), src.offsets)));
  expect_close(src.rows.grad(), pack(golden.tensor("grad.src"), src.offsets), "gradient of src");
  testing::expect_parameter_gradients(golden, layer);
}

TEST_P(PytorchLayers, DecoderLayer) {
  const Golden golden = PytorchLayers::golden("decoder_layer");
  const DecoderLayer layer(options_of(golden));
  testing::load_parameters(golden, layer);
  const Input tgt(golden, "tgt", "tgt_lengths"), memory(golden, "memory", "src_lengths");
  Pass pass;
  Tape tape;
  const Variable output = layer(tgt.rows, tgt.offsets, {memory.rows, memory.offsets}, pass);
  expect_close(output.value(), pack(golden.tensor("output"), tgt.offsets), "output");
  tape.backward(weighted_sum(output, pack(golden.tensor("grad_output"), tgt.offsets)));
  expect_close(tgt.rows.grad(), pack(golden.tensor("grad.tgt"), tgt.offsets), "gradient of tgt");
  expect_close(memory.rows.grad(), pack(golden.tensor("grad.memory"), memory.offsets), "gradient of memory");
  testing::expect_parameter_gradients(golden, layer);
}

// An encoder and a decoder under PyTorch's names.
struct Stacks {
  explicit Stacks(const Golden& golden)
      : encoder({.layers = golden.integer("encoder_layers"),
                 .layer = options_of(golden),
                 .final_norm = golden.flag("final_norm")}),
        decoder({.layers = golden.integer("decoder_layers"),
                 .layer = options_of(golden),
                 .final_norm = golden.flag("final_norm")}) {
    testing::load_parameters(golden, *this);
  }
  void visit(const ParameterVisitor& visitor) const {
    visit_part(visitor, "encoder", encoder);
    visit_part(visitor, "decoder", decoder);
  }
  Encoder encoder;
  Decoder decoder;
};

TEST_P(PytorchLayers, Transformer) {
  const Golden golden = PytorchLayers::golden("transformer");
  const Stacks model(golden);
  const Input src(golden, "src", "src_lengths"), tgt(golden, "tgt", "tgt_lengths");
  Pass pass;
  Tape tape;
  const Memory memory{model.encoder(src.rows, src.offsets, pass), src.offsets};
  expect_close(memory.values.value(), pack(golden.tensor("memory"), src.offsets), "memory");
  const Variable output = model.decoder(tgt.rows, tgt.offsets, memory, pass);
  expect_close(output.value(), pack(golden.tensor("output"), tgt.offsets), "output");
  tape.backward(weighted_sum(output, pack(golden.tensor("grad_output"), tgt.offsets)));
  expect_close(src.rows.grad(), pack(golden.tensor("grad.src"), src.offsets), "gradient of src");
  expect_close(tgt.rows.grad(), pack(golden.tensor("grad.tgt"), tgt.offsets), "gradient of tgt");
  testing::expect_parameter_gradients(golden, model);
}

// Position by position over a cache of keys and values, all sentences together, each until it ends.
TEST_P(PytorchLayers, TransformerStepByStep) {
  const Golden golden = PytorchLayers::golden("transformer");
  const Stacks model(golden);
  const Input src(golden, "src", "src_lengths");
  const Tensor tgt = golden.tensor("tgt"), wanted = golden.tensor("output");
  const Offsets offsets = testing::offsets_of(golden, "tgt_lengths", tgt);
  Pass pass;
  DecoderState state = model.decoder.start({model.encoder(src.rows, src.offsets, pass), src.offsets});
  const int64_t sentences = tgt.dim(0), length = tgt.dim(1), features = tgt.dim(2);
  const auto row_of = [&](const Tensor& padded, int64_t sentence, int64_t place) {
    return padded.reshape({sentences * length, features}).slice_rows(sentence * length + place, 1);
  };
  for (int64_t place = 0; place < length; ++place) {
    Tensor rows = Tensor::empty({sentences, features});
    for (int64_t s = 0; s < sentences; ++s) rows.slice_rows(s, 1).copy_from(row_of(tgt, s, place));
    const Tensor found = model.decoder.step(rows, state);
    for (int64_t s = 0; s < sentences; ++s) {
      if (place >= offsets.length(s)) continue;
      expect_close(found.slice_rows(s, 1), row_of(wanted, s, place),
                   concat("sentence ", s, ", place ", place));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PytorchLayers, ::testing::Values("post", "pre"),
                         [](const auto& info) { return info.param; });

TEST(PytorchPositions, Sinusoids) {
  const Golden golden("ops/golden/embedding");
  for (const auto& [name, kind] : {std::pair("sinusoids_interleaved", PositionKind::sinusoidal_interleaved),
                                   std::pair("sinusoids_halves", PositionKind::sinusoidal_halves)}) {
    const Tensor wanted = golden.tensor(name);
    expect_close(sinusoidal_positions(kind, wanted.dim(0), wanted.dim(1)), wanted, name);
  }
}

}  // namespace
}  // namespace qkv::nn
