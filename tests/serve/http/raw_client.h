#pragma once
// A client that sends bytes, right or wrong.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::testing {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  int socket() const { return socket_; }

  // False if the server has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads more, for at most 30 s. False at the end of the connection.
  bool receive() {
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 30'000) <= 0) {
      ADD_FAILURE() << "expected an answer within 30 s, found so far: " << received_;
      return false;
    }
    char bytes[4096];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  // Everything up to and including `end`, which is removed from what was received.
  std::string until(std::string_view end) {
    size_t at = 0;
    while ((at = received_.find(end)) == std::string::npos) {
      if (!receive()) return std::exchange(received_, {});
    }
    std::string result = received_.substr(0, at + end.size());
    received_.erase(0, result.size());
    return result;
  }
  // The next response, which has a Content-Length.
  std::string response() {
    std::string head = until("\r\n\r\n");
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t at = head.find(kLength);
    if (at == std::string::npos) return head;
    const size_t length = std::stoul(head.substr(at + kLength.size()));
    while (received_.size() < length && receive()) {
    }
    head += received_.substr(0, length);
    received_.erase(0, length);
    return head;
  }
  // Everything until the server closes.
  std::string rest() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Ends the connection with a reset.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  int socket_;
  bool connected_ = false;
  std::string received_;
};

// A GET or a POST, complete.
inline std::string request_bytes(const std::string& path, const std::string& body = {},
                                 const std::string& more_headers = {}) {
  std::string text = (body.empty() ? "GET " : "POST ") + path + " HTTP/1.1\r\nHost: test\r\n" + more_headers;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace qkv::testing
