#include "qkv/hub/http.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <vector>

#include "qkv/base/stop.h"

namespace qkv::hub {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kMostRedirects = 10;
constexpr uint32_t kMostHeaderBytes = 256 * 1024;
constexpr size_t kMostTextBytes = 8 * 1024, kPieceBytes = 256 * 1024;
constexpr auto kPoll = std::chrono::milliseconds(100);

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with a NUL at the end
  text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                  reinterpret_cast<const unsigned char*>(bytes.data()),
                                                  static_cast<int>(bytes.size()))));
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

}  // namespace

std::string Answer::field(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string() : found->second;
}

bool Answer::is_redirect() const {
  return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
         fields.contains("location");
}

// The certificates that are trusted: OpenSSL's, or those of SSL_CERT_FILE and SSL_CERT_DIR.
struct HttpClient::Tls {
  Tls() : context(asio::ssl::context::tls_client) {
    context.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
    context.set_default_verify_paths();
    context.set_verify_mode(asio::ssl::verify_peer);
  }
  asio::ssl::context context;
};

class HttpClient::Connection {
 public:
  Connection(const HubSettings& settings, const std::atomic<bool>* stop, Tls& tls, const Url& url)
      : settings_(settings), stop_(stop), url_(url), proxy_(settings.proxies.proxy_for(url)), tcp_(io_) {
    connect();
    if (!url_.tls) return;
    if (proxy_) open_tunnel();
    shake_hands(tls);
  }

  // Whether the answer to the latest request has begun, and whether another request may follow it.
  bool answered() const { return answered_; }
  bool reusable() const { return reusable_; }

  Answer get(const Url& url, const HttpFields& fields, const Receiver& receiver) {
    answered_ = reusable_ = false;
    const bool absolute = proxy_ && !url.tls;
    http::request<http::empty_body> request(http::verb::get, absolute ? url.text() : url.target, 11);
    request.set(http::field::host, url.origin().substr(url.tls ? 8 : 7));
    if (absolute) authorize_at_proxy(request);
    for (const auto& [name, value] : fields) request.set(name, value);
    return tls_ ? exchange(*tls_, url, request, receiver) : exchange(tcp_, url, request, receiver);
  }

 private:
  // Waits for one operation, which `start` begins with its handler.
  template <class Start>
  error_code run(const Start& start) {
    error_code result;
    bool done = false, stopped = false;
    tcp_.expires_after(settings_.timeout);
    start([&](const error_code& error, auto&&...) {
      result = error;
      done = true;
    });
    while (true) {
      if (io_.stopped()) io_.restart();
      io_.run_one_for(kPoll);
      if (done) break;
      if (stopped || !stop_ || !*stop_) continue;
      stopped = true;
      tcp_.cancel();
      if (resolver_) resolver_->cancel();
    }
    throw_if_stopped(stop_);
    return result;
  }

  [[noreturn]] void fail(const std::string& what, const error_code& error) const {
    std::string reason = error.message();
    if (error == beast::error::timeout) reason = "no answer within " + seconds_text(settings_.timeout);
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        error == asio::error::eof || error == asio::ssl::error::stream_truncated)
      reason = "the connection ended early";
    const bool is_http = error.category() == make_error_code(http::error::bad_version).category();
    const bool ended = error == http::error::end_of_stream || error == http::error::partial_message;
    throw Failure(concat(where(), ": ", what, is_http && !ended ? "its answer is not HTTP: " : "", reason),
                  /*is_transient=*/!is_http || ended);
  }
  void require(const error_code& error, const std::string& what) const {
    if (error) fail(what, error);
  }
  std::string where() const {
    return proxy_ ? concat(url_.origin(), " by the proxy ", proxy_->origin()) : url_.origin();
  }

  void connect() {
    const Url& server = proxy_ ? *proxy_ : url_;
    resolver_.emplace(io_);
    tcp::resolver::results_type addresses;
    const error_code unknown = run([&](auto done) {
      resolver_->async_resolve(
          server.host, std::to_string(server.port),
          [&addresses, done](const error_code& error, tcp::resolver::results_type found) {
            addresses = std::move(found);
            done(error);
          });
    });
    if (unknown) {
      throw Failure(concat(where(), ": ", server.host, ": ", unknown.message()),
                    /*is_transient=*/unknown == asio::error::host_not_found_try_again);
    }
    require(run([&](auto done) { tcp_.async_connect(addresses, std::move(done)); }), "cannot connect: ");
    error_code ignored;
    tcp_.socket().set_option(tcp::no_delay(true), ignored);
  }

  template <class Request>
  void authorize_at_proxy(Request& request) const {
    if (!proxy_->user_info.empty())
      request.set(http::field::proxy_authorization, "Basic " + base64(proxy_->user_info));
  }

  void open_tunnel() {
    http::request<http::empty_body> request(http::verb::connect, url_.authority(), 11);
    request.set(http::field::host, url_.authority());
    authorize_at_proxy(request);
    require(run([&](auto done) { http::async_write(tcp_, request, std::move(done)); }), "");
    http::response_parser<http::empty_body> parser;
    parser.skip(true);  // there is no body
    require(run([&](auto done) { http::async_read_header(tcp_, buffer_, parser, std::move(done)); }), "");
    const unsigned status = parser.get().result_int();
    if (status / 100 != 2) {
      throw Failure(concat(where(), ": the proxy refuses the connection with status ", status,
                           status == 407 ? "; HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT logs in" : ""),
                    /*is_transient=*/status >= 500);
    }
    buffer_.clear();
  }

  void shake_hands(Tls& tls) {
    tls_.emplace(tcp_, tls.context);
    SSL* const session = tls_->native_handle();
    error_code not_an_address;
    asio::ip::make_address(url_.host, not_an_address);
    if (not_an_address) {
      SSL_set_tlsext_host_name(session, url_.host.c_str());
      SSL_set1_host(session, url_.host.c_str());
    } else {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), url_.host.c_str());
    }
    const error_code error =
        run([&](auto done) { tls_->async_handshake(asio::ssl::stream_base::client, std::move(done)); });
    if (!error) return;
    if (error.category() != asio::error::get_ssl_category()) fail("TLS: ", error);
    const long verdict = SSL_get_verify_result(session);
    if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) != SSL_R_CERTIFICATE_VERIFY_FAILED)
      throw Failure(concat(where(), ": TLS: ", error.message()), /*is_transient=*/false);
    throw Failure(
        concat(where(), ": its certificate is not trusted: ", X509_verify_cert_error_string(verdict),
               "; SSL_CERT_FILE names a file of certificates to trust"),
        /*is_transient=*/false);
  }

  template <class Stream>
  Answer exchange(Stream& stream, const Url& url, const http::request<http::empty_body>& request,
                  const Receiver& receiver) {
    require(run([&](auto done) { http::async_write(stream, request, std::move(done)); }), "");
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(std::numeric_limits<uint64_t>::max());
    require(run([&](auto done) { http::async_read_header(stream, buffer_, parser, std::move(done)); }), "");
    answered_ = true;
    Answer answer{.url = url, .status = static_cast<int>(parser.get().result_int())};
    for (const auto& field : parser.get()) {
      std::string name(field.name_string());
      std::ranges::transform(name, name.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      answer.fields.insert_or_assign(name, std::string(field.value()));
    }
    if (receiver.head) receiver.head(answer);
    auto& body = parser.get().body();
    while (!parser.is_done()) {
      body.data = piece_.data();
      body.size = piece_.size();
      error_code error =
          run([&](auto done) { http::async_read_some(stream, buffer_, parser, std::move(done)); });
      if (error == http::error::need_buffer) error = {};
      const std::string_view piece(piece_.data(), piece_.size() - body.size);
      if (answer.is_good()) {
        receiver.body(piece);
      } else {
        answer.text.append(piece.substr(0, kMostTextBytes - answer.text.size()));
        if (answer.text.size() == kMostTextBytes) return answer;
      }
      require(error, "");
    }
    reusable_ = parser.get().keep_alive();
    return answer;
  }

  const HubSettings& settings_;
  const std::atomic<bool>* stop_;
  Url url_;
  std::optional<Url> proxy_;
  asio::io_context io_;
  std::optional<tcp::resolver> resolver_;
  beast::tcp_stream tcp_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  beast::flat_buffer buffer_;
  std::vector<char> piece_ = std::vector<char>(kPieceBytes);
  bool answered_ = false, reusable_ = false;
};

HttpClient::HttpClient(const HubSettings& settings, const std::atomic<bool>* stop)
    : settings_(settings),
      trusted_origin_(parse_url(settings.endpoint).origin()),
      stop_(stop),
      tls_(std::make_unique<Tls>()) {}

HttpClient::~HttpClient() = default;

Answer HttpClient::get(const Url& first, const HttpFields& fields, const Receiver& receiver) {
  Url url = first;
  for (int redirects = 0;; ++redirects) {
    Answer answer = get_once(url, fields, receiver);
    if (!answer.is_redirect()) return answer;
    if (redirects == kMostRedirects) {
      throw Failure(concat(first.origin(), ": expected at most ", kMostRedirects,
                           " redirects, found more, the last to ", url.origin()),
                    /*is_transient=*/false);
    }
    Url next;
    try {
      next = resolve_url(url, answer.field("location"));
    } catch (const DataError& error) {
      throw Failure(concat(url.origin(), ": redirect: ", error.what()), /*is_transient=*/false);
    }
    if (url.tls && !next.tls) {
      throw Failure(
          concat(url.origin(), ": redirect from https to ", next.origin(), ", which is not encrypted"),
          /*is_transient=*/false);
    }
    url = std::move(next);
  }
}

Answer HttpClient::get_once(const Url& url, const HttpFields& given, const Receiver& receiver) {
  const std::string origin = url.origin();
  HttpFields fields = given;
  fields["user-agent"] = concat("qkv/", QKV_VERSION);
  fields["accept-encoding"] = "identity";
  if (origin == trusted_origin_ && !settings_.token.empty())
    fields["authorization"] = "Bearer " + settings_.token;
  std::unique_ptr<Connection> connection = std::move(idle_[origin]);
  Answer answer;
  bool done = false;
  if (connection) {
    try {
      answer = connection->get(url, fields, receiver);
      done = true;
    } catch (const Failure& failure) {
      // The server may have closed it meanwhile.
      if (connection->answered() || !failure.transient) throw;
    }
  }
  if (!done) {
    connection = std::make_unique<Connection>(settings_, stop_, *tls_, url);
    answer = connection->get(url, fields, receiver);
  }
  if (connection->reusable()) idle_[origin] = std::move(connection);
  return answer;
}

}  // namespace qkv::hub
