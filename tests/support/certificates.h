#pragma once
// Keys and certificates for tests of TLS.

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "tests/support/scratch.h"

namespace qkv::testing {

template <class T, void (*Free)(T*)>
struct FreedBy {
  void operator()(T* object) const { Free(object); }
};
using Key = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509, X509_free>>;

// A key, and a certificate of a host that it has signed itself, as PEM files NAME.key and NAME.pem. It ends
// in so many seconds.
inline void write_certificate(const Scratch& scratch, const std::string& name,
                              const std::string& host = "localhost", long seconds = 3600) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const auto write = [&](const std::string& file, const auto& put) {
    BIO* const bio = BIO_new_file((scratch / file).c_str(), "w");
    EXPECT_EQ(put(bio), 1);
    BIO_free(bio);
  };
  write(name + ".key", [&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  write(name + ".pem", [&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
}

}  // namespace qkv::testing
