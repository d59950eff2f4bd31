#pragma once
// A server of tests: each request is answered by a function, which may misbehave. With TLS if a certificate
// is given; also a proxy, which tunnels CONNECT.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace qkv::testing {

struct Request {
  std::string method, target;
  std::map<std::string, std::string, std::less<>> headers = {};  // names in lower case

  std::string header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

struct Reply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  size_t end_after = std::string::npos;  // bytes of the body, after which the connection ends
  bool states_length = true;             // otherwise the connection's end is that of the body
  std::string raw = {};                  // sent instead of all that, then the connection ends
  std::chrono::milliseconds silence{0};  // before the answer
  size_t piece = 0;                      // sends pieces of so many bytes, 1 ms apart; 0: at once
};

class HttpTestServer {
 public:
  using Handler = std::function<Reply(const Request&)>;

  // PEM files of a certificate and its key; empty: no TLS.
  explicit HttpTestServer(Handler handler, const std::string& certificate = {}, const std::string& key = {})
      : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (!certificate.empty()) {
      std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to clients that have left
      tls_.reset(SSL_CTX_new(TLS_server_method()));
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(tls_.get(), certificate.c_str()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(tls_.get(), key.c_str(), SSL_FILETYPE_PEM), 1);
    }
    sockaddr_in address = loopback(0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
  }
  ~HttpTestServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& one : connections_) one.join();
    ::close(listener_);
  }
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url() const {
    return (tls_ ? "https://localhost:" : "http://localhost:") + std::to_string(port_);
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::vector<std::string> targets() const {
    std::vector<std::string> result;
    for (const Request& request : requests()) result.push_back(request.target);
    return result;
  }
  int connections() const { return accepted_; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  using Session = std::unique_ptr<SSL, FreeSession>;

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void accept() {
    while (!stopping_) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) continue;
      const int no_delay = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
      ++accepted_;
      const std::lock_guard lock(mutex_);
      open_.push_back(socket);
      connections_.emplace_back([this, socket] {
        serve(socket);
        const std::lock_guard closing(mutex_);
        open_.remove(socket);
        ::close(socket);
      });
    }
  }

  void serve(int socket) {
    Session session;
    if (tls_) {
      session.reset(SSL_new(tls_.get()));
      SSL_set_fd(session.get(), socket);
      if (SSL_accept(session.get()) != 1) return;
    }
    const auto send = [&](std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t sent = session ? SSL_write(session.get(), bytes.data(), static_cast<int>(bytes.size()))
                                     : ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(sent));
      }
      return true;
    };
    std::string received;
    while (!stopping_) {
      size_t end;
      while ((end = received.find("\r\n\r\n")) == std::string::npos) {
        char bytes[4096];
        const ssize_t count =
            session ? SSL_read(session.get(), bytes, sizeof bytes) : ::recv(socket, bytes, sizeof bytes, 0);
        if (count <= 0) return;
        received.append(bytes, static_cast<size_t>(count));
      }
      const Request request = parse(received.substr(0, end + 2));
      received.erase(0, end + 4);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const Reply reply = handler_(request);
      for (auto left = reply.silence; left.count() > 0 && !stopping_; left -= std::chrono::milliseconds(10))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (!reply.raw.empty()) {
        send(reply.raw);
        return;
      }
      std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Status\r\n";
      for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
      const bool tunnel = request.method == "CONNECT" && reply.status == 200;
      if (reply.states_length && !tunnel)
        head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
      if (!send(head + "\r\n")) return;
      if (tunnel) return relay(socket, request.target);
      const std::string_view body = std::string_view(reply.body).substr(0, reply.end_after);
      for (size_t at = 0; at < body.size();) {
        const size_t count = reply.piece == 0 ? body.size() : reply.piece;
        if (stopping_ || !send(body.substr(at, count))) return;
        at += count;
        if (reply.piece > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (reply.end_after != std::string::npos || !reply.states_length) {
        if (session && !reply.states_length) SSL_shutdown(session.get());
        return;
      }
    }
  }

  static Request parse(const std::string& head) {
    Request request;
    const size_t method = head.find(' '), target = head.find(' ', method + 1);
    request.method = head.substr(0, method);
    request.target = head.substr(method + 1, target - method - 1);
    size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
      const size_t end = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return request;
  }

  // Copies bytes both ways between the client and a port of this machine.
  void relay(int client, const std::string& target) {
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address =
        loopback(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
    EXPECT_EQ(::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    bool open = true;
    while (open && !stopping_) {
      pollfd ends[] = {{.fd = client, .events = POLLIN, .revents = 0},
                       {.fd = server, .events = POLLIN, .revents = 0}};
      ::poll(ends, 2, 50);
      for (int i = 0; i < 2; ++i) {
        if ((ends[i].revents & (POLLIN | POLLHUP)) == 0) continue;
        char bytes[4096];
        const ssize_t count = ::recv(ends[i].fd, bytes, sizeof bytes, 0);
        if (count <= 0 || ::send(ends[1 - i].fd, bytes, static_cast<size_t>(count), MSG_NOSIGNAL) != count)
          open = false;
      }
    }
    ::close(server);
  }

  Handler handler_;
  std::unique_ptr<SSL_CTX, FreeContext> tls_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> accepted_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::list<int> open_;
  std::list<std::thread> connections_;
  std::thread acceptor_;
};

}  // namespace qkv::testing
