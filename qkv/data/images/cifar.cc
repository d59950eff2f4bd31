#include "qkv/data/images/cifar.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/data/images/binary_file.h"

namespace qkv::data {
namespace {

// A record's labels precede its pixels.
struct Kind {
  int64_t label_bytes;
  std::array<int64_t, 2> classes;  // of each label; the last is the class

  int64_t record() const { return label_bytes + kCifarBytes; }
  int64_t class_count() const { return classes[static_cast<size_t>(label_bytes - 1)]; }
};

constexpr std::array<Kind, 2> kKinds{{{1, {10, 0}}, {2, {20, 100}}}};

const Kind& kind_of(const std::vector<uint8_t>& bytes, const std::string& name) {
  for (const Kind& kind : kKinds) {
    if (!bytes.empty() && std::ssize(bytes) % kind.record() == 0) return kind;
  }
  throw DataError(concat(name, ": expected records of CIFAR-10 or CIFAR-100, a multiple of ",
                         kKinds[0].record(), " or ", kKinds[1].record(), " bytes, found ", bytes.size(),
                         " bytes"));
}

void append_records(const std::vector<uint8_t>& bytes, const Kind& kind, const std::string& name,
                    CifarImages& images) {
  if (bytes.empty() || std::ssize(bytes) % kind.record() != 0) {
    throw DataError(concat(name, ": expected records of CIFAR-", kind.class_count(), ", a multiple of ",
                           kind.record(), " bytes, found ", bytes.size(), " bytes"));
  }
  const int64_t count = std::ssize(bytes) / kind.record();
  images.pixels.reserve(images.pixels.size() + static_cast<size_t>(count * kCifarBytes));
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* record = bytes.data() + i * kind.record();
    for (int64_t k = 0; k < kind.label_bytes; ++k) {
      if (const int64_t classes = kind.classes[static_cast<size_t>(k)]; record[k] >= classes) {
        throw DataError(concat(name, ": image ", i + 1, ": expected a label of 0 to ", classes - 1,
                               ", found ", int{record[k]}));
      }
    }
    images.labels.push_back(record[kind.label_bytes - 1]);
    images.pixels.insert(images.pixels.end(), record + kind.label_bytes, record + kind.record());
  }
}

}  // namespace

CifarImages read_cifar(std::span<const std::filesystem::path> files) {
  CifarImages images;
  const Kind* kind = nullptr;
  for (const std::filesystem::path& path : files) {
    BinaryFile file(path);
    const std::vector<uint8_t> bytes = file.read_rest();
    if (kind == nullptr) kind = &kind_of(bytes, file.name());
    append_records(bytes, *kind, file.name(), images);
  }
  if (kind != nullptr) images.classes = kind->class_count();
  return images;
}

}  // namespace qkv::data
