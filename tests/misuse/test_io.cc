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
  THROWS("x.safetensors", write({{"a", {}}})());
  THROWS("x.safetensors", write({{"a", moved}})());  // NOLINT(bugprone-use-after-move)
  THROWS("x.safetensors", write({{"", good}})());
  THROWS("x.safetensors", write({{"a", good}, {"a", good}})());
  THROWS("x.safetensors", write({{"__metadata__", good}})());
  THROWS("x.safetensors", write({{"\xFF", good}})());
  THROWS("", write_safetensors(folder / "no" / "x", {{"a", good}}));
  THROWS("", write_safetensors(folder.path(), {{"a", good}}));
  THROWS("", SafetensorsFile(folder / "y"));
  THROWS("", SafetensorsFile(folder.path()));
  THROWS("", SafetensorsFile(folder.write("empty", "")));
  THROWS("", SafetensorsFile({}));
  EXPECT_FALSE(std::filesystem::exists(path)) << "a refused file was written";

  write_safetensors(
      path, {{"columns", strided(good)}, {"none", Tensor::zeros({0, 4})}, {"one", Tensor::full({}, 2)}});
  const SafetensorsFile file(path);
  RETURNS(good, file.tensor("columns"));
  RETURNS(Tensor::zeros({0, 4}), file.tensor("none"));
  RETURNS(Tensor::full({}, 2), file.tensor("one"));
  for (const char* name : {"", "column", "columns ", "__metadata__"}) {
    THROWS("x.safetensors", file.tensor(name));
    THROWS("x.safetensors", file.shape(name));
    THROWS("x.safetensors", file.dtype(name));
  }
  for (const Unfit& unfit : unfit_shapes(good, {}))
    THROWS("columns", file.tensor("columns", unfit.tensor.shape())) << unfit.what;
}

TEST(MisusedFiles, Events) {
  const Scratch folder;
  THROWS("", EventWriter(folder.write("file", "x")));
  EventWriter writer(folder / "events");
  const auto before = std::filesystem::file_size(writer.path());
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300})
    writer.scalar(std::string("\xFF\0", 2), value, std::numeric_limits<int64_t>::min());
  writer.text("", std::string(100000, '\xFF'), -1);
  writer.flush();
  EXPECT_GT(std::filesystem::file_size(writer.path()), before + 100000);
}

}  // namespace
