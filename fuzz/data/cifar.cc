// Reads a CIFAR-binary file, and one of class names beside it.

#include "qkv/data/images/cifar.h"

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/data/images/image_set.h"

namespace qkv::fuzz {
namespace {

void read(std::string_view bytes) {
  static const std::filesystem::path folder = scratch_folder("cifar");
  const size_t names = bytes.find("names:");
  write(folder / "test.bin", bytes.substr(0, names));
  write(folder / "fine_label_names.txt",
        names == std::string_view::npos ? std::string_view() : bytes.substr(names));
  const data::ImageSet set = data::read_images({folder, {}}, data::ImagePart::test, {.channels = 1});
  data::channel_moments(set);
}

std::vector<std::string> seeds() {
  const auto records = [](const std::string& labels) {
    std::string bytes;
    for (int image = 0; image < 2; ++image) {
      bytes += labels;
      for (int64_t i = 0; i < data::kCifarBytes; ++i) bytes += static_cast<char>(i * 31 + image);
    }
    return bytes;
  };
  return {records("\7"), records(std::string("\1\143", 2)) + "names:\n"};
}

}  // namespace

const Reader cifar{"cifar", read, seeds};

}  // namespace qkv::fuzz
