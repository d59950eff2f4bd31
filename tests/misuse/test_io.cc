// safetensors and TensorBoard: invalid names, tensors and paths.

#include <gtest/gtest.h>

#include <limits>

#include "qkv/io/safetensors.h"
#include "qkv/io/tensorboard.h"
#include "tests/support/misuse.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::io;
using namespace qkv::testing;

TEST(MisusedFiles, Safetensors) {
  const Scratch folder;
  const auto path = folder / "x.safetensors";
  const Tensor good = random_tensor({3, 4}, 1);
  Tensor moved = good.clone();
  const Tensor taken = std::move(moved);
  const auto write = [&](const std::vector<NamedTensor>& tensors) {
    return [path, tensors] { write_safetensors(path, tensors); };
  };
  expect_refusal("x.safetensors", "undefined", write({{"a", {}}}));
  expect_refusal("x.safetensors", "moved-from", write({{"a", moved}}));  // NOLINT(bugprone-use-after-move)
  expect_refusal("x.safetensors", "no name", write({{"", good}}));
  expect_refusal("x.safetensors", "a name twice", write({{"a", good}, {"a", good}}));
  expect_refusal("x.safetensors", "a reserved name", write({{"__metadata__", good}}));
  expect_refusal("x.safetensors", "a name that is not UTF-8", write({{"\xFF", good}}));
  expect_refusal("", "no such folder", [&] { write_safetensors(folder / "no" / "x", {{"a", good}}); });
  expect_refusal("", "a folder", [&] { write_safetensors(folder.path(), {{"a", good}}); });
  expect_refusal("", "no such file", [&] { SafetensorsFile(folder / "y"); });
  expect_refusal("", "a folder", [&] { SafetensorsFile(folder.path()); });
  expect_refusal("", "an empty file", [&] { SafetensorsFile(folder.write("empty", "")); });
  expect_refusal("", "an empty path", [&] { SafetensorsFile({}); });
  EXPECT_FALSE(std::filesystem::exists(path)) << "a refused file was written";

  write_safetensors(
      path, {{"columns", strided(good)}, {"none", Tensor::zeros({0, 4})}, {"one", Tensor::full({}, 2)}});
  const SafetensorsFile file(path);
  expect_refusal_or(good, "columns", [&] { return file.tensor("columns"); });
  expect_refusal_or(Tensor::zeros({0, 4}), "no rows", [&] { return file.tensor("none"); });
  expect_refusal_or(Tensor::full({}, 2), "a scalar", [&] { return file.tensor("one"); });
  for (const char* name : {"", "column", "columns ", "__metadata__"}) {
    expect_refusal("x.safetensors", "unknown", [&] { file.tensor(name); });
    expect_refusal("x.safetensors", "unknown", [&] { return file.shape(name); });
    expect_refusal("x.safetensors", "unknown", [&] { return file.dtype(name); });
  }
  for (const Unfit& unfit : unfit_shapes(good, {}))
    expect_refusal("columns", unfit.what, [&] { file.tensor("columns", unfit.tensor.shape()); });
}

TEST(MisusedFiles, Events) {
  const Scratch folder;
  expect_refusal("", "a file", [&] { EventWriter(folder.write("file", "x")); });
  EventWriter writer(folder / "events");
  const auto before = std::filesystem::file_size(writer.path());
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300})
    writer.scalar(std::string("\xFF\0", 2), value, std::numeric_limits<int64_t>::min());
  writer.text("", std::string(100000, '\xFF'), -1);
  writer.flush();
  misuses += 4;
  EXPECT_GT(std::filesystem::file_size(writer.path()), before + 100000);
}

}  // namespace
