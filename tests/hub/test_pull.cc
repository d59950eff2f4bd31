// Downloads that succeed, at once or in the end.

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "qkv/base/error.h"
#include "qkv/base/stop.h"
#include "tests/hub/pull_test.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Pull : public PullTest {};

TEST_F(Pull, HasTheLayoutOfHuggingfaceHub) {
  hub_.files["1_Pooling/config.json"] = "{}";
  hub_.files["README.md"] = "# Tiny";
  hub_.page = 2;
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  std::vector<int64_t> bytes;
  pulling.on_progress = [&](const hub::PullProgress& progress) {
    EXPECT_EQ(progress.expected_bytes, 100'010);
    bytes.push_back(progress.bytes);
  };
  const hub::PullResult result = hub::pull(pulling);
  ASSERT_EQ(result.skipped.size(), 1U);
  EXPECT_EQ(result.skipped[0].path, "README.md");
  hub_.files.erase("README.md");
  expect_pulled(result);
  EXPECT_EQ(result.downloaded_bytes, 100'010);
  EXPECT_EQ(bytes.back(), 100'010);
  EXPECT_TRUE(std::ranges::is_sorted(bytes));
  EXPECT_EQ(fs::read_symlink(result.folder / "model.safetensors"),
            "../../blobs/" + hub_.checksum("model.safetensors"));
  EXPECT_EQ(fs::read_symlink(result.folder / "1_Pooling/config.json"),
            "../../../blobs/" + hub_.checksum("1_Pooling/config.json"));
  EXPECT_TRUE(fs::exists(cache() / ".locks/models--org--tiny" / (hub_.checksum("config.json") + ".lock")));
  EXPECT_TRUE(read_file(cache() / "CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
  EXPECT_EQ(server.connections(), 1) << "kept open";
  EXPECT_TRUE(messages_.empty());

  // Again: only the lists are asked for.
  const size_t before = server.requests().size();
  const hub::PullResult again = hub::pull(options(server));
  EXPECT_EQ(again.downloaded_bytes, 0);
  EXPECT_EQ(again.folder, result.folder);
  for (const std::string& target : server.targets())
    EXPECT_EQ(std::ranges::count(server.targets(), target), target.starts_with("/api/") ? 2 : 1) << target;
  EXPECT_EQ(server.requests().size(), before + 3);
}

TEST_F(Pull, FollowsTheRevision) {
  hub_.revision = "refs%2Fpr%2F1";
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.model.revision = "refs/pr/1";
  EXPECT_EQ(hub::pull(pulling).commit, hub_.commit);
  EXPECT_EQ(read_file(repository() / "refs/refs/pr/1"), hub_.commit);
  // A later commit takes over what is the same, and leaves the former as it was.
  const std::string former = hub_.commit, weights = hub_.checksum("model.safetensors");
  hub_.commit = std::string(39, '0') + "2";
  hub_.files["config.json"] = "{\"a\": 2}";
  const hub::PullResult later = hub::pull(pulling);
  EXPECT_EQ(later.downloaded_bytes, 8);
  EXPECT_EQ(read_file(later.folder / "config.json"), "{\"a\": 2}");
  EXPECT_EQ(read_file(repository() / "snapshots" / former / "config.json"), "{\"a\": 1}");
  EXPECT_EQ(read_file(repository() / "refs/refs/pr/1"), hub_.commit);
  // A commit has no ref, and is not asked for.
  pulling.model.revision = hub_.commit;
  fs::remove_all(repository() / "refs");
  hub::pull(pulling);
  EXPECT_FALSE(fs::exists(repository() / "refs"));
}

TEST_F(Pull, TakesWhatIsIncluded) {
  hub_.files["pytorch_model.bin"] = "pickled";
  hub_.files["empty.bin"] = "";
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.include = {"*.bin"};
  const hub::PullResult result = hub::pull(pulling);
  EXPECT_EQ(result.files.size(), 2U);
  EXPECT_EQ(read_file(result.folder / "pytorch_model.bin"), "pickled");
  EXPECT_EQ(read_file(result.folder / "empty.bin"), "");
  EXPECT_FALSE(fs::exists(result.folder / "config.json"));
  pulling.include = {"*.onnx", "*.h5"};
  expect_throw<UsageError>("org/tiny: expected files that match *.onnx *.h5, found 4 other files",
                           [&] { hub::pull(pulling); });
}

// The connection ends in the middle, several times, within the header and within the body.
TEST_F(Pull, ResumesBrokenTransfers) {
  std::atomic<int> parts = 0;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    const int part = ++parts;
    if (part == 2) return Reply{.raw = "HTTP/1.1 206 Par"};
    if (part == 3) return Reply{.raw = "\r\n"};
    if (part <= 5) reply.end_after = 20'000;
    return reply;
  };
  const HttpTestServer server(handler());
  expect_pulled(hub::pull(options(server)));
  std::vector<std::string> ranges;
  for (const Request& request : server.requests())
    if (request.target.starts_with("/lfs/")) ranges.push_back(request.header("range"));
  EXPECT_EQ(ranges.front(), "");
  EXPECT_EQ(ranges.back(), "bytes=60000-");
  ASSERT_FALSE(messages_.empty());
  expect_parts(messages_[0], {"the connection ended early; next attempt in 0.001 s"});
}

// Progress resets the count of failures; this transfer breaks more often than retries are left.
TEST_F(Pull, GoesOnWhileThereIsProgress) {
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    reply.end_after = std::min<size_t>(reply.body.size(), 5'000);
    return reply;
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.settings.retries = 1;
  expect_pulled(hub::pull(pulling));
  EXPECT_GE(server.requests().size(), 40U);
}

TEST_F(Pull, ContinuesWhatAnotherProcessLeft) {
  const HttpTestServer server(handler());
  const std::string& content = hub_.files.at("model.safetensors");
  fs::create_directories(repository() / "blobs");
  const auto pulled_after = [&](const std::string& left) {
    fs::remove_all(repository() / "snapshots");
    fs::remove(blob("model.safetensors"));
    write_file_atomically(incomplete("model.safetensors"), left);
    const hub::PullResult result = hub::pull(options(server));
    expect_pulled(result);
    return server.requests().back().header("range");
  };
  EXPECT_EQ(pulled_after(content.substr(0, 40'000)), "bytes=40000-");
  EXPECT_EQ(pulled_after(content + "more"), "") << "of another file";
  const size_t before = server.requests().size();
  pulled_after(content);
  EXPECT_EQ(server.requests().size(), before + 2) << "whole: only the lists";
  // What was left is damaged: its checksum tells in the end.
  EXPECT_EQ(pulled_after(std::string(40'000, 'x')), "");
  ASSERT_FALSE(messages_.empty());
  EXPECT_EQ(messages_.back(), "model.safetensors: the checksum is wrong; it is downloaded again");
}

TEST_F(Pull, TakesAllFromAServerWithoutRanges) {
  hub_.instead = [&, parts = 0](const Request& request) mutable -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply{.body = hub_.files.at("model.safetensors")};
    if (++parts == 1) reply.end_after = 50'000;
    return reply;
  };
  const HttpTestServer server(handler());
  expect_pulled(hub::pull(options(server)));
}

TEST_F(Pull, ReplacesDamagedFiles) {
  const HttpTestServer server(handler());
  const hub::PullResult first = hub::pull(options(server));
  fs::resize_file(blob("model.safetensors"), 10);
  fs::remove(first.folder / "config.json");
  fs::create_symlink("nowhere", first.folder / "config.json");
  expect_pulled(hub::pull(options(server)));
}

TEST_F(Pull, ReadsBodiesWithoutALength) {
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    reply.states_length = false;
    return reply;
  };
  const HttpTestServer server(handler());
  expect_pulled(hub::pull(options(server)));
}

TEST_F(Pull, WaitsAsTheServerAsks) {
  std::atomic<int> asked = 0;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/api/") || ++asked > 2) return std::nullopt;
    return Reply{
        .status = 429,
        .headers = {asked == 1 ? std::pair{"Retry-After", "0"} : std::pair{"RateLimit", "\"api\";r=0;t=1"}}};
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.settings.pause = 60s;  // not waited for
  expect_pulled(hub::pull(pulling));
  ASSERT_EQ(messages_.size(), 2U);
  expect_parts(messages_[0], {"status 429 (too many requests)", "next attempt in 0 s"});
  expect_parts(messages_[1], {"next attempt in 1 s"});
}

TEST_F(Pull, IsDoneOnceByTwoAtOnce) {
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/")) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    reply.piece = 1000;  // 100 ms
    return reply;
  };
  const HttpTestServer server(handler());
  hub::PullOptions others = options(server);
  others.on_message = {};
  std::thread other([&] { expect_pulled(hub::pull(others)); });
  expect_pulled(hub::pull(options(server)));
  other.join();
  const std::vector<std::string> targets = server.targets();
  EXPECT_EQ(
      std::ranges::count_if(targets, [](const std::string& target) { return target.starts_with("/lfs/"); }),
      1);
}

TEST_F(Pull, StopsOnRequestAndResumes) {
  std::atomic<bool> stop = false;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/") || stop) return std::nullopt;
    Reply reply = FakeHub::ranged(request, hub_.files.at("model.safetensors"));
    reply.piece = 20;
    return reply;
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.stop = &stop;
  pulling.on_progress = [&](const hub::PullProgress& progress) { stop = stop || progress.bytes > 1'000; };
  EXPECT_THROW(hub::pull(pulling), Stopped);
  expect_nothing();
  const auto left = fs::file_size(incomplete("model.safetensors"));
  EXPECT_GT(left, 0U);
  expect_pulled(hub::pull(options(server)));
  EXPECT_EQ(server.requests().back().header("range"), "bytes=" + std::to_string(left) + "-");
}

TEST_F(Pull, GetsLargeFilesSideBySide) {
  for (const char* const shard : {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                  "model-00003-of-00003.safetensors"}) {
    hub_.files[shard] = FakeHub::content(1'100'000, static_cast<uint32_t>(shard[10]));
    hub_.lfs.insert(shard);
  }
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  bool together = true;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!request.target.starts_with("/lfs/") || request.target.ends_with(hub_.checksum("model.safetensors")))
      return std::nullopt;
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    together &= changed.wait_for(lock, 10s, [&] { return arrived == 3; });
    return std::nullopt;
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  std::vector<int64_t> bytes;
  pulling.on_progress = [&](const hub::PullProgress& progress) { bytes.push_back(progress.bytes); };
  const hub::PullResult result = hub::pull(pulling);
  EXPECT_EQ(arrived, 3);
  EXPECT_TRUE(together);
  expect_pulled(result);
  EXPECT_EQ(result.downloaded_bytes, 3'400'008);
  EXPECT_EQ(bytes.back(), 3'400'008);
  EXPECT_TRUE(std::ranges::is_sorted(bytes));
}

TEST_F(Pull, EndsAllTransfersWhenOneFails) {
  for (const char* const shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    hub_.files[shard] = FakeHub::content(1'100'000, static_cast<uint32_t>(shard[10]));
    hub_.lfs.insert(shard);
  }
  std::atomic<bool> broken = true;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    if (!broken || !request.target.starts_with("/lfs/")) return std::nullopt;
    if (request.target.ends_with(hub_.checksum("model-00001-of-00002.safetensors")))
      return Reply{.status = 404};
    if (!request.target.ends_with(hub_.checksum("model-00002-of-00002.safetensors"))) return std::nullopt;
    Reply slow = FakeHub::ranged(request, hub_.files.at("model-00002-of-00002.safetensors"));
    slow.piece = 50;  // 22 seconds
    return slow;
  };
  const HttpTestServer server(handler());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(hub::pull(options(server)), IoError);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_FALSE(fs::exists(repository() / "refs"));
  broken = false;
  expect_pulled(hub::pull(options(server)));
}

TEST_F(Pull, StopsTransfersSideBySideAndResumesThem) {
  for (const char* const shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    hub_.files[shard] = FakeHub::content(1'100'000, static_cast<uint32_t>(shard[10]));
    hub_.lfs.insert(shard);
  }
  std::atomic<bool> slow = true;
  hub_.instead = [&](const Request& request) -> std::optional<Reply> {
    for (const char* const shard : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
      if (!slow || !request.target.starts_with("/lfs/") || !request.target.ends_with(hub_.checksum(shard)))
        continue;
      Reply reply = FakeHub::ranged(request, hub_.files.at(shard));
      reply.piece = 50;  // 22 seconds
      return reply;
    }
    return std::nullopt;
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  std::atomic<bool> stop = false;
  pulling.stop = &stop;
  pulling.on_progress = [&](const hub::PullProgress& progress) { stop = progress.bytes > 201'000; };
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(hub::pull(pulling), Stopped);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_FALSE(fs::exists(repository() / "refs"));
  slow = false;
  const hub::PullResult result = hub::pull(options(server));
  expect_pulled(result);
  EXPECT_LT(result.downloaded_bytes, 2'200'000) << "what had arrived is kept";
}

TEST_F(Pull, StopsWhileTheServerIsSilent) {
  std::atomic<bool> stop = false;
  hub_.instead = [&](const Request&) {
    stop = true;
    return Reply{.silence = 20s};
  };
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.stop = &stop;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(hub::pull(pulling), Stopped);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

TEST_F(Pull, IsTheCacheOffline) {
  const HttpTestServer server(handler());
  hub::PullOptions pulling = options(server);
  pulling.settings.offline = true;
  expect_throw<IoError>("HF_HUB_OFFLINE is set, and org/tiny is not in the cache ",
                        [&] { hub::pull(pulling); });
  const fs::path folder = hub::pull(options(server)).folder;
  const size_t before = server.requests().size();
  EXPECT_EQ(hub::pull(pulling).folder, folder);
  EXPECT_EQ(server.requests().size(), before);
}

}  // namespace
