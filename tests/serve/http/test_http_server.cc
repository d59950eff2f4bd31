// The HTTP server, as a client sees it on the wire.

#include "qkv/serve/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "qkv/base/error.h"
#include "tests/serve/http/echo_server.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace std::chrono_literals;
using serve::HttpOptions;
using serve::HttpRequest;
using serve::HttpServer;
using serve::ReplyHandle;

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  HttpServer server(any_port(), echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(request_bytes("/a%20b?x=1%2B1&y=a+b")));
  const std::string first = client.response();
  EXPECT_TRUE(has(first, "HTTP/1.1 200 OK\r\n")) << first;
  EXPECT_TRUE(has(first, "GET /a b x=1+1 y=a b host=test ")) << first;
  ASSERT_TRUE(client.send(request_bytes("/post", "body of nine")));
  EXPECT_TRUE(has(client.response(), "POST /post host=test body of nine"));
  ASSERT_TRUE(client.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"));
  ASSERT_TRUE(client.send("3\r\nefg\r\n0\r\n\r\n"));
  EXPECT_TRUE(has(client.response(), "host=h abcdefg"));
  ASSERT_TRUE(client.send(
      "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\nGET /after HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  const std::string both = client.rest();
  EXPECT_EQ(both.find("HEAD /h"), std::string::npos) << "no body for HEAD";
  EXPECT_TRUE(has(both, "GET /after host=h ")) << both;
  EXPECT_TRUE(has(both, "Connection: close")) << both;
  EXPECT_EQ(server.counts().requests, 5);
  EXPECT_EQ(server.counts().accepted, 1);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  HttpServer server(any_port(), [&](const HttpRequest& request, const ReplyHandle& reply) {
    const std::lock_guard lock(mutex);
    threads.emplace_back([path = request.path, reply] { reply->send({.body = path}); });
  });
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 20; ++i) all += request_bytes("/" + std::to_string(i));
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.response().ends_with("\r\n\r\n/" + std::to_string(i)));
  const std::lock_guard lock(mutex);
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpServer, StreamsInChunks) {
  HttpServer server(any_port(), [](const HttpRequest&, const ReplyHandle& reply) {
    reply->begin({.content_type = "text/plain", .body = "one,"});
    reply->write("two,");
    reply->write("three");
    reply->end();
    EXPECT_FALSE(reply->write("late"));
    EXPECT_FALSE(reply->send({.body = "late"}));
  });
  RawClient client(server.port());
  ASSERT_TRUE(client.send(request_bytes("/")));
  EXPECT_TRUE(has(client.until("0\r\n\r\n"), "\r\n\r\n4\r\none,\r\n4\r\ntwo,\r\n5\r\nthree\r\n0\r\n\r\n"));
  ASSERT_TRUE(client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const std::string old = client.rest();  // to HTTP/1.0, the end of the connection is the end of a stream
  EXPECT_TRUE(old.ends_with("\r\n\r\none,two,three")) << old;
}

struct Refusal {
  const char* bytes;
  int status;
};

TEST(HttpServer, RefusesWhatIsNotHttp) {
  HttpOptions options = any_port();
  options.body_bytes = 1000;
  options.header_bytes = 1024;
  options.header_fields = 20;
  HttpServer server(options, echo);
  const std::string long_header = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(4000, 'a') + "\r\n\r\n";
  const std::string endless_header = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(4000, 'a');
  const std::string endless_line = "GET /" + std::string(9000, 'a');
  const std::string long_chunks =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + std::string(2048, 'a');
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string endless_extension = chunked + "1;a=" + std::string(9000, 'a');
  const std::string endless_trailer = chunked + "1\r\na\r\n0\r\nX: " + std::string(9000, 'a');
  std::string many_extensions = chunked, many_trailers = chunked + "0\r\n",
              many_fields = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 20; ++i) {
    many_extensions += "1;a=" + std::string(200, 'a') + "\r\na\r\n";
    many_trailers += "X: " + std::string(200, 'a') + "\r\n";
    many_fields += "X: a\r\n";
  }
  many_fields += "Host: h\r\n\r\n";
  const std::vector<Refusal> refusals{
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: h\n\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\nX: 1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nX Y: 1\r\n\r\n", 400},
      {"GET /a/../b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%2e%2e/b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%0d%0aX:1 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET http://a/../b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET ftp://a/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", 413},
      {long_chunks.c_str(), 413},
      {long_header.c_str(), 431},
      {endless_header.c_str(), 431},
      {endless_line.c_str(), 431},
      {endless_extension.c_str(), 431},
      {endless_trailer.c_str(), 431},
      {many_extensions.c_str(), 431},
      {many_trailers.c_str(), 431},
      {many_fields.c_str(), 431},
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
  };
  for (const auto& [bytes, status] : refusals) {
    RawClient client(server.port());
    client.send(bytes);
    const std::string answer = client.rest();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(status) + " "))
        << std::string(bytes).substr(0, 80) << "\n"
        << answer;
    EXPECT_TRUE(has(answer, "invalid_request_error"));
  }
  EXPECT_EQ(server.counts().requests, 0);
  EXPECT_EQ(server.counts().malformed, static_cast<int64_t>(refusals.size()));
  RawClient good(server.port());
  good.send(request_bytes("/"));
  EXPECT_TRUE(has(good.response(), "200 OK"));
}

TEST(HttpServer, SaysThatABodyMayCome) {
  HttpServer server(any_port(), echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("abc"));
  EXPECT_TRUE(client.response().ends_with("host=h abc"));
}

// HTTP/1.0 has neither interim responses (RFC 9110, section 10.1.1) nor transfer codings (RFC 9112,
// section 6.1).
TEST(HttpServer, IgnoresExpectAndEndsTransferCodingsOfHttp10) {
  HttpServer server(any_port(), echo);
  const std::string head = "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n";
  RawClient expects(server.port()), chunked(server.port());
  ASSERT_TRUE(expects.send(head + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(expects.send("abc"));
  const std::string answer = expects.response();
  EXPECT_TRUE(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("host=h abc")) << answer;
  ASSERT_TRUE(chunked.send(head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
  EXPECT_TRUE(chunked.rest().ends_with("host=h abc")) << "the connection was to close";
}

// Small chunks are not extensions.
TEST(HttpServer, TakesChunksOfOneByte) {
  HttpOptions options = any_port();
  options.header_bytes = 1024;
  HttpServer server(options, echo);
  std::string request = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 2000; ++i) request += "1\r\na\r\n";
  RawClient client(server.port());
  ASSERT_TRUE(client.send(request + "0\r\nX: trailer\r\n\r\n"));
  EXPECT_TRUE(client.response().ends_with("host=h " + std::string(2000, 'a')));
}

TEST(HttpServer, NeverSendsALineBreakInAField) {
  HttpServer server(any_port(), [](const HttpRequest&, const ReplyHandle& reply) {
    reply->send({.body = "x", .headers = {{"A", "1\r\nB: 2"}, {"C\n", "3"}, {"D", "4"}}});
  });
  RawClient client(server.port());
  client.send(request_bytes("/"));
  const std::string answer = client.response();
  EXPECT_FALSE(has(answer, "B: 2")) << answer;
  EXPECT_FALSE(has(answer, ": 3")) << answer;
  EXPECT_TRUE(has(answer, "D: 4")) << answer;
}

TEST(HttpServer, AnswersQuickPathsWhileAllHandlersWork) {
  HttpOptions options = any_port();
  options.handler_threads = 1;
  options.is_quick = [](std::string_view path) { return path == "/health"; };
  std::atomic<bool> working = false, over = false;
  HttpServer server(options, [&](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path == "/work") {
      working = true;
      EXPECT_TRUE(soon([&] { return over.load(); }));
    }
    echo(request, reply);
  });
  RawClient slow(server.port()), quick(server.port());
  ASSERT_TRUE(slow.send(request_bytes("/work")));
  ASSERT_TRUE(soon([&] { return working.load(); }));
  ASSERT_TRUE(quick.send(request_bytes("/health")));
  EXPECT_TRUE(has(quick.response(), "GET /health"));
  over = true;
  EXPECT_TRUE(has(slow.response(), "GET /work"));
}

// A client's requests that take long do not keep another client waiting.
TEST(HttpServer, GivesClientsTurnsAtTheHandlers) {
  HttpOptions options = any_port();
  options.handler_threads = 2;
  options.client_of = [](const HttpRequest& request) { return std::string(request.header("Client")); };
  std::atomic<int> working = 0, handled = 0;
  std::atomic<bool> over = false;
  HttpServer server(options, [&](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path == "/work") {
      ++working;
      EXPECT_TRUE(soon([&] { return over.load(); }));
      ++handled;
    }
    echo(request, reply);
  });
  std::vector<std::unique_ptr<RawClient>> busy;
  for (int i = 0; i < 6; ++i) {
    busy.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(busy.back()->send(request_bytes("/work", {}, "Client: busy\r\n")));
  }
  ASSERT_TRUE(soon([&] { return server.counts().requests == 6 && working > 0; }));
  RawClient stranger(server.port());
  ASSERT_TRUE(stranger.send(request_bytes("/short", {}, "Client: stranger\r\n")));
  EXPECT_TRUE(has(stranger.response(), "GET /short"));
  EXPECT_EQ(working, 1) << "a client has all handlers";
  over = true;
  for (const auto& one : busy) EXPECT_TRUE(has(one->response(), "GET /work"));
  EXPECT_EQ(handled, 6);
}

TEST(HttpServer, TheWaitForAHandlerEndsAtTheDeadline) {
  HttpOptions options = any_port();
  options.handler_threads = 1;
  options.deadline_of = [](const HttpRequest& request) {
    return request.arrived + (request.path == "/late" ? 50ms : 60'000ms);
  };
  std::atomic<bool> working = false, over = false;
  std::atomic<int> late = 0;
  HttpServer server(options, [&](const HttpRequest& request, const ReplyHandle& reply) {
    if (request.path == "/late") ++late;
    working = true;
    EXPECT_TRUE(soon([&] { return over.load(); }));
    echo(request, reply);
  });
  RawClient slow(server.port()), waits(server.port());
  ASSERT_TRUE(slow.send(request_bytes("/slow")));
  ASSERT_TRUE(soon([&] { return working.load(); }));
  ASSERT_TRUE(waits.send(request_bytes("/late")));
  const std::string answer = waits.rest();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 504 ") && has(answer, "timeout_error")) << answer;
  over = true;
  EXPECT_TRUE(has(slow.response(), "GET /slow"));
  RawClient next(server.port());
  ASSERT_TRUE(next.send(request_bytes("/next")));
  EXPECT_TRUE(has(next.response(), "GET /next"));
  EXPECT_EQ(late, 0) << "nobody waits for its answer";
}

TEST(HttpServer, CallsBackAtATimeUnlessAnswered) {
  std::mutex mutex;
  std::vector<ReplyHandle> replies;
  std::atomic<int> called = 0;
  HttpServer server(any_port(), [&](const HttpRequest& request, const ReplyHandle& reply) {
    reply->at(std::chrono::steady_clock::now() + 50ms, [&called, reply = std::weak_ptr(reply)] {
      ++called;
      if (const auto open = reply.lock()) open->send({.status = 504, .body = "late"});
    });
    if (request.path == "/quick") return echo(request, reply);
    const std::lock_guard lock(mutex);
    replies.push_back(reply);
  });
  RawClient quick(server.port()), slow(server.port());
  ASSERT_TRUE(quick.send(request_bytes("/quick")));
  EXPECT_TRUE(has(quick.response(), "GET /quick"));
  ASSERT_TRUE(slow.send(request_bytes("/slow")));
  EXPECT_TRUE(has(slow.response(), "504 "));
  EXPECT_EQ(called, 1);
  // The connection is as good as before.
  ASSERT_TRUE(slow.send(request_bytes("/quick")));
  EXPECT_TRUE(has(slow.response(), "GET /quick"));
}

TEST(HttpServer, TakesNoFieldsAfterTheBody) {
  HttpServer server(any_port(), [](const HttpRequest& request, const ReplyHandle& reply) {
    reply->send({.body = "x=" + std::string(request.header("X")) + " y=" + std::string(request.header("Y"))});
  });
  RawClient client(server.port());
  ASSERT_TRUE(
      client.send("POST / HTTP/1.1\r\nHost: h\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"
                  "X: 2\r\nY: 3\r\nHost: i\r\n\r\n"));
  EXPECT_TRUE(client.response().ends_with("x=1 y="));
}

TEST(HttpServer, LineBreaksDoNotKeepAConnection) {
  HttpOptions options = any_port();
  options.idle_timeout = 300ms;
  HttpServer server(options, echo);
  RawClient client(server.port());
  const auto began = std::chrono::steady_clock::now();
  while (client.send("\r\n") && std::chrono::steady_clock::now() - began < 20s)
    std::this_thread::sleep_for(20ms);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

TEST(HttpServer, TellsOfRefusedRequests) {
  HttpOptions options = any_port();
  std::mutex mutex;
  std::vector<std::pair<std::string, int>> refused;
  options.on_refused = [&](const std::string& peer, int status) {
    const std::lock_guard lock(mutex);
    refused.emplace_back(peer, status);
  };
  HttpServer server(options, echo);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("nonsense\r\n\r\n"));
  EXPECT_TRUE(client.rest().starts_with("HTTP/1.1 400 "));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(refused, (std::vector<std::pair<std::string, int>>{{"127.0.0.1", 400}}));
}

TEST(HttpServer, AnswersForHandlersThatDoNot) {
  std::mutex mutex;
  ReplyHandle kept;
  {
    HttpServer server(any_port(), [&](const HttpRequest& request, const ReplyHandle& reply) {
      if (request.path == "/throws") throw DataError("broken \"handler\"");
      if (request.path == "/drops") return;
      if (request.path == "/memory") throw std::bad_alloc();
      const std::lock_guard lock(mutex);
      kept = reply;
    });
    RawClient client(server.port());
    client.send(request_bytes("/throws"));
    const std::string thrown = client.response();
    EXPECT_TRUE(has(thrown, "500 Internal Server Error") && has(thrown, R"(broken \"handler\")")) << thrown;
    client.send(request_bytes("/drops"));
    EXPECT_TRUE(has(client.response(), "500 "));
    client.send(request_bytes("/memory"));
    EXPECT_TRUE(has(client.response(), "503 Service Unavailable"));
    client.send(request_bytes("/keeps"));
    EXPECT_TRUE(soon([&] {
      const std::lock_guard lock(mutex);
      return kept != nullptr;
    }));
  }
  // The server is gone.
  EXPECT_TRUE(kept->closed());
  EXPECT_FALSE(kept->send({.body = "late"}));
  EXPECT_FALSE(kept->write("late"));
  kept->end();
}

TEST(HttpServer, NamesBadOptions) {
  const auto refused = [](const HttpOptions& options) {
    return message_of<Error>([&] { const HttpServer server(options, echo); });
  };
  HttpOptions options = any_port();
  options.host = "nowhere.example";
  EXPECT_TRUE(has(refused(options), "host: expected an IP address"));
  options = any_port();
  options.handler_threads = 0;
  EXPECT_TRUE(has(refused(options), "handler_threads"));
  options = any_port();
  options.certificate = "a.pem";
  EXPECT_TRUE(has(refused(options), "private_key"));
  options.private_key = "b.pem";
  EXPECT_TRUE(has(refused(options), "a.pem: No such file or directory"));
  const HttpServer first(any_port(), echo);
  options = any_port();
  options.port = first.port();
  EXPECT_TRUE(has(refused(options), std::to_string(first.port()) + ": cannot listen"));
}

// Whatever the bytes are: an answer or a close, and a server that goes on.
TEST(HttpServer, OutlivesMutatedRequests) {
  HttpOptions options = any_port();
  options.header_timeout = options.body_timeout = 50ms;
  HttpServer server(options, echo);
  uint64_t state = 2463534242ULL;
  const auto random = [&state](size_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<size_t>(state % bound);
  };
  const std::vector<std::string> good{
      request_bytes("/a?b=c"), request_bytes("/p", "a body", "Connection: close\r\n"),
      "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"};
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good[random(good.size())];
    for (size_t edits = 1 + random(4); edits > 0 && !bytes.empty(); --edits) {
      const size_t at = random(bytes.size());
      if (random(2) == 0) {
        bytes.erase(at, 1 + random(6));
      } else {
        bytes[at] = static_cast<char>(random(256));
      }
    }
    RawClient client(server.port());
    client.send(bytes);
    if (random(2) == 0) client.reset();
  }
  RawClient client(server.port());
  ASSERT_TRUE(client.send(request_bytes("/after")));
  EXPECT_TRUE(has(client.response(), "GET /after"));
}

}  // namespace
