// Reads a file of torch.save(): the bytes unchanged, and again as the pickle of an archive with 64 numbers.

#include "qkv/io/pytorch/pytorch_file.h"

#include <cstdint>
#include <cstring>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"

namespace qkv::fuzz {
namespace {

void read_all(std::string_view bytes) {
  static const std::filesystem::path path = scratch_folder("pytorch") / "pytorch_model.bin";
  write(path, bytes);
  const io::PytorchFile file(path, MapFor::reading);
  for (const std::string& name : file.names()) {
    try {
      file.as_stored(name, file.shape(name));
      file.bytes(name);
    } catch (const Error&) {
      // An unsupported dtype, or repeated numbers.
    }
  }
}

template <class Number>
void put(std::string& to, Number value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  to.append(bytes, sizeof(value));
}

// An archive of a/data.pkl and a/data/0.
std::string archive_of(std::string_view pickle) {
  std::string file, directory;
  const std::string numbers(64 * sizeof(float), '\x3F');
  for (const auto& [name, content] :
       {std::pair<std::string_view, std::string_view>{"a/data.pkl", pickle}, {"a/data/0", numbers}}) {
    const auto local = static_cast<uint32_t>(file.size()), size = static_cast<uint32_t>(content.size());
    put<uint32_t>(file, 0x04034b50);
    file.append(22, '\0');
    put<uint32_t>(file, static_cast<uint32_t>(name.size()));
    file.append(name).append(content);
    put<uint32_t>(directory, 0x02014b50);
    directory.append(16, '\0');
    put<uint32_t>(directory, size);
    put<uint32_t>(directory, size);
    put<uint32_t>(directory, static_cast<uint32_t>(name.size()));
    directory.append(10, '\0');
    put<uint32_t>(directory, local);
    directory.append(name);
  }
  const auto begin = static_cast<uint32_t>(file.size());
  file += directory;
  put<uint32_t>(file, 0x06054b50);
  put<uint32_t>(file, 0);
  put<uint32_t>(file, 2 | 2 << 16);
  put<uint32_t>(file, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(file, begin);
  put<uint16_t>(file, 0);
  return file;
}

void read(std::string_view bytes) {
  read_in_each_way({[&] { read_all(bytes); }, [&] { read_all(archive_of(bytes)); }});
}

// {"w": a tensor [2, 3] at 4}
std::vector<std::string> seeds() {
  std::vector<std::string> all = golden_files({"io/golden"}, ".bin");
  constexpr char kPickle[] =
      "\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
      "X\x01\0\0\0"
      "0X\x03\0\0\0cpuK@tQK\x04K\x02K\x03\x86K\x03K\x01\x86\x89}tRs.";
  all.emplace_back(kPickle, sizeof(kPickle) - 1);
  return all;
}

}  // namespace

const Reader pytorch{"pytorch", read, seeds};

}  // namespace qkv::fuzz
