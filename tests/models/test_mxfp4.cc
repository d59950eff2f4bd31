// A folder of gpt-oss with experts in MXFP4 gives the results of transformers with the widened weights
// (tests/golden/families.py).

#include <gtest/gtest.h>

#include <fstream>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::models;
using namespace qkv::testing;

constexpr const char* kCase = "../mxfp4_gpt_oss";

TEST(Mxfp4, IsWidenedExactly) {
  const FamilyCase one(kCase);
  const auto model = load_language_model(one.folder);
  model->visit([](const std::string& name, const nn::Parameter& parameter) {
    const bool packed = name.find(".experts.") != std::string::npos && name.ends_with(".weight");
    EXPECT_EQ(parameter.variable.value().dtype(), packed ? DType::bf16 : DType::f32) << name;
  });
  nn::ForwardContext context;
  expect_close(flat(model->logits()((*model)(one.texts, context)).value()), one.expected["logits"], "logits",
               5e-6);
  const Scratch copy;
  save_language_model(copy.path(), *model, one.model_type());
  EXPECT_TRUE(std::ranges::equal((*load_language_model(copy.path()))(one.texts, context).value().values(),
                                 (*model)(one.texts, context).value().values()));
}

// The tensors of the folder, one of them changed.
std::string message_with(const std::string& changed, const Tensor& value) {
  const FamilyCase one(kCase);
  const Scratch copy;
  write_file_atomically(copy / "config.json", read_file(one.folder / "config.json"));
  const io::SafetensorsFile file(one.folder / "model.safetensors");
  std::vector<io::NamedTensor> tensors;
  for (const std::string& name : file.names())
    tensors.push_back({name, name == changed ? value : file.as_stored(name, file.shape(name))});
  io::write_safetensors(copy / "model.safetensors", tensors, {});
  return message_of<DataError>([&] { load_language_model(copy.path()); });
}

TEST(Mxfp4, DamageIsNamed) {
  const std::string experts = "model.layers.1.mlp.experts.", blocks = experts + "gate_up_proj_blocks",
                    scales = experts + "down_proj_scales";
  expect_parts(message_with(blocks, Tensor::zeros({3, 64, 1, 15}, DType::u8)),
               {"model.safetensors", blocks, "[3, 64, 1, 16]", "[3, 64, 1, 15]"});
  expect_parts(message_with(blocks, Tensor::zeros({3, 64, 1, 16})), {blocks, "expected U8", "found F32"});
  Tensor broken = Tensor::zeros({3, 32, 1}, DType::u8);
  broken.values<uint8_t>()[40] = 255;
  expect_parts(message_with(scales, broken), {"model.safetensors", scales, "255"});
}

}  // namespace
