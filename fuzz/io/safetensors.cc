// Reads a safetensors file: the bytes unchanged, and again as a header with its correct length, which random
// mutation rarely finds, followed by as many data bytes as the first byte says.

#include "qkv/io/safetensors.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"

namespace qkv::fuzz {
namespace {

void read_all(std::string_view bytes) {
  static const std::filesystem::path path = scratch_folder("safetensors") / "model.safetensors";
  write(path, bytes);
  const io::SafetensorsFile file(path);
  for (const std::string& name : file.names()) {
    try {
      file.tensor(name);
      file.as_stored(name, file.shape(name));
    } catch (const Error&) {
      // An unsupported dtype.
    }
  }
}

void read(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view header = bytes.substr(1);
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file.append(header).append(static_cast<unsigned char>(bytes.front()), '\x3F');
  read_in_each_way({[&] { read_all(bytes); }, [&] { read_all(file); }});
}

std::vector<std::string> seeds() {
  std::vector<std::string> all =
      golden_files({"models/golden/llama", "models/golden/llama+f16"}, ".safetensors");
  all.push_back("\x08{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}");
  return all;
}

}  // namespace

const Reader safetensors{"safetensors", read, seeds};

}  // namespace qkv::fuzz
