// Scheduling: fair queues, shared steps, cancellation, deadlines, full queues, reloads, and equal bits under
// load.

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "qkv/serve/protocols/stop_texts.h"
#include "qkv/serve/work/fair_queue.h"
#include "tests/serve/answers.h"
#include "tests/serve/fake_reply.h"
#include "tests/serve/folders.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using nlohmann::json;
using serve::Service;

int64_t counter_of(Service& service, const std::atomic<int64_t> serve::WorkerCounters::*counter) {
  int64_t sum = 0;
  for (const auto& model : service.models().all()) {
    model->for_each_worker(
        [&](const char* /*worker*/, const serve::WorkerCounters& counters) { sum += counters.*counter; });
  }
  return sum;
}

// Waits, up to a minute, until a condition holds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// The text of a streamed completion.
std::string text_of(const std::string& events) {
  std::string text;
  for (const std::string& event : events_of(events))
    if (event != "[DONE]") text += json::parse(event)["choices"][0]["text"].get<std::string>();
  return text;
}

Sent writing(int tokens, bool stream, const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  // min_tokens: the end token would end some texts early.
  const json body{{"prompt", "a red dog"},
                  {"max_tokens", tokens},
                  {"min_tokens", tokens},
                  {"stream", stream},
                  {"seed", 5}};
  return {.path = "/v1/completions", .body = body.dump(), .headers = headers};
}

TEST(FairQueue, TakesTurnsBetweenClients) {
  serve::FairQueue<int> queue;
  for (int i = 0; i < 3; ++i) queue.push({.id = static_cast<uint64_t>(i), .client = "a", .job = i});
  queue.push({.id = 3, .client = "b", .job = 10});
  queue.push({.id = 4, .client = "c", .job = 20});
  std::vector<int> order;
  order.push_back(queue.pop()->job);
  EXPECT_EQ(queue.remove_if([](const auto& entry) { return entry.id == 4; }).size(), 1U);
  EXPECT_EQ(queue.size(), 3U);
  while (const auto entry = queue.pop()) order.push_back(entry->job);
  EXPECT_EQ(order, (std::vector{0, 10, 1, 2}));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, AdmitsAClientBelowItsShare) {
  serve::FairQueue<int> queue;
  EXPECT_TRUE(queue.admits("a", 100, 8)) << "nothing waits";
  for (uint64_t i = 0; i < 100; ++i) queue.push({.id = i, .client = "a", .job = 0});
  EXPECT_FALSE(queue.admits("a", 1, 8));
  EXPECT_TRUE(queue.admits("b", 4, 8)) << "one large call locks nobody out";
  EXPECT_FALSE(queue.admits("b", 5, 8));
  for (uint64_t i = 0; i < 4; ++i) queue.push({.id = 100 + i, .client = "b", .job = 0});
  EXPECT_FALSE(queue.admits("b", 1, 8));
  EXPECT_TRUE(queue.admits("c", 2, 8));
  EXPECT_FALSE(queue.admits("c", 3, 8));
  queue.remove_if([](const auto& entry) { return entry.client == "a"; });
  EXPECT_TRUE(queue.admits("a", 4, 8));
}

TEST(StopTexts, AreFoundAcrossPieces) {
  serve::StopTexts stops({"END", "\n\n"});
  EXPECT_EQ(stops.add("one E"), "one ");
  EXPECT_EQ(stops.add("N"), "");
  EXPECT_EQ(stops.add("T\n"), "ENT");
  EXPECT_EQ(stops.add("two\nEN"), "\ntwo\n");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.add("D three"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.add("four"), "");
  EXPECT_EQ(stops.finish(), "");
  serve::StopTexts none({"END"});
  EXPECT_EQ(none.add("EN"), "");
  EXPECT_EQ(none.finish(), "EN");
  serve::StopTexts first({"abc", "b"});  // the stop that begins first
  EXPECT_EQ(first.add("xab"), "xa");
}

// Two requests share steps, and the second joins after the first has begun.
TEST(Scheduling, RequestsShareSteps) {
  const Scratch scratch;
  Service service(serving_long_texts(scratch));
  const auto first = start(service, writing(2000, true));
  ASSERT_TRUE(first->wait_for_writes(3));
  const auto second = start(service, writing(20, false));
  EXPECT_EQ(second->wait().status, 200);
  EXPECT_FALSE(first->wait_for_end(std::chrono::seconds(0))) << "the second was to end within the first";
  first->leave();
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::max_rows), 2);
}

TEST(Scheduling, AClientThatLeavesFreesItsRows) {
  const Scratch scratch;
  const serve::ServiceOptions options = serving_long_texts(scratch);
  Service service(options);
  const auto stays = start(service, writing(400, true));
  std::vector<std::shared_ptr<FakeReply>> leaving;
  for (int i = 0; i < 8; ++i) leaving.push_back(start(service, writing(2000, i % 2 == 0)));
  ASSERT_TRUE(stays->wait_for_writes(2));
  for (const auto& one : leaving) one->leave();
  const serve::HttpResponse found = stays->wait();
  EXPECT_EQ(found.status, 200);
  EXPECT_TRUE(eventually([&] { return counter_of(service, &serve::WorkerCounters::cancelled) == 8; }));
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::done), 1);
  EXPECT_LT(counter_of(service, &serve::WorkerCounters::steps), 2000) << "nobody waited for these";
  // The text does not depend on those who left.
  Service alone(options);
  const serve::HttpResponse expected = start(alone, writing(400, true))->wait();
  EXPECT_EQ(text_of(found.body), text_of(expected.body));
}

TEST(Scheduling, DeadlinesEndRequests) {
  const Scratch scratch;
  Service service(serving_long_texts(scratch));
  std::vector<std::shared_ptr<FakeReply>> others;
  for (int i = 0; i < 2; ++i) others.push_back(start(service, writing(100, false)));
  const auto late = start(service, writing(3900, false, {{"X-Timeout-Ms", "20"}}))->wait();
  EXPECT_EQ(late.status, 504) << late.body;
  for (const auto& one : others) EXPECT_EQ(one->wait().status, 200);
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::expired), 1);
  EXPECT_EQ(start(service, writing(3900, false, {{"X-Timeout-Ms", "1"}}))->wait().status, 504);
  EXPECT_EQ(start(service, writing(1, false, {{"X-Timeout-Ms", "soon"}}))->wait().status, 400);
}

// The deadline begins when the request has arrived, not when a handler has time for it.
TEST(Scheduling, TheWaitForAHandlerCounts) {
  Service service(serving({"llama"}));
  serve::HttpRequest request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.body = R"({"prompt":"a"})";
  request.headers["X-Timeout-Ms"] = "5000";
  request.arrived = serve::Clock::now() - std::chrono::seconds(6);
  const auto reply = std::make_shared<FakeReply>();
  service.handle(request, reply);
  expect_error(reply->wait(), 504, {"deadline_exceeded"});
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::steps), 0);
}

TEST(Scheduling, AFullQueueAnswers429) {
  const Scratch scratch;
  serve::ServiceOptions options = serving_long_texts(scratch);
  options.work.queue = 2;
  options.work.engine.batch_tokens = 1;  // one request at a time
  Service service(options);
  std::vector<std::shared_ptr<FakeReply>> replies;
  for (int i = 0; i < 24; ++i) replies.push_back(start(service, writing(300, false)));
  int good = 0, refused = 0;
  for (const auto& one : replies) {
    const serve::HttpResponse response = one->wait();
    good += response.status == 200 ? 1 : 0;
    if (response.status != 429) continue;
    ++refused;
    EXPECT_EQ(header_of(response, "Retry-After"), "1");
    EXPECT_NE(response.body.find("queue_full"), std::string::npos);
  }
  EXPECT_EQ(good + refused, 24);
  EXPECT_GE(good, 2);
  EXPECT_GE(refused, 1);
}

// Attention and scores run one after another; what waits is dropped with its client.
TEST(Scheduling, SerialWorkEnds) {
  Service service(serving({"marian"}));
  std::vector<std::shared_ptr<FakeReply>> replies;
  for (int i = 0; i < 30; ++i)
    replies.push_back(start(service, {.path = "/v1/attention", .body = R"({"text":"forty"})"}));
  for (size_t i = 1; i < replies.size(); i += 2) replies[i]->leave();
  for (size_t i = 0; i < replies.size(); i += 2) EXPECT_EQ(replies[i]->wait().status, 200);
  EXPECT_TRUE(eventually([&] {
    return counter_of(service, &serve::WorkerCounters::running) == 0 &&
           counter_of(service, &serve::WorkerCounters::done) +
                   counter_of(service, &serve::WorkerCounters::cancelled) ==
               30;
  }));
}

// Whatever the workers do, a request is answered at its deadline, and its rows are freed.
TEST(Scheduling, TheDeadlineIsAnsweredWithoutTheWorker) {
  const Scratch scratch;
  Service service(serving_long_texts(scratch));
  const auto late = start(service, writing(3900, false));
  EXPECT_FALSE(late->wait_for_end(std::chrono::seconds(0)));
  late->pass_time();
  ASSERT_TRUE(late->wait_for_end(std::chrono::seconds(0)));
  expect_error(late->wait(), 504, {"deadline"});
  EXPECT_TRUE(eventually([&] { return counter_of(service, &serve::WorkerCounters::running) == 0; }));
  EXPECT_LT(counter_of(service, &serve::WorkerCounters::steps), 3900);
}

TEST(Scheduling, StepsOfOneTokenAreCounted) {
  Service service(serving({"llama"}));
  EXPECT_EQ(start(service, writing(1, false))->wait().status, 200);
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::steps), 1);
  EXPECT_EQ(counter_of(service, &serve::WorkerCounters::rows), 1);
}

TEST(Scheduling, ACallLargerThanTheQueueIsTakenWhenItIsEmpty) {
  serve::ServiceOptions options = serving({"bert_texts"});
  options.work.encode.queue = 2;
  Service service(options);
  const json texts{"a", "red", "dog", "one", "small", "house"};
  EXPECT_EQ(post(service, "/v1/embeddings", {{"input", texts}}).status, 200);
}

TEST(Models, AreReplacedUnderLoad) {
  const Scratch scratch;
  std::filesystem::copy(golden_folder("llama"), scratch / "model");
  serve::ServiceOptions options;
  options.folders = {{"m", scratch / "model"}};
  Service service(options);
  const auto before = start(service, writing(60, false));
  const serve::ModelHandle old = service.models().all().front();
  EXPECT_EQ(ask(service, {.path = "/v1/reload"}).status, 200);
  EXPECT_NE(service.models().all().front(), old);
  const auto after = start(service, writing(60, false));
  const json first = json::parse(before->wait().body), second = json::parse(after->wait().body);
  EXPECT_EQ(first["choices"], second["choices"]);
  // A folder that cannot be opened changes nothing.
  std::filesystem::remove(scratch / "model/config.json");
  const serve::HttpResponse failed = ask(service, {.path = "/v1/reload"});
  EXPECT_EQ(failed.status, 500) << failed.body;
  EXPECT_NE(failed.body.find("config.json"), std::string::npos) << failed.body;
  EXPECT_NE(failed.body.find("reload_failed"), std::string::npos) << failed.body;
  // Another site's page may not ask.
  const auto from_origin = [&](const std::string& origin) {
    return ask(service, {.path = "/v1/reload", .headers = {{"Origin", origin}, {"Host", "here:8080"}}})
        .status;
  };
  EXPECT_EQ(from_origin("https://evil.example"), 403);
  EXPECT_EQ(from_origin("null"), 403);
  EXPECT_EQ(from_origin("http://here:8080"), 500) << "its own page may";
  EXPECT_EQ(start(service, writing(5, false))->wait().status, 200);
}

TEST(Models, HaveNames) {
  EXPECT_EQ(serve::parse_model_folder("de=a/b").name, "de");
  EXPECT_EQ(serve::parse_model_folder("de=a/b").folder, "a/b");
  EXPECT_EQ(serve::parse_model_folder("a/b").name, "b");
  EXPECT_EQ(serve::parse_model_folder("a/b-Q4_0.gguf").name, "b-Q4_0");
  EXPECT_EQ(serve::parse_model_folder("a/b-Q4_0.gguf").folder, "a/b-Q4_0.gguf");
  EXPECT_EQ(serve::parse_model_folder("a/b/").name, "b");
  EXPECT_FALSE(serve::parse_model_folder(".").name.empty());
  for (const char* const wrong : {"", "=a", "a="}) EXPECT_THROW(serve::parse_model_folder(wrong), UsageError);
  serve::ServiceOptions twice = serving({"llama", "llama"});
  EXPECT_NE(message_of<UsageError>([&] { const Service service(twice); }).find("two called 'llama'"),
            std::string::npos);
  EXPECT_THROW(Service(serve::ServiceOptions{}), UsageError);
}

// Every answer has the same bits, whatever else the server does.
TEST(Load, DoesNotChangeAnswers) {
  Service service(serving({"marian", "llama", "bert_texts", "bert_masked"}));
  std::vector<Sent> requests;
  for (const char* const text : {"forty", "twenty-one", "three hundred forty-two"}) {
    for (const int beam : {1, 4}) {
      requests.push_back(
          {.path = "/v1/translate", .body = json{{"text", text}, {"beam", beam}, {"scores", true}}.dump()});
    }
    requests.push_back(
        {.path = "/v1/embeddings", .body = json{{"model", "bert_texts"}, {"input", text}}.dump()});
    requests.push_back({.path = "/v1/classify", .body = json{{"text", {text, "a"}}}.dump()});
    requests.push_back({.path = "/v1/score", .body = json{{"model", "llama"}, {"text", text}}.dump()});
    requests.push_back(
        {.path = "/v1/completions",
         .body = json{{"prompt", text}, {"max_tokens", 9}, {"seed", 2}, {"logprobs", 0}}.dump()});
    requests.push_back({.path = "/v1/completions",
                        .body = json{{"prompt", text}, {"max_tokens", 7}, {"temperature", 0}}.dump()});
  }
  requests.push_back({.path = "/v1/fill-mask", .body = json{{"text", "a red [MASK]"}}.dump()});
  const auto answer = [&](const Sent& sent) {
    json body = json::parse(ask(service, sent).body);
    body.erase("id");
    body.erase("created");
    return body;
  };
  std::vector<json> expected;
  for (const Sent& sent : requests) expected.push_back(answer(sent));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (size_t client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      for (size_t k = 0; k < 40; ++k) {
        const size_t i = (client * 7 + k * 5) % requests.size();
        if (answer(requests[i]) != expected[i]) ++wrong;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

// Bodies that were JSON once: an answer, never a crash.
TEST(Load, MutatedBodiesAreAnswered) {
  Service service(serving({"marian", "llama", "bert_texts"}));
  const std::vector<Sent> good{
      {.path = "/v1/translate", .body = R"({"text":["forty","one"],"beam":2,"nbest":2,"scores":true})"},
      {.path = "/v1/completions",
       .body = R"({"prompt":["a",[1,2]],"max_tokens":3,"top_p":0.5,"stop":["x"],"n":2})"},
      {.path = "/v1/embeddings", .body = R"({"input":["a","b"],"encoding_format":"base64"})"},
      {.path = "/predict", .body = R"({"inputs":[["a","b"],["c"]]})"},
      {.path = "/translate", .body = R"({"q":"one","source":"en","target":"de","alternatives":2})"},
      {.path = "/v1/attention", .body = R"({"text":"one","layer":0,"head":0,"part":"cross"})"}};
  uint64_t state = 88172645463325252ULL;
  const auto random = [&state](size_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<size_t>(state % bound);
  };
  for (int round = 0; round < 600; ++round) {
    Sent sent = good[random(good.size())];
    for (size_t edits = 1 + random(3); edits > 0 && !sent.body.empty(); --edits) {
      const size_t at = random(sent.body.size());
      constexpr std::string_view kBytes = "{}[]\",:0-9.eE\\u\xff\x00 nft";
      if (random(3) == 0) {
        sent.body.erase(at, 1 + random(3));
      } else {
        sent.body[at] = kBytes[random(kBytes.size())];
      }
    }
    const int status = ask(service, sent).status;
    EXPECT_TRUE(status == 200 || status == 400 || status == 404)
        << status << " " << sent.path << " " << sent.body;
  }
}

}  // namespace
