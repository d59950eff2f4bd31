#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/mapped_files.h"
#include "qkv/base/philox.h"
#include "qkv/io/safetensors.h"
#include "tests/support/random_blocks.h"
#include "tests/support/scratch.h"

namespace qkv::io {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

std::string bytes_of(const std::vector<uint16_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint16_t)};
}

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Tensor tensor = Tensor::empty(shape);
  RandomStream random(seed);
  for (float& value : tensor.values()) value = random.uniform() - 0.5f;
  return tensor;
}

std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.values();
  return {values.begin(), values.end()};
}

// Writes without flushing to disk, which would be slow for thousands of small files.
void put(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// The message of the DataError on opening the file; empty if it opens.
std::string complaint(const std::filesystem::path& path, const std::string& content) {
  put(path, content);
  try {
    const SafetensorsFile file(path);
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Safetensors, RoundTrips) {
  const qkv::testing::Scratch folder;
  const Tensor weight = random_tensor({3, 5}, 1), scalar = random_tensor({}, 2);
  const std::vector<int32_t> numbers = {-1, 1 << 30, 7};
  const std::vector<uint8_t> bytes = {0, 1, 255, 9, 8};
  const std::vector<NamedTensor> tensors = {
      {"z.bytes", Tensor::from(bytes, {5})},      {"model.weight", weight},
      {"columns", weight.columns(1, 2)},          {"none", Tensor::empty({0, 4})},
      {"numbers", Tensor::from(numbers, {3, 1})}, {"scalar", scalar}};
  write_safetensors(folder / "a.safetensors", tensors, {{"format", "pt"}, {"über", "\"quoted\"\n"}});

  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_THAT(file.names(), ElementsAre("columns", "model.weight", "none", "numbers", "scalar", "z.bytes"));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"über", "\"quoted\"\n"}}));
  EXPECT_TRUE(file.contains("scalar"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.shape("none"), (Shape{0, 4}));
  EXPECT_EQ(file.dtype("z.bytes"), "U8");
  EXPECT_EQ(file.tensor("model.weight").shape(), (Shape{3, 5}));
  EXPECT_EQ(floats(file.tensor("model.weight")), floats(weight));
  EXPECT_EQ(floats(file.tensor("columns")), floats(weight.columns(1, 2).clone()));
  EXPECT_EQ(file.tensor("scalar", Shape{}).item(), scalar.item());
  EXPECT_EQ(file.tensor("none").numel(), 0);
  EXPECT_TRUE(std::ranges::equal(file.tensor("numbers").values<int32_t>(), numbers));
  EXPECT_TRUE(std::ranges::equal(file.tensor("z.bytes").values<uint8_t>(), bytes));
}

TEST(Safetensors, BlocksAreBytesWithTheirDTypeInTheMetadata) {
  const qkv::testing::Scratch folder;
  const std::vector<uint8_t> bytes = qkv::testing::random_blocks(DType::q4_0, 3 * 64, 1);
  const Tensor raw = Tensor::from(bytes, {std::ssize(bytes)});
  const Tensor blocks =
      Tensor::wrap(Storage(std::make_shared<Tensor>(raw), const_cast<std::byte*>(raw.as_bytes().data())),
                   {3, 64}, DType::q4_0);
  write_safetensors(folder / "a", {{"w", blocks}, {"b", random_tensor({3}, 1)}});
  const std::string text = read_file(folder / "a");
  EXPECT_THAT(text, HasSubstr(R"("w":{"dtype":"U8","shape":[3,36])"));
  EXPECT_THAT(text, HasSubstr(R"("encoding:w":"q4_0")"));
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.dtype("w"), "Q4_0");
  EXPECT_EQ(file.shape("w"), (Shape{3, 64}));
  const Tensor stored = file.as_stored("w", {3, 64});
  EXPECT_EQ(stored.dtype(), DType::q4_0);
  EXPECT_TRUE(std::ranges::equal(stored.as_bytes(), raw.as_bytes()));
  std::vector<float> wide(3 * 64);
  widen_blocks(DType::q4_0, bytes.data(), 3 * 64, wide.data());
  EXPECT_EQ(floats(file.tensor("w")), wide);

  const auto complaint = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(folder / "c") << changed;
    return message_of<DataError>([&] { SafetensorsFile(folder / "c"); });
  };
  EXPECT_THAT(complaint(R"("q4_0")", R"("q4_9")"), HasSubstr("encoding:w: expected the name of an encoding"));
  EXPECT_THAT(complaint(R"("q4_0")", R"("q8_0")"),
              HasSubstr("expected rows of U8 in blocks of 34 bytes, found U8 [3, 36]"));
  EXPECT_THAT(complaint("encoding:w", "encoding:v"),
              HasSubstr("encoding:v: expected a tensor of this name, found none"));
  EXPECT_THAT(complaint("encoding:w", "encoding:b"), HasSubstr("found F32 [3]"));
}

TEST(Safetensors, TheOrderOfTensorsDoesNotMatter) {
  const qkv::testing::Scratch folder;
  const NamedTensor a{"a", random_tensor({2}, 1)}, b{"b", random_tensor({3}, 2)};
  write_safetensors(folder / "ab", {a, b});
  write_safetensors(folder / "ba", {b, a});
  EXPECT_EQ(read_file(folder / "ab"), read_file(folder / "ba"));
  EXPECT_EQ(SafetensorsFile(folder / "ab").metadata(), (Metadata{{"format", "pt"}}));
}

TEST(Safetensors, ReadsAFileWrittenByHand) {
  const qkv::testing::Scratch folder;
  const float values[] = {1.5f, -2.0f};
  put(folder / "f", file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                            std::string(reinterpret_cast<const char*>(values), sizeof values)));
  const SafetensorsFile file(folder / "f");  // a header of 56 bytes after 8 bytes: aligned
  EXPECT_THAT(file.tensor("w").values(), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(file.metadata().empty());
}

TEST(Safetensors, UnalignedNumbersAreCopied) {
  const qkv::testing::Scratch folder;
  const float value = 3.25f;
  std::string data = "\x07";
  data.append(reinterpret_cast<const char*>(&value), sizeof value);
  put(folder / "f", file_of(R"({"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                            R"("w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                            data));
  const SafetensorsFile file(folder / "f");
  const Tensor tensor = file.tensor("w");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % alignof(float), 0u);
  EXPECT_EQ(tensor.item(), value);
  EXPECT_EQ(file.tensor("b").values<uint8_t>()[0], 7);
}

TEST(Safetensors, HalfPrecisionIsWidenedExactly) {
  const qkv::testing::Scratch folder;
  const std::string data = bytes_of({0x3C00, 0xC500, 0x0001, 0x83FF, 0x7BFF, 0xFC00, 0x7E00, 0x8000}) +
                           bytes_of({0x3F80, 0xC0A0, 0x0001, 0x7F80});
  put(folder / "f", file_of(R"({"h":{"dtype":"F16","shape":[8],"data_offsets":[0,16]},)"
                            R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[16,24]}})",
                            data));
  const SafetensorsFile file(folder / "f");
  const std::vector<float> half = floats(file.tensor("h"));
  EXPECT_EQ(half[0], 1.0f);
  EXPECT_EQ(half[1], -5.0f);
  EXPECT_EQ(half[2], 0x1p-24f);
  EXPECT_EQ(half[3], -1023 * 0x1p-24f);
  EXPECT_EQ(half[4], 65504.0f);
  EXPECT_EQ(half[5], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half[6]));
  EXPECT_TRUE(half[7] == 0 && std::signbit(half[7]));
  EXPECT_THAT(file.tensor("b", {2, 2}).values(),
              ElementsAre(1.0f, -5.0f, 0x1p-133f, std::numeric_limits<float>::infinity()));
  const Tensor stored = file.as_stored("h", {8});
  EXPECT_EQ(stored.dtype(), DType::f16);
  write_safetensors(folder / "again", {{"h", stored}, {"b", file.as_stored("b", {2, 2})}});
  const SafetensorsFile again(folder / "again");
  EXPECT_EQ(again.as_stored("h", {8}).as_bytes().data(), again.bytes("h").data()) << "a view";
  EXPECT_EQ(again.dtype("h"), "F16");
  EXPECT_TRUE(std::ranges::equal(again.bytes("h"), file.bytes("h")));
  EXPECT_TRUE(std::ranges::equal(again.bytes("b"), file.bytes("b")));
}

TEST(Safetensors, IdsOf64BitsAreReadAndWritten) {
  const qkv::testing::Scratch folder;
  const std::vector<int64_t> ids{-1, 0, int64_t{1} << 40, std::numeric_limits<int64_t>::min()};
  write_safetensors(folder / "f", {{"ids", Tensor::from(ids, {2, 2})}, {"w", Tensor::full({1}, 2)}});
  const SafetensorsFile file(folder / "f");
  EXPECT_EQ(file.dtype("ids"), "I64");
  EXPECT_EQ(file.tensor("ids", {2, 2}).values<int64_t>(), ids);
}

TEST(Safetensors, AFileMappedForReadingRefusesWritesByName) {
  const qkv::testing::Scratch folder;
  write_safetensors(folder / "f", {{"layer.weight", random_tensor({3, 4}, 1)}});
  Tensor view;
  {
    const SafetensorsFile file(folder / "f", MapFor::reading);
    view = file.tensor("layer.weight").slice_rows(1, 2);
  }
  EXPECT_EQ(mapped_files().size(), 1u) << "the view keeps it mapped";
  const std::string message = qkv::testing::message_of<UsageError>([&] { view.data()[0] = 1; });
  EXPECT_NE(message.find("read-only: layer.weight of " + (folder / "f").string()), std::string::npos)
      << message;
  EXPECT_THROW(view.fill_zero(), UsageError);
  EXPECT_EQ(floats(view), floats(random_tensor({3, 4}, 1).slice_rows(1, 2)));
  view = Tensor();
  EXPECT_TRUE(mapped_files().empty());
}

TEST(Safetensors, AViewOutlivesTheFileAndIsCopiedOnWrite) {
  const qkv::testing::Scratch folder;
  const Tensor written = random_tensor({100, 100}, 5);
  write_safetensors(folder / "f", {{"w", written}});
  Tensor tensor;
  {
    const SafetensorsFile file(folder / "f");
    tensor = file.tensor("w");
    EXPECT_EQ(tensor.data(), file.tensor("w").data());
  }
  EXPECT_EQ(floats(tensor), floats(written));
  tensor.data()[17] = 99;
  EXPECT_EQ(floats(SafetensorsFile(folder / "f").tensor("w")), floats(written));
}

TEST(Safetensors, OpeningDoesNotReadTheNumbers) {
  const qkv::testing::Scratch folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[65000000],"data_offsets":[0,260000000]}})";
  put(folder / "f", file_of(header, ""));
  ASSERT_EQ(::truncate((folder / "f").c_str(), static_cast<off_t>(8 + header.size() + 260000000)), 0);
  double fastest_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const SafetensorsFile file(folder / "f");
    EXPECT_EQ(file.shape("w").numel(), 65000000);
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    fastest_ms = std::min(fastest_ms, spent.count());
  }
  EXPECT_LT(fastest_ms, 20);
}

TEST(Safetensors, ErrorsNameFileTensorExpectedAndFound) {
  const qkv::testing::Scratch folder;
  const std::filesystem::path path = folder / "model.safetensors";
  const auto one = [](const std::string& entry) { return file_of("{\"w\":" + entry + "}", "01234567"); };
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"", {"at least 8 bytes", "found 0"}},
      {"1234567", {"found 7"}},
      {"This is a text, not a model.", {"file of 28 bytes", "of another format"}},
      {file_of("{}", "").replace(0, 8, 8, '\xff'), {"18446744073709551615", "truncated"}},
      {file_of("{\"w\": ", ""), {"the end of the text"}},
      {file_of("{\"\xff\": {}}", ""), {"syntax error"}},
      {file_of("{\"w\": 1e999}", ""), {"a number beyond double precision", "1e999"}},
      {file_of("[1]", ""), {"a JSON object, found [1]"}},
      {file_of("7", ""), {"a JSON object, found 7"}},
      {one("3"), {"w", "expected an object"}},
      {one(R"({"shape":[2],"data_offsets":[0,8]})"), {": w: expected a member 'dtype', found none"}},
      {one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})"), {": w.dtype: ", "F33"}},
      {one(R"({"dtype":[],"shape":[2],"data_offsets":[0,8]})"), {": w.dtype: expected a string, found []"}},
      {one(R"({"dtype":"F32","data_offsets":[0,8]})"), {": w: expected a member 'shape', found none"}},
      {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
       {": w.shape[0]: ", "at least 0, found -2"}},
      {one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
       {": w.shape[0]: expected an integer, found 2.0"}},
      {one(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})"),
       {": w.shape[0]: expected an integer, found [2]"}},
      {one(R"({"dtype":"F32","shape":[1,1,1,1,1,2],"data_offsets":[0,8]})"),
       {": w.shape: ", "at most 5", "found [1,1,1,1,1,2]"}},
      {one(R"({"dtype":"F32","shape":[9223372036854775807,3],"data_offsets":[0,8]})"), {"w", "2^63"}},
      {one(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), {"w", "2^63"}},
      {one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})"),
       {": w.shape[0]: ", "at most 9223372036854775807"}},
      {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
       {": w.data_offsets: ", "12 bytes", "[3]", "found [0,8]"}},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), {"w", "[8,0]"}},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), {"w", "[0]"}},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":8})"),
       {": w.data_offsets: expected a list, found 8"}},
      {one(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})"), {"w", "byte 0", "byte 4"}},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), {"16 bytes", "found 8", "truncated"}},
      {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), {"4 bytes", "found 8", "trailing data"}},
      {file_of(R"({"v":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("w":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
               "012345"),
       {"w", "byte 4", "found byte 2"}},
      {file_of(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
               "0123"),
       {"w twice"}},
      {file_of(R"({"__metadata__":{"step":3}})", ""), {"__metadata__.step", "string"}},
  };
  for (const auto& [content, words] : cases) {
    const std::string message = complaint(path, content);
    EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors"), HasSubstr("expected"), HasSubstr("found")));
    for (const std::string& word : words) EXPECT_THAT(message, HasSubstr(word));
    EXPECT_LT(message.size(), 600u);
  }
}

TEST(Safetensors, DeepNestingIsAnErrorNotACrash) {
  const qkv::testing::Scratch folder;
  const size_t depth = 2'000'000;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  const std::string begin = R"({"w":{"dtype":"F32","data_offsets":[0,0],"shape":[)";
  EXPECT_THAT(complaint(folder / "f", file_of(begin + nested + "]}}", "")), HasSubstr("at most 64 deep"));
}

TEST(Safetensors, NamesMissingTensors) {
  const qkv::testing::Scratch folder;
  const std::string data(16, '\x01');
  put(folder / "f", file_of(R"({"i":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                            R"("w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                            data));
  const SafetensorsFile file(folder / "f");
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([&] { file.tensor("i"); }), AllOf(HasSubstr("BF16"), HasSubstr("found F64")));
  EXPECT_THAT(message([&] { file.tensor("x"); }), AllOf(HasSubstr("tensor x"), HasSubstr("found 2")));
  EXPECT_THAT(message([&] { file.shape("x"); }), HasSubstr("tensor x"));
  EXPECT_THAT(message([&] { file.tensor("w", {3, 1}); }), AllOf(HasSubstr("[3, 1]"), HasSubstr("found [2]")));
  EXPECT_THROW(SafetensorsFile(folder / "missing"), IoError);
  EXPECT_THROW(SafetensorsFile(folder.path()), IoError);
}

// Typical damage by disks and copying: each damaged file either opens and can be read completely, or is
// rejected with a DataError.
TEST(Safetensors, DamageNeverCrashes) {
  const qkv::testing::Scratch folder;
  const std::filesystem::path path = folder / "f";
  write_safetensors(path, {{"encoder.weight", random_tensor({4, 3}, 1)},
                           {"bias", random_tensor({5}, 2)},
                           {"mask", Tensor::from(std::vector<uint8_t>{1, 0, 1}, {3})}});
  const std::string good = read_file(path);
  RandomStream random(11);
  int refused = 0, opened = 0;
  const auto check = [&](const std::string& content) {
    put(path, content);
    try {
      const SafetensorsFile file(path);
      for (const std::string& name : file.names()) {
        if (file.dtype(name) == "F32") {
          for (volatile float value : file.tensor(name).values()) (void)value;
        } else {
          (void)file.tensor(name);
        }
      }
      ++opened;
    } catch (const DataError&) {
      ++refused;
    }
  };
  for (size_t length = 0; length < good.size(); ++length) check(good.substr(0, length));
  EXPECT_EQ(opened, 0);  // no truncated file is accepted
  const std::string interesting = std::string("0123456789[]{},:\"-.eFI \xff\x00\x7f", 27);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string content = good;
    content[i] = interesting[random.below(interesting.size())];
    check(content);
    content[random.below(good.size())] = static_cast<char>(random.next());
    check(content);
    content = good;
    content.erase(i, 1 + random.below(4));
    check(content);
    content = good;
    content.insert(i, 1 + random.below(3), interesting[random.below(interesting.size())]);
    check(content);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(opened, 50);  // damage in data, spaces or names only
}

TEST(Safetensors, WritingRejectsUnreadableTensors) {
  const qkv::testing::Scratch folder;
  const Tensor tensor = random_tensor({2}, 1);
  const std::filesystem::path path = folder / "f";
  EXPECT_THROW(write_safetensors(path, {{"", tensor}}), UsageError);
  EXPECT_THROW(write_safetensors(path, {{"__metadata__", tensor}}), UsageError);
  EXPECT_THROW(write_safetensors(path, {{"a", tensor}, {"a", tensor}}), UsageError);
  EXPECT_THROW(write_safetensors(path, {{"a", Tensor()}}), UsageError);
  EXPECT_THROW(write_safetensors(path, {{"a\xff", tensor}}), UsageError);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(write_safetensors(folder / "no/f", {{"a", tensor}}), IoError);
}

}  // namespace
}  // namespace qkv::io
