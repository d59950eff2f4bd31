#include "qkv/hub/digest.h"

#include <openssl/evp.h>

#include <new>

#include "qkv/base/error.h"

namespace qkv::hub {

struct Digest::Context {
  Context() : state(EVP_MD_CTX_new()) {}
  ~Context() { EVP_MD_CTX_free(state); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* state;
};

Digest::Digest(const HubFile& file) : context_(std::make_unique<Context>()) {
  const EVP_MD* const kind = file.has_sha256() ? EVP_sha256() : EVP_sha1();
  if (!context_->state) throw std::bad_alloc();
  if (EVP_DigestInit_ex(context_->state, kind, nullptr) != 1)
    throw Error(concat("OpenSSL has no ", file.has_sha256() ? "SHA-256" : "SHA-1"));
  if (!file.has_sha256()) add(concat("blob ", file.bytes, '\0'));
}

Digest::~Digest() = default;

void Digest::add(std::string_view bytes) { EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()); }

std::string Digest::value() {
  static constexpr char kDigits[] = "0123456789abcdef";
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  EVP_DigestFinal_ex(context_->state, bytes, &count);
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

std::string sha256(std::string_view bytes) {
  std::string digest(32, '\0');
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
                 EVP_sha256(), nullptr) != 1)
    throw Error("OpenSSL has no SHA-256");
  return digest;
}

}  // namespace qkv::hub
