#pragma once
// Files as torch.save() writes them.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/io/safetensors.h"

namespace qkv::testing {

template <class Number>
void put_number(std::string& to, Number value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  to.append(bytes, sizeof(value));
}

// Builds an archive of stored entries.
class ZipBuilder {
 public:
  // wide: with sizes of 64 bits.
  void add(const std::string& name, std::string_view content, bool wide = false, int method = 0) {
    const size_t local = bytes_.size();
    put_number<uint32_t>(bytes_, 0x04034b50);
    bytes_.append(22, '\0');
    put_number(bytes_, static_cast<uint16_t>(name.size()));
    // The numbers begin at a multiple of 64 bytes.
    const size_t padding = (64 - (bytes_.size() + 2 + name.size()) % 64) % 64;
    put_number(bytes_, static_cast<uint16_t>(padding));
    bytes_ += name;
    bytes_.append(padding, 'Z').append(content);
    put_number<uint32_t>(directory_, 0x02014b50);
    directory_.append(6, '\0');
    put_number(directory_, static_cast<uint16_t>(method));
    directory_.append(8, '\0');
    const auto narrow = [&](size_t value) {
      put_number(directory_, wide ? UINT32_MAX : static_cast<uint32_t>(value));
    };
    narrow(content.size());
    narrow(content.size());
    put_number(directory_, static_cast<uint16_t>(name.size()));
    put_number<uint16_t>(directory_, wide ? 34 : 0);
    directory_.append(10, '\0');
    narrow(local);
    directory_ += name;
    if (wide) {
      put_number<uint16_t>(directory_, 99);  // another field
      put_number<uint16_t>(directory_, 2);
      directory_ += "xy";
      put_number<uint16_t>(directory_, 1);
      put_number<uint16_t>(directory_, 24);
      for (const size_t value : {content.size(), content.size(), local})
        put_number<uint64_t>(directory_, value);
    }
    ++count_;
  }

  std::string build(bool wide = false, const std::string& comment = "") const {
    std::string all = bytes_ + directory_;
    if (wide) {
      const size_t record = all.size();
      put_number<uint32_t>(all, 0x06064b50);
      all.append(28, '\0');
      for (const size_t value : {count_, directory_.size(), bytes_.size()}) put_number<uint64_t>(all, value);
      put_number<uint32_t>(all, 0x07064b50);
      put_number<uint32_t>(all, 0);
      put_number<uint64_t>(all, record);
      put_number<uint32_t>(all, 1);
    }
    put_number<uint32_t>(all, 0x06054b50);
    put_number<uint32_t>(all, 0);
    put_number<uint16_t>(all, UINT16_MAX);
    put_number(all, wide ? uint16_t{UINT16_MAX} : static_cast<uint16_t>(count_));
    put_number(all, static_cast<uint32_t>(directory_.size()));
    put_number(all, wide ? UINT32_MAX : static_cast<uint32_t>(bytes_.size()));
    put_number(all, static_cast<uint16_t>(comment.size()));
    return all + comment;
  }

 private:
  std::string bytes_, directory_;
  size_t count_ = 0;
};

// A file with the tensors of a safetensors file, of which those that `wanted` names: pytorch_model.bin.
template <class Wanted>
std::string pytorch_archive(const io::SafetensorsFile& from, const Wanted& wanted) {
  std::string pickle("\x80\x02}(", 4);
  const auto text = [&](const std::string& value) {
    pickle += 'X';
    put_number(pickle, static_cast<uint32_t>(value.size()));
    pickle += value;
  };
  const auto integer = [&](int64_t value) {
    pickle += 'J';
    put_number(pickle, static_cast<int32_t>(value));
  };
  ZipBuilder zip;
  int number = 0;
  for (const std::string& name : from.names()) {
    if (!wanted(name)) continue;
    const std::string& dtype = from.dtype(name);
    const char* const type = dtype == "F32"    ? "FloatStorage"
                             : dtype == "F16"  ? "HalfStorage"
                             : dtype == "BF16" ? "BFloat16Storage"
                             : dtype == "I64"  ? "LongStorage"
                                               : "ByteStorage";
    text(name);
    pickle += "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    pickle += std::string("ctorch\n") + type + "\n";
    text(std::to_string(number));
    text("cpu");
    integer(from.shape(name).numel());
    pickle += "tQK";
    pickle += '\0';
    const auto extents = from.shape(name).extents();
    pickle += '(';
    for (const int64_t extent : extents) integer(extent);
    pickle += "t(";
    for (size_t axis = 0; axis < extents.size(); ++axis) {
      int64_t stride = 1;
      for (size_t inner = axis + 1; inner < extents.size(); ++inner) stride *= extents[inner];
      integer(stride);
    }
    pickle +=
        "t\x89"
        "ccollections\nOrderedDict\n)RtR";
    const auto bytes = from.bytes(name);
    zip.add("model/data/" + std::to_string(number++),
            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  pickle += "u.";
  zip.add("model/data.pkl", pickle);
  zip.add("model/byteorder", "little");
  return zip.build();
}

// Replaces a safetensors file by one of torch.save().
inline void make_pytorch(const std::filesystem::path& safetensors, const std::filesystem::path& to) {
  const std::string archive =
      pytorch_archive(io::SafetensorsFile(safetensors), [](const std::string&) { return true; });
  write_file_atomically(to, archive);
  std::filesystem::remove(safetensors);
}

}  // namespace qkv::testing
