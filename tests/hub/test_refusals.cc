// Servers that refuse, lie or are silent; redirects, TLS and proxies.

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "qkv/base/error.h"
#include "tests/hub/pull_test.h"
#include "tests/support/certificates.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Refusals : public PullTest {
 protected:
  // The error of a pull with this token from a hub that gives this reply to requests of a path with `part`;
  // and how often it was asked.
  template <class Expected = IoError>
  std::string refused(const std::string& part, const Reply& reply, int asked, const std::string& token = {}) {
    fs::remove_all(cache());
    hub_.instead = [&](const Request& request) -> std::optional<Reply> {
      return request.target.find(part) == std::string::npos ? std::nullopt : std::optional(reply);
    };
    const HttpTestServer server(handler());
    hub::PullOptions pulling = options(server);
    pulling.settings.token = token;
    pulling.settings.retries = 2;
    const std::string message = message_of<Expected>([&] { hub::pull(pulling); });
    const std::vector<std::string> targets = server.targets();
    EXPECT_EQ(std::ranges::count_if(
                  targets, [&](const std::string& target) { return target.find(part) != target.npos; }),
              asked)
        << message;
    expect_nothing();
    return message;
  }
  Reply weights(const std::string& field, const std::string& value) const {
    return {.headers = {{field, value}}, .body = hub_.files.at("model.safetensors")};
  }
};

// The statuses and codes are those of the hub (hf_raise_for_status).
TEST_F(Refusals, SayWhatToDo) {
  expect_parts(refused("/revision/", FakeHub::refusal(401, "RepoNotFound"), 1),
               {"org/tiny: expected a model of http://localhost:", "or a private one, which needs HF_TOKEN"});
  expect_parts(refused("/revision/", FakeHub::refusal(404, "RepoNotFound"), 1, "hf_x"),
               {"or a private one that the account of the token may not read"});
  expect_parts(refused("/revision/", FakeHub::refusal(401, "", "Invalid credentials in Authorization header"),
                       1, "hf_x"),
               {"the token (HF_TOKEN, or the file HF_HOME/token) is not valid"});
  expect_parts(refused("/resolve/", FakeHub::refusal(403, "GatedRepo"), 1),
               {"org/tiny: a gated model: its terms must be accepted at http://localhost:",
                "/org/tiny, and HF_TOKEN set"});
  expect_parts(refused("/resolve/", FakeHub::refusal(403, "GatedRepo"), 1, "hf_x"),
               {"with the account of the token"});
  expect_parts(refused("/revision/", FakeHub::refusal(404, "RevisionNotFound"), 1),
               {"org/tiny: expected a branch, tag or commit 'main', found none"});
  expect_parts(refused("/resolve/", FakeHub::refusal(404, "EntryNotFound"), 1),
               {"config.json: the server has no such file in revision main"});
  expect_parts(refused("/resolve/", {.status = 404}, 1),
               {"config.json: the server has no such file in revision main"});
  expect_parts(refused("/tree/", FakeHub::refusal(418, "", "a teapot"), 1),
               {"list of files: status 418: a teapot"});
}

TEST_F(Refusals, AreRepeatedABoundedNumberOfTimes) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    expect_parts(refused("/lfs/", {.status = status}, 3),
                 {"model.safetensors: status " + std::to_string(status), "; tried 3 times"});
  }
  expect_parts(refused("/tree/", {.status = 501}, 1), {"status 501"});
  expect_parts(refused("/tree/", {.status = 429, .headers = {{"Retry-After", "3600"}}}, 1),
               {"; the server asks to wait 3600 s"});
  // Of the connection that was kept open, the failure does not count.
  expect_parts(refused("/tree/", {.raw = "\r\n\r\n"}, 4), {"the connection ended early; tried 3 times"});
  expect_parts(refused("/tree/", {.raw = "SSH-2.0-OpenSSH_9.2\r\n"}, 1), {"its answer is not HTTP: "});
  expect_parts(refused("/tree/", {.headers = {{"X", std::string(300'000, 'x')}}}, 1),
               {"its answer is not HTTP: "});
}

TEST_F(Refusals, OfWrongSizesAndChecksums) {
  expect_parts(refused("/lfs/", weights("Content-Encoding", "gzip"), 1),
               {"content-encoding: expected identity, found gzip"});
  expect_parts(
      refused("/lfs/", {.status = 206, .headers = {{"Content-Range", "bytes 5-99999/100000"}}, .body = "x"},
              1),
      {"content-range: expected bytes 0-99999/100000, found bytes 5-99999/100000"});
  expect_parts(refused("/lfs/", {.body = "short"}, 1), {"content-length: expected 100000, found 5"});
  expect_parts(refused("/lfs/", {.body = FakeHub::content(100'001)}, 1),
               {"content-length: expected 100000, found 100001"});
  expect_parts(refused("/lfs/", {.body = FakeHub::content(100'001), .states_length = false}, 1),
               {"model.safetensors: expected 100000 bytes, found more"});
  expect_parts(refused("/lfs/", {.body = FakeHub::content(5'000), .states_length = false}, 3),
               {"model.safetensors: ended after 5000 of 100000 bytes; tried 3 times"});
  expect_parts(refused<DataError>("/lfs/", {.body = FakeHub::content(100'000, 2)}, 2),
               {"model.safetensors: expected the SHA-256 " + hub_.checksum("model.safetensors"),
                "found another, twice"});
  EXPECT_EQ(fs::file_size(incomplete("model.safetensors")), 0U) << "what is wrong is not resumed";
  expect_parts(refused<DataError>("/resolve/", {.body = "{\"a\": 2}"}, 2),
               {"config.json: expected the git checksum "});
  Reply other{.status = 302, .headers = {{"Location", "/lfs/"}, {"X-Linked-Size", "7"}}};
  expect_parts(refused("/resolve/", other, 1), {"x-linked-size: expected 8, found 7"});
}

TEST_F(Refusals, OfHostileLists) {
  const auto list = [](const std::string& path) {
    return Reply{.body = nlohmann::json::array(
                             {{{"type", "file"}, {"path", path}, {"size", 1}, {"oid", std::string(40, 'a')}}})
                             .dump()};
  };
  for (const char* const path : {"../../evil.json", "/tmp/evil.json", "a\\..\\evil.json", "a//evil.json"})
    expect_parts(refused<DataError>("/tree/", list(path), 1),
                 {"path: expected a file in the model's folder, found "});
  expect_parts(refused<DataError>("/tree/", {.body = "<html>"}, 1), {"/api/models/org/tiny/tree/"});
  expect_parts(refused<DataError>("/revision/", {.body = "{\"sha\": \"../../x\"}"}, 1),
               {"sha: expected 40 hexadecimal digits"});
  expect_parts(
      refused<DataError>("/tree/",
                         {.headers = {{"Link", "<http://other.example/>; rel=\"next\""}}, .body = "[]"}, 1),
      {"next page: expected http://localhost:", "found http://other.example"});
  Reply endless{.headers = {{"Link", "</api/models/org/tiny/tree/x>; rel=\"next\""}}, .body = "[]"};
  expect_parts(refused<DataError>("/tree/", endless, 1000),
               {"expected at most 1000 pages of files, found more"});
  endless.body = list("a.json").body;
  expect_parts(refused<DataError>("/tree/", endless, 2), {"expected different files, found a.json twice"});
}

TEST_F(Refusals, OfSilence) {
  hub_.instead = [](const Request&) { return Reply{.silence = 5s}; };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.settings.timeout = 50ms;
  pulling.settings.retries = 1;
  expect_throw<IoError>("no answer within 0.05 s; tried 2 times", [&] { hub::pull(pulling); });
}

TEST_F(Refusals, OfConnections) {
  hub::PullOptions pulling = options(HttpTestServer(handler()));  // which is gone
  pulling.settings.retries = 1;
  expect_parts(message_of<IoError>([&] { hub::pull(pulling); }),
               {"cannot connect: Connection refused; tried 2 times"});
  pulling.settings.endpoint = "http://host.invalid";
  pulling.settings.retries = 0;
  expect_parts(message_of<IoError>([&] { hub::pull(pulling); }), {"http://host.invalid: host.invalid: "});
}

TEST_F(Refusals, OfAFullDisk) {
  hub_.files["model.safetensors"] = FakeHub::content(1'000'000);
  const HttpTestServer server(handler());
  // A limit of bytes in a file in place of a full disk.
  struct Limit {
    Limit() {
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit limit{.rlim_cur = 300'000, .rlim_max = before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
      handler = std::signal(SIGXFSZ, SIG_IGN);
    }
    ~Limit() {
      setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, handler);
    }
    rlimit before{};
    void (*handler)(int) = nullptr;
  };
  {
    const Limit limit;
    expect_parts(message_of<IoError>([&] { hub::pull(options(server)); }),
                 {"cannot write ", hub_.checksum("model.safetensors") + ".incomplete: File too large"});
  }
  expect_nothing();
  expect_pulled(hub::pull(options(server)));
  EXPECT_EQ(server.requests().back().header("range"), "bytes=300000-") << "what could be written is used";
}

TEST_F(Refusals, OfFilesLargerThanTheDisk) {
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (request.target.find("/tree/") == std::string::npos) return std::nullopt;
    return Reply{.body = nlohmann::json::array({{{"type", "file"},
                                                 {"path", "config.json"},
                                                 {"size", int64_t{1} << 61},
                                                 {"oid", std::string(40, 'a')}}})
                             .dump()};
  };
  const HttpTestServer server(handler());
  expect_parts(
      message_of<IoError>([&] { hub::pull(options(server)); }),
      {"cache: expected 2305843009213693952 free bytes, found ", "; HF_HUB_CACHE names another place"});
}

class Redirects : public PullTest {};

// The storage is another host: a name of its own, as far as the client can see.
TEST_F(Redirects, DoNotGetTheToken) {
  const HttpTestServer storage(handler());
  hub_.storage = "http://127.0.0.1:" + std::to_string(storage.port());
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.settings.token = "hf_secret";
  expect_pulled(hub::pull(pulling));
  ASSERT_EQ(storage.requests().size(), 1U);
  EXPECT_EQ(authorization(storage.requests()[0]), "");
  EXPECT_EQ(storage.requests()[0].header("accept-encoding"), "identity");
  for (const Request& request : server.requests())
    EXPECT_EQ(authorization(request), "Bearer hf_secret") << request.target;
}

// Same name, other port; and back again.
TEST_F(Redirects, GetTheTokenOnTheHubsOwnPortOnly) {
  std::string back;
  const HttpTestServer other([&](const Request& request) {
    return Reply{.status = 307, .headers = {{"Location", back + request.target}}};
  });
  hub_.storage = other.url();
  const HttpTestServer server(handler());
  back = server.url();
  hub::PullOptions pulling = options(server);
  pulling.settings.token = "hf_secret";
  expect_pulled(hub::pull(pulling));
  EXPECT_EQ(authorization(other.requests().at(0)), "");
  EXPECT_EQ(authorization(server.requests().back()), "Bearer hf_secret");
}

// A model that was renamed: relative redirects.
TEST_F(Redirects, OfRenamedModels) {
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    const size_t at = request.target.find("/old/");
    if (at == std::string::npos) return std::nullopt;
    std::string target = request.target;
    return Reply{.status = 307, .headers = {{"Location", target.replace(at, 5, "/org/")}}};
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.model.id = "old/tiny";
  const hub::PullResult result = hub::pull(pulling);
  EXPECT_EQ(result.folder, cache() / "models--old--tiny/snapshots" / hub_.commit);
  EXPECT_EQ(read_file(result.folder / "model.safetensors"), hub_.files.at("model.safetensors"));
}

TEST_F(Redirects, EndSomewhere) {
  hub_.instead = [](const Request& request) {
    return Reply{.status = 302, .headers = {{"Location", request.target}}};
  };
  const HttpTestServer server(handler());
  expect_throw<IoError>("expected at most 10 redirects, found more", [&] { hub::pull(options(server)); });
  EXPECT_EQ(server.requests().size(), 11U);
  for (const char* const wrong : {"ftp://a/", "http://", "file:///etc/passwd"}) {
    hub_.instead = [&](const Request&) { return Reply{.status = 302, .headers = {{"Location", wrong}}}; };
    expect_throw<IoError>("redirect: address '", [&] { hub::pull(options(server)); });
  }
}

class TlsPull : public PullTest {
 protected:
  std::string pem(const std::string& name) const { return (scratch_ / (name + ".pem")).string(); }
  std::string key(const std::string& name) const { return (scratch_ / (name + ".key")).string(); }
  std::string refused(const hub::PullOptions& pulling) const {
    return message_of<IoError>([&] { hub::pull(pulling); });
  }

  Environment environment_;
};

TEST_F(TlsPull, VerifiesCertificates) {
  write_certificate(scratch_, "good");
  write_certificate(scratch_, "other", "other.example");
  write_certificate(scratch_, "old", "localhost", -60);
  const HttpTestServer server(handler(), pem("good"), key("good"));
  environment_.set({{"SSL_CERT_FILE", pem("good")}});
  expect_pulled(hub::pull(options(server)));
  EXPECT_TRUE(server.url().starts_with("https://"));

  const std::string advice = "; SSL_CERT_FILE names a file of certificates to trust";
  environment_.set({{"SSL_CERT_FILE", pem("other")}});
  expect_parts(refused(options(server)),
               {"its certificate is not trusted: self-signed certificate" + advice});
  environment_.set({{"SSL_CERT_FILE", ""}});
  expect_parts(refused(options(server)),
               {"its certificate is not trusted: self-signed certificate" + advice});
  environment_.set({{"SSL_CERT_FILE", pem("other")}});
  const HttpTestServer wrong(handler(), pem("other"), key("other"));
  expect_parts(refused(options(wrong)), {"its certificate is not trusted: hostname mismatch" + advice});
  environment_.set({{"SSL_CERT_FILE", pem("old")}});
  const HttpTestServer old(handler(), pem("old"), key("old"));
  expect_parts(refused(options(old)), {"its certificate is not trusted: certificate has expired" + advice});
  for (const HttpTestServer* one : {&wrong, &old}) EXPECT_TRUE(one->requests().empty());
  const HttpTestServer plain(handler());
  hub::PullOptions pulling = options(plain);
  pulling.settings.endpoint.replace(0, 4, "https");
  pulling.settings.timeout = std::chrono::milliseconds(50);
  pulling.settings.retries = 0;
  expect_parts(refused(pulling), {"TLS: no answer within 0.05 s"});
}

TEST_F(TlsPull, DoesNotLeaveTls) {
  write_certificate(scratch_, "good");
  environment_.set({{"SSL_CERT_FILE", pem("good")}});
  const HttpTestServer storage(handler());
  hub_.storage = storage.url();
  const HttpTestServer server(handler(), pem("good"), key("good"));
  expect_parts(refused(options(server)),
               {"redirect from https to http://localhost:", ", which is not encrypted"});
  EXPECT_TRUE(storage.requests().empty());
}

TEST_F(TlsPull, ResumesATransferThatWasCut) {
  write_certificate(scratch_, "good");
  environment_.set({{"SSL_CERT_FILE", pem("good")}});
  hub_.instead = [&, parts = 0](const Request& request) mutable -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    if (++parts < 3) reply.end_after = 30'000;
    return reply;
  };
  const HttpTestServer server(handler(), pem("good"), key("good"));
  expect_pulled(hub::pull(options(server)));
  EXPECT_EQ(server.requests().back().header("range"), "bytes=60000-");
}

TEST_F(TlsPull, GoesThroughProxies) {
  write_certificate(scratch_, "good");
  environment_.set({{"SSL_CERT_FILE", pem("good")}});
  const HttpTestServer server(handler(), pem("good"), key("good"));
  const HttpTestServer proxy([](const Request&) { return Reply{}; });
  hub::PullOptions pulling = options(server);
  pulling.settings.token = "hf_secret";
  pulling.settings.proxies.https = "http://me:pass%20word@localhost:" + std::to_string(proxy.port());
  expect_pulled(hub::pull(pulling));
  ASSERT_EQ(proxy.requests().size(), 1U);
  const Request tunnel = proxy.requests()[0];
  EXPECT_EQ(tunnel.method, "CONNECT");
  EXPECT_EQ(tunnel.target, "localhost:" + std::to_string(server.port()));
  EXPECT_EQ(tunnel.header("proxy-authorization"),
            "Basic bWU6cGFzcyB3b3Jk");  // printf 'me:pass word' | base64
  EXPECT_EQ(authorization(tunnel), "");
  for (const Request& request : server.requests()) EXPECT_EQ(request.header("proxy-authorization"), "");

  const HttpTestServer refusing([](const Request&) { return Reply{.status = 407}; });
  pulling.settings.proxies.https = refusing.url();
  expect_parts(
      refused(pulling),
      {"by the proxy http://localhost:", "the proxy refuses the connection with status 407", "HTTPS_PROXY="});
  pulling.settings.proxies.except = "localhost";
  expect_pulled(hub::pull(pulling));
}

TEST_F(Redirects, GoThroughProxies) {
  const HttpTestServer proxy([&](const Request& request) {
    Request inner = request;
    EXPECT_TRUE(inner.target.starts_with("http://hub.invalid/")) << inner.target;
    inner.target.erase(0, std::string("http://hub.invalid").size());
    return hub_(inner);
  });
  hub::PullOptions pulling = options(proxy);
  pulling.settings.endpoint = "http://hub.invalid";
  pulling.settings.proxies.http = proxy.url();
  expect_pulled(hub::pull(pulling));
  EXPECT_EQ(proxy.requests()[0].header("host"), "hub.invalid");
}

}  // namespace
