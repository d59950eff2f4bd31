#include "qkv/io/checksums.h"

#include <array>
#include <cstdio>

#include "qkv/base/parallel.h"
#include "qkv/io/crc32c.h"

namespace qkv::io {
namespace {

constexpr std::string_view kPrefix = "crc32c:";

std::string key_of(const std::string& tensor) { return std::string(kPrefix) + tensor; }

std::string_view view_of(const void* bytes, size_t size) { return {static_cast<const char*>(bytes), size}; }

}  // namespace

std::string checksum_text(uint32_t checksum) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%08x", checksum);
  return text.data();
}

Metadata with_checksums(Metadata metadata, const std::vector<NamedTensor>& tensors) {
  std::vector<uint32_t> sums(tensors.size());
  parallel_for(std::ssize(tensors), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Tensor host = to_host(tensors[i].tensor);
      const Tensor packed = host.contiguous() ? host : host.clone();
      sums[i] = crc32c(view_of(packed.as_bytes().data(), packed.bytes()));
    }
  });
  for (size_t i = 0; i < tensors.size(); ++i) metadata[key_of(tensors[i].name)] = checksum_text(sums[i]);
  return metadata;
}

ChecksumReport verify_checksums(const SafetensorsFile& file) {
  const std::vector<std::string> names = file.names();
  std::vector<std::string> found(names.size());
  parallel_for(std::ssize(names), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (!file.metadata().contains(key_of(names[i]))) continue;
      const std::span<const std::byte> bytes = file.bytes(names[i]);
      found[i] = checksum_text(crc32c(view_of(bytes.data(), bytes.size())));
      release_mapped(bytes.data(), bytes.size());
    }
  });
  ChecksumReport report;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto expected = file.metadata().find(key_of(names[i]));
    if (expected == file.metadata().end()) {
      report.unchecked.push_back(names[i]);
    } else if (expected->second == found[i]) {
      ++report.matching;
    } else {
      report.differing.push_back(names[i]);
    }
  }
  for (const auto& [key, sum] : file.metadata()) {
    if (!key.starts_with(kPrefix)) continue;
    std::string name = key.substr(kPrefix.size());
    if (!file.contains(name)) report.missing.push_back(std::move(name));
  }
  return report;
}

}  // namespace qkv::io
