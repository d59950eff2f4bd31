#pragma once
// The checksums of the hub's files.

#include <memory>
#include <string>
#include <string_view>

#include "qkv/hub/listing.h"

namespace qkv::hub {

// Of a file's content as it arrives: SHA-256, or git's SHA-1 of a blob, which begins with "blob BYTES\0".
class Digest {
 public:
  explicit Digest(const HubFile& file);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::string_view bytes);
  // Hexadecimal, in lower case. The last call.
  std::string value();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 32 bytes.
std::string sha256(std::string_view bytes);

}  // namespace qkv::hub
