// HTTP over TLS, with OpenSSL as the client.

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "qkv/base/error.h"
#include "qkv/serve/http/server.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/certificates.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace std::chrono_literals;
using serve::HttpOptions;
using serve::HttpRequest;
using serve::HttpServer;
using serve::ReplyHandle;

using Context = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, FreedBy<SSL, SSL_free>>;

// A connection that trusts `certificate` alone.
class TlsClient {
 public:
  TlsClient(uint16_t port, const std::string& certificate, int least_version, int most_version)
      : client_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_load_verify_file(context_.get(), certificate.c_str());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_security_level(context_.get(), 0);  // or OpenSSL itself refuses old versions
    SSL_CTX_set_min_proto_version(context_.get(), least_version);
    SSL_CTX_set_max_proto_version(context_.get(), most_version);
    session_.reset(SSL_new(context_.get()));
    SSL_set1_host(session_.get(), "localhost");
    SSL_set_fd(session_.get(), client_.socket());
    connected_ = SSL_connect(session_.get()) == 1;
  }
  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(session_.get()); }
  bool send(const std::string& bytes) {
    return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // What arrives until it contains `end`, or the connection ends.
  std::string until(const std::string& end) {
    std::string received;
    char bytes[4096];
    while (received.find(end) == std::string::npos) {
      const int count = SSL_read(session_.get(), bytes, sizeof bytes);
      if (count <= 0) break;
      received.append(bytes, static_cast<size_t>(count));
    }
    return received;
  }
  void reset() { client_.reset(); }

 private:
  RawClient client_;
  Context context_;
  Session session_;
  bool connected_ = false;
};

HttpOptions tls_options(const Scratch& scratch) {
  HttpOptions options;
  options.port = 0;
  options.certificate = (scratch / "good.pem").string();
  options.private_key = (scratch / "good.key").string();
  return options;
}

TEST(Tls, AnswersAndStreams) {
  const Scratch scratch;
  write_certificate(scratch, "good");
  HttpServer server(tls_options(scratch), [](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path == "/stream") {
      reply->begin({.body = "one,"});
      reply->write("two");
      return reply->end();
    }
    reply->send({.body = request.body + "!"});
  });
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(), (scratch / "good.pem").string(), version, version);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.version(), version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3");
    const std::string large(300'000, 'x');  // several records
    ASSERT_TRUE(client.send(request_bytes("/", large)));
    EXPECT_TRUE(client.until("!").ends_with(large + "!"));
    ASSERT_TRUE(client.send(request_bytes("/stream")));
    EXPECT_TRUE(client.until("0\r\n\r\n").ends_with("\r\n\r\n4\r\none,\r\n3\r\ntwo\r\n0\r\n\r\n"));
  }
  EXPECT_EQ(server.counts().requests, 4);
}

TEST(Tls, RefusesOldVersionsPlainTextAndSilence) {
  const Scratch scratch;
  write_certificate(scratch, "good");
  HttpOptions options = tls_options(scratch);
  options.header_timeout = 200ms;
  HttpServer server(options,
                    [](const HttpRequest&, const ReplyHandle& reply) { reply->send({.body = "x"}); });
  const std::string trusted = (scratch / "good.pem").string();
  EXPECT_FALSE(TlsClient(server.port(), trusted, TLS1_VERSION, TLS1_1_VERSION).connected());
  RawClient plain(server.port()), silent(server.port());
  plain.send(request_bytes("/"));
  EXPECT_EQ(plain.rest().find("HTTP"), std::string::npos);
  EXPECT_EQ(silent.rest(), "") << "closed when its time for a handshake is over";
  TlsClient good(server.port(), trusted, TLS1_2_VERSION, TLS1_3_VERSION);
  ASSERT_TRUE(good.connected());
  ASSERT_TRUE(good.send(request_bytes("/")));
  EXPECT_TRUE(good.until("\r\n\r\nx").starts_with("HTTP/1.1 200 OK"));
}

TEST(Tls, NoticesThatAClientLeft) {
  const Scratch scratch;
  write_certificate(scratch, "good");
  std::atomic<int> left = 0;
  HttpServer server(tls_options(scratch), [&](const HttpRequest&, const ReplyHandle& reply) {
    reply->on_closed([&, reply] { ++left; });
    reply->begin({.body = "begun"});
  });
  TlsClient client(server.port(), (scratch / "good.pem").string(), TLS1_2_VERSION, TLS1_3_VERSION);
  ASSERT_TRUE(client.connected());
  ASSERT_TRUE(client.send(request_bytes("/")));
  EXPECT_NE(client.until("begun").find("begun"), std::string::npos);
  client.reset();
  for (int i = 0; i < 3000 && left == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(left, 1);
}

TEST(Tls, NamesTheFileThatIsWrong) {
  const Scratch scratch;
  write_certificate(scratch, "good");
  write_certificate(scratch, "other");
  const auto refused = [](const HttpOptions& options) {
    return message_of<IoError>([&] { const HttpServer server(options, [](auto&&...) {}); });
  };
  HttpOptions options = tls_options(scratch);
  options.private_key = (scratch / "other.key").string();
  EXPECT_NE(refused(options).find("other.key: expected the certificate's private key"), std::string::npos)
      << refused(options);
  options.private_key = scratch.write("empty.key", "").string();
  EXPECT_NE(refused(options).find("empty.key: expected"), std::string::npos) << refused(options);
  options.certificate = (scratch / "good.key").string();
  EXPECT_NE(refused(options).find("good.key: expected a PEM certificate chain"), std::string::npos);
}

}  // namespace
