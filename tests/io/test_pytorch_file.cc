// Files of torch.save() (tests/golden/pytorch_files.py), and what is not one.

#include "qkv/io/pytorch/pytorch_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/pytorch/pickle.h"
#include "qkv/io/pytorch/zip.h"
#include "qkv/io/safetensors.h"
#include "tests/support/pytorch_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;

std::filesystem::path golden_bin(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "io/golden" / name;
}

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(PytorchFile, HasTheTensorsOfTorch) {
  for (const auto& [file, expected] : {std::pair{"archive.bin", "expected.safetensors"},
                                       {"legacy.bin", "expected.safetensors"},
                                       {"protocol4.bin", "expected.safetensors"},
                                       {"module.bin", "module_expected.safetensors"}}) {
    SCOPED_TRACE(file);
    const io::SafetensorsFile safetensors(golden_bin(expected));
    for (const MapFor use : {MapFor::reading, MapFor::writing}) {
      const io::PytorchFile found(golden_bin(file), use);
      EXPECT_EQ(found.names(), safetensors.names());
      for (const std::string& name : safetensors.names()) {
        SCOPED_TRACE(name);
        EXPECT_TRUE(found.contains(name));
        EXPECT_EQ(found.shape(name), safetensors.shape(name));
        EXPECT_EQ(found.dtype(name), safetensors.dtype(name));
        EXPECT_TRUE(std::ranges::equal(found.bytes(name), safetensors.bytes(name)));
        const Tensor tensor = found.as_stored(name, found.shape(name));
        EXPECT_TRUE(std::ranges::equal(tensor.as_bytes(), safetensors.bytes(name)));
      }
      expect_throw<DataError>("a tensor wings, found", [&] { found.shape("wings"); });
    }
  }
}

TEST(PytorchFile, HasTheTensorsOfAnArchiveOfTheTests) {
  const Scratch scratch;
  const io::SafetensorsFile expected(golden_bin("module_expected.safetensors"));
  scratch.write("a.bin", pytorch_archive(expected, [](const std::string& name) { return name != "1.bias"; }));
  const io::PytorchFile found(scratch / "a.bin");
  EXPECT_EQ(found.names().size() + 1, expected.names().size());
  for (const std::string& name : found.names())
    EXPECT_TRUE(std::ranges::equal(found.bytes(name), expected.bytes(name))) << name;
}

TEST(PytorchFile, MapsAlignedNumbersAndLeavesTheFileAsItIs) {
  const Scratch scratch;
  std::filesystem::copy(golden_bin("archive.bin"), scratch / "a.bin");
  const io::PytorchFile file(scratch / "a.bin", MapFor::writing);
  Tensor first = file.as_stored("first", {2, 3}), again = file.as_stored("first", {2, 3});
  first.data()[1] = 7;
  EXPECT_EQ(again.data()[1], 7) << "both are views of the mapping";
  EXPECT_EQ(read_file(scratch / "a.bin"), read_file(golden_bin("archive.bin")));
  EXPECT_TRUE(io::PytorchFile(scratch / "a.bin", MapFor::reading).as_stored("first", {2, 3}).read_only());
}

TEST(PytorchFile, LeavesOutWhatIsNoTensorAndRefusesOthersWhenRead) {
  const io::PytorchFile file(golden_bin("others.bin"));
  EXPECT_EQ(file.names(),
            (std::vector<std::string>{"attributed", "buffer", "complex", "deep", "f8", "imaginary",
                                      "negative", "parameter", "repeated", "sparse", "u16", "w", "wide"}));
  for (const auto& [name, value] :
       {std::pair{"w", 1.0f}, {"attributed", 3.0f}, {"parameter", 4.0f}, {"buffer", 5.0f}})
    EXPECT_EQ(file.as_stored(name, {2}).data()[1], value) << name;
  expect_throw<DataError>("expected shape [3], found [2]", [&] { file.as_stored("w", {3}); });
  for (const auto& [name, message] :
       {std::pair{"wide", "expected a dtype such as F32, F16 or BF16, found F64"},
        {"u16", "found U16"},
        {"f8", "found F8_E4M3"},
        {"complex", "found C64"}})
    expect_throw<DataError>(message, [&, name = name] { file.as_stored(name, {2}); });
  for (const auto& [name, message] :
       {std::pair{"repeated",
                  "repeated: expected a tensor of plain numbers, found [1000], more than the 1 numbers"},
        {"negative", "found the property neg"},
        {"imaginary", "found the property neg"},
        {"deep", "found 6 dimensions (at most 5)"},
        {"sparse", "found an object of torch._utils _rebuild_sparse_tensor"}}) {
    expect_throw<DataError>(message, [&, name = name] { file.as_stored(name, file.shape(name)); });
    expect_throw<DataError>(message, [&, name = name] { file.bytes(name); });
  }
}

TEST(PytorchFile, ComparesTheNumbersWithTheirChecksums) {
  const Scratch scratch;
  std::string content = read_file(golden_bin("archive.bin"));
  const std::string first = [] {
    const io::PytorchFile whole(golden_bin("archive.bin"));
    EXPECT_TRUE(whole.verify().good());
    EXPECT_EQ(whole.verify().matching, std::ssize(whole.names()) - 1) << "one has no numbers";
    const auto bytes = whole.bytes("f32");
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }();
  content[content.find(first) + 5] ^= 1;
  scratch.write("a.bin", content);
  EXPECT_EQ(io::PytorchFile(scratch / "a.bin").verify().differing, std::vector<std::string>{"f32"});
  EXPECT_FALSE(io::PytorchFile(golden_bin("legacy.bin")).verify().carries_checksums());
  content = read_file(golden_bin("archive.bin"));
  content[content.find("_rebuild_tensor_v2")] = 'x';
  scratch.write("a.bin", content);
  expect_throw<DataError>("archive/data.pkl does not match its checksum",
                          [&] { io::PytorchFile(scratch / "a.bin"); });
}

TEST(PytorchFile, RefusesOtherFiles) {
  expect_throw<DataError>("list.bin: expected a dictionary of tensors (a state_dict), found another object",
                          [] { io::PytorchFile(golden_bin("list.bin")); });
  expect_throw<DataError>("found one without a tensor: state_dict, epoch",
                          [] { io::PytorchFile(golden_bin("nested.bin")); });
  const Scratch scratch;
  const auto refused = [&](const std::string& content, const std::string& message) {
    scratch.write("a.bin", content);
    expect_throw<DataError>(message, [&] { io::PytorchFile(scratch / "a.bin"); });
  };
  refused("", "found an empty one");
  refused("PK", "found another format");
  refused("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
  refused("\x80\x02}.", "expected the magic number of torch.save()");
  refused(read_file(golden_bin("expected.safetensors")), "found another format");
}

// Each prefix is refused or, behind the numbers of all tensors, has them.
TEST(PytorchFile, RefusesTruncatedFiles) {
  const Scratch scratch;
  for (const char* name : {"archive.bin", "legacy.bin"}) {
    const std::string whole = read_file(golden_bin(name));
    for (size_t size = 0; size < whole.size(); size += size + 30 < whole.size() ? 11 : 1) {
      scratch.write("a.bin", whole.substr(0, size));
      EXPECT_THROW(io::PytorchFile(scratch / "a.bin"), DataError) << name << " of " << size;
    }
  }
}

TEST(Zip, HasItsEntriesWithNumbersOf32And64Bits) {
  for (const bool wide : {false, true}) {
    ZipBuilder zip;
    zip.add("a/one", "1", wide);
    zip.add("a/empty", "", wide);
    zip.add("b", "two", wide);
    for (const char* comment : {"", "a comment"}) {
      const std::string file = zip.build(wide, comment);
      EXPECT_TRUE(io::is_zip(bytes_of_text(file)));
      const auto entries = io::stored_entries(bytes_of_text(file), "x.zip");
      EXPECT_EQ(entries.size(), 3u);
      EXPECT_TRUE(std::ranges::equal(entries.at("b").bytes, bytes_of_text("two")));
      EXPECT_TRUE(entries.at("a/empty").bytes.empty());
      for (size_t size = 4; size < file.size() - std::strlen(comment); ++size)
        EXPECT_THROW(io::stored_entries(bytes_of_text(file.substr(0, size)), "x.zip"), DataError) << size;
    }
  }
  ZipBuilder compressed;
  compressed.add("a", "1", false, 8);
  const std::string file = compressed.build(false);
  expect_throw<DataError>(
      "x.zip: expected a ZIP archive as torch.save() writes it, found the compressed entry a",
      [&] { io::stored_entries(bytes_of_text(file), "x.zip"); });
}

std::string refused_pickle(const std::string& bytes) {
  return message_of<DataError>([&] { io::Pickle(bytes_of_text(bytes), "p"); });
}

TEST(Pickle, ReadsValuesAndRunsNothing) {
  const std::string bytes =
      std::string("\x80\x02") + "cos\nsystem\nq" + '\0' + "X\x02" + std::string(3, '\0') + "ls\x85R.rest";
  const io::Pickle pickle(bytes_of_text(bytes), "p");
  EXPECT_EQ(pickle.size(), bytes.size() - 4);
  ASSERT_EQ(pickle.result().kind, io::Pickle::Kind::call);
  EXPECT_EQ(pickle[pickle.result().items[0]].text, "os system");
  const std::string numbers("\x80\x02(K\x05M\x01\x02J\xff\xff\xff\xff\x8a\x02\x00\x80\x8a\x00t.", 21);
  const io::Pickle list(bytes_of_text(numbers), "p");
  std::vector<int64_t> found;
  for (const io::Pickle::Ref item : list.result().items) found.push_back(list[item].integer);
  EXPECT_EQ(found, (std::vector<int64_t>{5, 513, -1, -32768, 0}));
}

TEST(Pickle, RefusesWhatIsNone) {
  const std::string kStart("\x80\x02");
  for (const auto& [bytes, message] : {std::pair<std::string, const char*>{"", "its end"},
                                       {"\x80\x02", "its end"},
                                       {"\x80\x02.", "an empty stack"},
                                       {"\x80\x02(.", "an empty stack"},
                                       {"\x80\x01N.", "protocol 1"},
                                       {"\x80\x09N.", "protocol 9"},
                                       {kStart + "I1\n.", "an unknown instruction 73"},
                                       {kStart + "t.", "no mark"},
                                       {kStart + "h\x05.", "a place of the memo without a value"},
                                       {kStart + "N\x85N\x86N\x87.", "an empty stack"},
                                       {kStart + "Na.", "an empty stack"},
                                       {kStart + "NNa.", "a value of another type"},
                                       {kStart + "](NNe](Nu.", "a value of another type"},
                                       {kStart + "}(NNNu.", "a key without a value"},
                                       {kStart + "(Nd.", "a key without a value"},
                                       {kStart + "NNR.", "arguments that are no tuple"},
                                       {"(lp0\n.", "one of protocol 0 or 1, or none,"},
                                       {kStart + "cos.", "its end"},
                                       {"ccollections\nOrderedDict\n](N\x85lea\x85R.", ""},
                                       {kStart + "X\xff\xff\xff\xff", "its end"},
                                       {kStart + "\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "its end"}}) {
    EXPECT_NE(refused_pickle(bytes).find(message), std::string::npos)
        << bytes << ": " << refused_pickle(bytes);
  }
  // Values, marks and repeated values have limits, as a byte makes one.
  for (const char one : {'N', '(', '2'}) {
    const std::string many = kStart + "N" + std::string(io::Pickle::kMostValues + 1, one);
    EXPECT_NE(refused_pickle(many).find("more than 4000000"), std::string::npos) << one;
  }
  // Texts and lists that are copied again and again: names of two texts, and dictionaries of a list.
  std::string text("\x8d\0\0\x10\0\0\0\0\0", 9), list = "](", pairs = "ccollections\nOrderedDict\nq";
  text += std::string(size_t{1} << 20, 'a');
  pairs += '\x02';
  for (int i = 0; i < 100'000; ++i) list += "NN\x86";
  std::string names = kStart + text + "q\x01", dictionaries = kStart + pairs + list + "e\x85q\x03";
  for (int i = 0; i < 1000; ++i) {
    names += "h\x01h\x01\x93";
    dictionaries += "h\x02h\x03R";
  }
  for (const std::string& bomb : {names, dictionaries})
    EXPECT_NE(refused_pickle(bomb).find("bytes of texts and items"), std::string::npos)
        << refused_pickle(bomb);
}

}  // namespace
