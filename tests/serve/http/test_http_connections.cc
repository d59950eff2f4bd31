// How the HTTP server ends connections: slow clients, clients that left, its limits, its own end.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "qkv/serve/http/server.h"
#include "tests/serve/http/echo_server.h"
#include "tests/serve/http/raw_client.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace std::chrono_literals;
using serve::HttpOptions;
using serve::HttpRequest;
using serve::HttpServer;
using serve::ReplyHandle;

TEST(HttpServer, EndsSlowRequests) {
  HttpOptions options = any_port();
  options.header_timeout = options.body_timeout = options.idle_timeout = 200ms;
  HttpServer server(options, echo);
  RawClient header(server.port()), body(server.port()), idle(server.port());
  ASSERT_TRUE(header.send("GET / HT"));
  ASSERT_TRUE(body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\nhalf"));
  EXPECT_TRUE(header.rest().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(body.rest().starts_with("HTTP/1.1 408 "));
  EXPECT_EQ(idle.rest(), "");
}

TEST(HttpServer, NoticesThatAClientLeft) {
  std::atomic<int> left = 0, begun = 0;
  std::mutex mutex;
  std::vector<ReplyHandle> replies;
  HttpServer server(any_port(), [&](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path == "/stays") return echo(request, reply);
    reply->on_closed([&] { ++left; });
    if (request.path == "/stream") reply->begin({.body = "begun"});
    const std::lock_guard lock(mutex);
    replies.push_back(reply);
    ++begun;
  });
  constexpr int kClients = 100;
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      ASSERT_TRUE(clients.back()->send(request_bytes(i % 2 == 0 ? "/stream" : "/silent")));
    }
    ASSERT_TRUE(soon([&] { return begun == kClients; }));
    for (int i = 0; i < kClients; i += 3) clients[static_cast<size_t>(i)]->reset();
  }
  EXPECT_TRUE(soon([&] { return left == kClients; })) << left;
  EXPECT_TRUE(soon([&] { return server.counts().connections == 0; }));
  for (const ReplyHandle& reply : replies) {
    EXPECT_TRUE(reply->closed());
    EXPECT_FALSE(reply->write("x"));
  }
  std::atomic<bool> at_once = false;
  replies.front()->on_closed([&] { at_once = true; });
  EXPECT_TRUE(at_once);
  RawClient stays(server.port());
  stays.send(request_bytes("/stays"));
  EXPECT_TRUE(has(stays.response(), "GET /stays"));
}

TEST(HttpServer, DropsAClientThatDoesNotRead) {
  std::atomic<bool> dropped = false;
  HttpOptions options = any_port();
  options.stream_buffer_bytes = 1 << 20;
  HttpServer server(options, [&](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path != "/endless") return echo(request, reply);
    reply->begin({});
    const std::string block(64 << 10, 'x');
    for (int i = 0; i < 100'000; ++i) {  // 6 GB, were it never refused
      if (reply->write(block)) continue;
      dropped = true;
      return;
    }
  });
  RawClient lazy(server.port()), good(server.port());
  ASSERT_TRUE(lazy.send(request_bytes("/endless")));
  EXPECT_TRUE(soon([&] { return dropped.load(); }));
  ASSERT_TRUE(good.send(request_bytes("/good")));
  EXPECT_TRUE(has(good.response(), "GET /good"));
}

// What waits for a client is counted by its bytes on the wire, however small the pieces.
TEST(HttpServer, CountsWhatWaitsAfterManySmallPieces) {
  HttpOptions options = any_port();
  options.stream_buffer_bytes = 1 << 20;
  std::atomic<int64_t> taken = 0;
  std::atomic<bool> small_sent = false, go = false, dropped = false;
  HttpServer server(options, [&](const HttpRequest&, const ReplyHandle& reply) {
    reply->begin({});
    for (int i = 0; i < 100'000; ++i) {
      if (i % 1000 == 0) std::this_thread::sleep_for(1ms);  // the client keeps up
      if (!reply->write("x")) return;
    }
    small_sent = true;
    if (!soon([&] { return go.load(); })) return;
    const std::string block(64 << 10, 'y');
    while (reply->write(block)) {
      taken += std::ssize(block);
      std::this_thread::sleep_for(1ms);
    }
    dropped = true;
  });
  RawClient client(server.port());
  ASSERT_TRUE(client.send(request_bytes("/")));
  std::string end;
  for (int pieces = 0; pieces < 100'000;) {
    const std::string piece = client.until("\r\nx\r\n");
    ASSERT_FALSE(piece.empty());
    ++pieces;
  }
  ASSERT_TRUE(soon([&] { return small_sent.load(); }));
  go = true;  // and now it does not read
  ASSERT_TRUE(soon([&] { return dropped.load(); }));
  // The limit, and what the buffers of both sockets took.
  EXPECT_LT(taken, (1 << 20) + (12 << 20));
}

// A request that has not arrived completely is refused, so that its client can ask another server.
TEST(HttpServer, RefusesHalfRequestsWhenItStops) {
  HttpServer server(any_port(), echo);
  RawClient header(server.port()), body(server.port());
  ASSERT_TRUE(header.send("GET / HT"));
  ASSERT_TRUE(body.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 30\r\n\r\n"));
  EXPECT_TRUE(has(body.until("\r\n\r\n"), "100 Continue")) << "the server has read the header";
  ASSERT_TRUE(body.send("half"));
  EXPECT_TRUE(soon([&] { return server.counts().connections == 2; }));
  std::this_thread::sleep_for(50ms);
  server.stop(5s);
  for (RawClient* client : {&header, &body}) {
    const std::string answer = client->rest();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ") && has(answer, "Retry-After: 1")) << answer;
  }
}

TEST(HttpServer, StopsAfterTheAnswersUnderWay) {
  std::mutex mutex;
  ReplyHandle waiting;
  HttpServer server(any_port(), [&](const HttpRequest&, const ReplyHandle& reply) {
    const std::lock_guard lock(mutex);
    waiting = reply;
  });
  const uint16_t port = server.port();
  RawClient client(port), idle(port);
  client.send(request_bytes("/"));
  ASSERT_TRUE(soon([&] {
    const std::lock_guard lock(mutex);
    return waiting != nullptr;
  }));
  std::thread answer([&] {
    EXPECT_TRUE(soon([&] { return !RawClient(port).connected(); })) << "nothing is accepted any more";
    waiting->send({.body = "the last"});
  });
  EXPECT_EQ(server.stop(30s), 0);
  answer.join();
  const std::string last = client.rest();
  EXPECT_TRUE(has(last, "the last") && has(last, "Connection: close")) << last;
  EXPECT_EQ(idle.rest(), "");
  EXPECT_EQ(server.stop(30s), 0);
}

TEST(HttpServer, CutsOffWhatTakesTooLong) {
  std::mutex mutex;
  ReplyHandle waiting;
  HttpServer server(any_port(), [&](const HttpRequest&, const ReplyHandle& reply) {
    reply->begin({.body = "half"});
    const std::lock_guard lock(mutex);
    waiting = reply;
  });
  RawClient client(server.port());
  client.send(request_bytes("/"));
  EXPECT_TRUE(has(client.until("half"), "half"));
  EXPECT_EQ(server.stop(10ms), 1);
  EXPECT_FALSE(waiting->write("more"));
  EXPECT_TRUE(waiting->closed());
  EXPECT_EQ(client.rest(), "\r\n");
}

// The largest request that has not arrived gives way, so that small ones are answered.
TEST(HttpServer, LimitsTheBytesOfAllRequests) {
  HttpOptions options = any_port();
  options.body_bytes = 1 << 20;
  options.pending_bytes = 1 << 20;
  std::mutex mutex;
  std::vector<ReplyHandle> handled;
  std::vector<HttpRequest> kept;
  HttpServer server(options, [&](HttpRequest request, const ReplyHandle& reply) {
    if (request.path == "/echo") return echo(request, reply);
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(request));
    handled.push_back(reply);
  });
  const auto half_sent = [&](RawClient& client, size_t bytes) {
    ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(bytes) +
                            "\r\n\r\n" + std::string(bytes - 1, 'a')));
  };
  RawClient small(server.port()), large(server.port()), other(server.port());
  half_sent(small, 300'000);
  half_sent(large, 600'000);
  ASSERT_TRUE(soon([&] { return server.counts().pending_bytes > 900'000; }));
  half_sent(other, 400'000);
  const std::string refused = large.rest();
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 ") && has(refused, "Retry-After: 1")) << refused;
  // What a handler has counts too, until it lets it go.
  for (RawClient* client : {&small, &other}) ASSERT_TRUE(client->send("a"));
  ASSERT_TRUE(soon([&] {
    const std::lock_guard lock(mutex);
    return kept.size() == 2;
  }));
  EXPECT_GE(server.counts().pending_bytes, 700'000);
  RawClient again(server.port());
  half_sent(again, 500'000);
  EXPECT_TRUE(again.rest().starts_with("HTTP/1.1 503 "));
  RawClient tiny(server.port());
  ASSERT_TRUE(tiny.send(request_bytes("/echo", "tiny")));
  EXPECT_TRUE(tiny.response().ends_with(" tiny"));
  const std::lock_guard lock(mutex);
  for (const ReplyHandle& reply : handled) reply->send({.body = "done"});
  handled.clear();
  kept.clear();
  for (RawClient* client : {&small, &other}) EXPECT_TRUE(client->response().ends_with("done"));
  EXPECT_TRUE(soon([&] { return server.counts().pending_bytes < 100'000; }));
}

TEST(HttpServer, RefusesConnectionsBeyondItsLimit) {
  HttpOptions options = any_port();
  options.connections = 2;
  HttpServer server(options, echo);
  RawClient first(server.port()), second(server.port());
  first.send(request_bytes("/1"));
  second.send(request_bytes("/2"));
  EXPECT_TRUE(has(first.response(), "GET /1"));
  EXPECT_TRUE(has(second.response(), "GET /2"));
  RawClient third(server.port());
  EXPECT_TRUE(third.rest().starts_with("HTTP/1.1 503 "));
  first.close();
  EXPECT_TRUE(soon([&] {
    RawClient again(server.port());
    again.send(request_bytes("/again"));
    return has(again.response(), "GET /again");
  }));
}

}  // namespace
