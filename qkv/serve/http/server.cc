#include "qkv/serve/http/server.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/serve/http/connection.h"

namespace qkv::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class PlainConnection : public Connection {
 public:
  PlainConnection(HttpCoreHandle core, std::string peer, tcp::socket socket)
      : Connection(std::move(core), std::move(peer)), socket_(std::move(socket)) {}

  void start() override { read(); }

 private:
  void read_some(Bytes into, Transferred done) override { socket_.async_read_some(into, std::move(done)); }
  void write_some(asio::const_buffer from, Transferred done) override {
    socket_.async_write_some(from, std::move(done));
  }
  void shutdown_send() override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close_socket() override {
    error_code ignored;
    socket_.close(ignored);
  }

  tcp::socket socket_;
};

class TlsConnection : public Connection {
 public:
  TlsConnection(HttpCoreHandle core, std::string peer, tcp::socket socket, asio::ssl::context& context)
      : Connection(std::move(core), std::move(peer)), stream_(std::move(socket), context) {}

  void start() override {
    wait_at_most(core_->options.header_timeout);
    stream_.async_handshake(
        asio::ssl::stream_base::server,
        [self = std::static_pointer_cast<TlsConnection>(shared_from_this())](const error_code& error) {
          if (error) return self->close();
          self->guarded([&] { self->read(); });
        });
  }

 private:
  void read_some(Bytes into, Transferred done) override { stream_.async_read_some(into, std::move(done)); }
  void write_some(asio::const_buffer from, Transferred done) override {
    stream_.async_write_some(from, std::move(done));
  }
  // The length of an answer is known without TLS's own closing, which would be another exchange.
  void shutdown_send() override {
    error_code ignored;
    stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close_socket() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

  asio::ssl::stream<tcp::socket> stream_;
};

std::optional<asio::ssl::context> tls_context(const HttpOptions& options) {
  if (options.certificate.empty()) return std::nullopt;
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
  error_code error;
  context.use_certificate_chain(asio::buffer(read_file(options.certificate)), error);
  if (error)
    throw IoError(concat(options.certificate, ": expected a PEM certificate chain: ", error.message()));
  context.use_private_key(asio::buffer(read_file(options.private_key)), asio::ssl::context::pem, error);
  if (error) {
    throw IoError(
        concat(options.private_key, ": expected the certificate's private key in PEM: ", error.message()));
  }
  return context;
}

}  // namespace

void HttpOptions::validate() const {
  require_ranges(*this);
  if (certificate.empty() != private_key.empty())
    throw UsageError("certificate and private_key: expected both or none, found one");
}

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Handler handler)
      : core_((options.validate(), std::make_shared<HttpCore>(options, std::move(handler)))),
        tls_(tls_context(options)),
        acceptor_(core_->io),
        pause_(core_->io) {
    listen();
    network_ = std::thread([this] { run(); });
  }

  ~Impl() { stop(std::chrono::milliseconds(0)); }

  uint16_t port() const { return port_; }
  const HttpCore& core() const { return *core_; }

  int64_t stop(std::chrono::milliseconds bound) {
    const std::lock_guard once(stop_mutex_);
    if (!network_.joinable()) return 0;
    core_->post([this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      core_->draining = true;
      for (const auto& connection : open_connections()) connection->guarded([&] { connection->drain(); });
    });
    int64_t cut = 0;
    {
      std::unique_lock lock(core_->mutex);
      core_->idle.wait_for(lock, bound, [this] { return core_->active == 0; });
      cut = core_->active;
    }
    core_->post([this] {
      work_.reset();
      while (!core_->connections.empty()) {  // allocates nothing, as all have to close
        const auto first = core_->connections.begin();
        const std::shared_ptr<Connection> connection = (*first)->weak_from_this().lock();
        core_->connections.erase(first);
        if (connection) connection->close();
      }
    });
    network_.join();
    core_->handlers.join();  // nothing is added any more
    core_->quick_handler.join();
    {
      const std::lock_guard lock(core_->mutex);
      core_->stopped = true;
    }
    core_->io.restart();
    core_->io.poll();  // what was posted since; connections are closed
    return cut;
  }

 private:
  void listen() {
    const HttpOptions& options = core_->options;
    error_code error;
    const auto address =
        asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
    if (error)
      throw UsageError(concat("host: expected an IP address or localhost, found '", options.host, "'"));
    const tcp::endpoint endpoint(address, options.port);
    const auto require = [&](const char* what) {
      if (!error) return;
      throw IoError(concat(options.host, " port ", options.port, ": ", what, ": ", error.message()));
    };
    acceptor_.open(endpoint.protocol(), error);
    require("cannot open a socket");
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (address.is_v6()) acceptor_.set_option(asio::ip::v6_only(false), error);
    if (options.reuse_port) {
      using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
      acceptor_.set_option(ReusePort(true), error);
      require("cannot share the port");
    }
    acceptor_.bind(endpoint, error);
    require("cannot listen");
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    require("cannot listen");
    port_ = acceptor_.local_endpoint().port();
  }

  // Connections take care of their exceptions: the rest is memory that runs out while one is accepted.
  void run() {
    while (true) {
      try {
        if (!accepting_) accept();
        core_->io.run();
        return;
      } catch (...) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      accepting_ = false;
      if (!acceptor_.is_open()) return;
      if (error) {
        // For example out of file descriptors: retry after a pause.
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](const error_code& cancelled) {
          accepting_ = false;
          if (!cancelled) accept();
        });
        accepting_ = true;
        return;
      }
      take(std::move(socket));
      accept();
    });
    accepting_ = true;
  }

  void take(tcp::socket socket) {
    ++core_->accepted;
    error_code error;
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (error) return;  // already disconnected
    socket.set_option(tcp::no_delay(true), error);
    const std::string peer = remote.address().to_string();
    const bool too_many = std::ssize(core_->connections) >= core_->options.connections;
    if (tls_ && too_many) return;
    std::shared_ptr<Connection> connection;
    if (tls_) {
      connection = std::make_shared<TlsConnection>(core_, peer, std::move(socket), *tls_);
    } else {
      connection = std::make_shared<PlainConnection>(core_, peer, std::move(socket));
    }
    connection->guarded([&] { too_many ? connection->refuse_all() : connection->start(); });
  }

  // A connection that closes leaves the set.
  std::vector<std::shared_ptr<Connection>> open_connections() const {
    std::vector<std::shared_ptr<Connection>> open;
    for (Connection* one : core_->connections) {
      if (auto alive = one->weak_from_this().lock()) open.push_back(std::move(alive));
    }
    return open;
  }

  HttpCoreHandle core_;
  std::optional<asio::ssl::context> tls_;
  tcp::acceptor acceptor_;
  bool accepting_ = false;  // the network thread's: an accept or its pause is under way
  asio::steady_timer pause_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{core_->io.get_executor()};
  uint16_t port_ = 0;
  std::mutex stop_mutex_;
  std::thread network_;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port(); }

HttpCounts HttpServer::counts() const {
  const HttpCore& core = impl_->core();
  return {.connections = core.open,
          .accepted = core.accepted,
          .requests = core.requests,
          .malformed = core.malformed,
          .pending_bytes = core.pending_bytes};
}

int64_t HttpServer::stop(std::chrono::milliseconds bound) { return impl_->stop(bound); }

}  // namespace qkv::serve
