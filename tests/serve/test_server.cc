// Models behind sockets: clients that vanish, shared ports, restarts, reloads under load.

#include "qkv/serve/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/serve/folders.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::Server;
using serve::ServerOptions;
using serve::ServiceOptions;

ServerOptions on_any_port(ServiceOptions service) {
  ServerOptions options{.service = std::move(service)};
  options.http.port = 0;
  return options;
}

std::string writing_request(int tokens, bool stream) {
  const json body{{"prompt", "a red dog"},
                  {"max_tokens", tokens},
                  {"min_tokens", tokens},
                  {"stream", stream},
                  {"seed", 5}};
  return request_bytes("/v1/completions", body.dump());
}

std::string body_of(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : response.substr(end + 4);
}

std::string text_of_completion(const std::string& response) {
  return json::parse(body_of(response)).at("choices").at(0).at("text").get<std::string>();
}

template <class Condition>
bool within_a_minute(const Condition& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

const serve::WorkerCounters& decode_counters(Server& server) {
  return server.service().models().all().front()->decoder()->counters();
}

// Waiting and running, before their first word and in the middle of their stream, by FIN and by RST.
TEST(Servers, OutliveFiveHundredClientsThatVanish) {
  const Scratch scratch;
  ServerOptions options = on_any_port(serving_long_texts(scratch));
  options.service.work.queue = 1000;
  Server server(options);
  RawClient stays(server.port());
  ASSERT_TRUE(stays.send(writing_request(150, false)));
  constexpr size_t kClients = 500;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(writing_request(3000, i % 5 != 0)));
  }
  EXPECT_NE(clients[1]->until("data: ").find("200 OK"), std::string::npos);
  const serve::WorkerCounters& counters = decode_counters(server);
  ASSERT_TRUE(within_a_minute(
      [&] { return counters.running + counters.waiting + counters.done == 1 + int64_t{kClients}; }));
  for (size_t i = 0; i < kClients; ++i) i % 2 == 0 ? clients[i]->reset() : clients[i]->close();
  const std::string text = text_of_completion(stays.response());
  EXPECT_TRUE(within_a_minute([&] { return counters.cancelled == int64_t{kClients}; })) << counters.cancelled;
  EXPECT_EQ(counters.done, 1);
  EXPECT_TRUE(within_a_minute([&] { return counters.reserved_bytes == 0 && counters.running == 0; }));
  RawClient after(server.port());
  ASSERT_TRUE(after.send(writing_request(150, false)));
  EXPECT_EQ(text_of_completion(after.response()), text);
}

// Pages of another origin can read why they were refused, by the HTTP server too.
TEST(Servers, RefuseAndNameMethodsForOtherOrigins) {
  ServiceOptions service = serving({"bert_texts"});
  service.cors_origin = "https://example.org";
  Server server(on_any_port(service));
  const std::string origin = "Access-Control-Allow-Origin: https://example.org\r\n";
  const auto answer_to = [&](const std::string& request) {
    RawClient client(server.port());
    EXPECT_TRUE(client.send(request));
    return client.response();
  };
  const std::string refused = answer_to("POST /v1/classify HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 ")) << refused;
  EXPECT_NE(refused.find(origin), std::string::npos) << refused;
  const std::string whole = answer_to("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(whole.starts_with("HTTP/1.1 204 ")) << whole;
  for (const char* field :
       {"\r\nAllow: GET, HEAD, POST\r\n", "\r\nAccess-Control-Allow-Methods: GET, HEAD, POST\r\n"})
    EXPECT_NE(whole.find(field), std::string::npos) << whole;
  const std::string none = answer_to("GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(none.starts_with("HTTP/1.1 400 ")) << none;
}

TEST(Servers, ShareAPort) {
  ServerOptions options = on_any_port(serving({"llama"}));
  options.http.reuse_port = true;
  Server first(options);
  options.http.port = first.port();
  Server second(options);
  EXPECT_EQ(first.port(), second.port());
  std::string expected;
  for (int i = 0; i < 60; ++i) {
    RawClient client(first.port());
    ASSERT_TRUE(client.send(writing_request(5, false)));
    const std::string text = text_of_completion(client.response());
    if (i == 0) expected = text;
    EXPECT_EQ(text, expected);
  }
  // The kernel spreads connections by a hash of their ports: 60 of one server has a chance of 2^-59.
  EXPECT_GT(decode_counters(first).done, 0);
  EXPECT_GT(decode_counters(second).done, 0);
  EXPECT_EQ(decode_counters(first).done + decode_counters(second).done, 60);
  // One stops; the other has the port to itself.
  EXPECT_EQ(first.stop(std::chrono::seconds(10)), 0);
  for (int i = 0; i < 10; ++i) {
    RawClient client(second.port());
    ASSERT_TRUE(client.send(writing_request(5, false)));
    EXPECT_EQ(text_of_completion(client.response()), expected);
  }
}

TEST(Servers, StartAgainOnTheirPort) {
  ServerOptions options = on_any_port(serving({"llama"}));
  std::string expected;
  for (int round = 0; round < 3; ++round) {
    Server server(options);
    options.http.port = server.port();
    RawClient client(server.port());
    ASSERT_TRUE(client.send(writing_request(5, false)));
    const std::string text = text_of_completion(client.response());
    if (round == 0) expected = text;
    EXPECT_EQ(text, expected);
    // The server ends the connection, which keeps the port in TIME_WAIT.
  }
}

// Every request is answered, by the models before or after a reload.
TEST(Servers, ReloadUnderLoad) {
  Server server(on_any_port(serving({"llama"})));
  std::atomic<int> answers = 0, other = 0;
  std::atomic<bool> loaded = false;
  std::vector<std::thread> clients;
  RawClient first(server.port());
  ASSERT_TRUE(first.send(writing_request(30, false)));
  const std::string expected = text_of_completion(first.response());
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      RawClient client(server.port());
      for (int i = 0; i < 15 || !loaded; ++i) {
        if (!client.send(writing_request(30, false)) || text_of_completion(client.response()) != expected) {
          ++other;
          return;
        }
        ++answers;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    RawClient reload(server.port());
    EXPECT_TRUE(reload.send("POST /v1/reload HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_NE(reload.response().find("200 OK"), std::string::npos);
  }
  loaded = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(other, 0);
  EXPECT_GE(answers, 60);
}

}  // namespace
