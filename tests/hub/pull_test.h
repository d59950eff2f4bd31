#pragma once
// Pulls from a hub of the tests into a cache of the test.

#include <chrono>
#include <string>
#include <vector>

#include "qkv/base/files.h"
#include "qkv/hub/pull.h"
#include "tests/hub/fake_hub.h"
#include "tests/support/environment.h"
#include "tests/support/scratch.h"

namespace qkv::testing {

class PullTest : public ::testing::Test {
 protected:
  static std::string authorization(const Request& request) { return request.header("authorization"); }

  hub::PullOptions options(const HttpTestServer& server) {
    hub::PullOptions options{.model = {.id = hub_.id}};
    options.settings.endpoint = server.url();
    options.settings.cache = cache();
    options.settings.timeout = std::chrono::milliseconds(10'000);
    options.settings.pause = std::chrono::milliseconds(1);
    options.on_message = [this](const std::string& message) { messages_.push_back(message); };
    return options;
  }
  std::filesystem::path cache() const { return scratch_ / "cache"; }
  std::filesystem::path repository() const { return cache() / hub::repository_folder_name(hub_.id); }
  std::filesystem::path blob(const std::string& path) const {
    return repository() / "blobs" / hub_.checksum(path);
  }
  std::filesystem::path incomplete(const std::string& path) const {
    return blob(path).string() + ".incomplete";
  }

  HttpTestServer::Handler handler() {
    return [this](const Request& request) { return hub_(request); };
  }
  // All files of the model have their content, the revision refers to the commit, and nothing else is left.
  void expect_pulled(const hub::PullResult& result) const {
    EXPECT_EQ(result.commit, hub_.commit);
    EXPECT_EQ(result.folder, repository() / "snapshots" / hub_.commit);
    for (const auto& [path, content] : hub_.files)
      EXPECT_TRUE(read_file(result.folder / path) == content) << path;
    EXPECT_EQ(read_file(repository() / "refs" / hub_.revision), hub_.commit);
    for (const auto& path : files_in(repository() / "blobs")) EXPECT_EQ(path.extension(), "") << path;
  }
  // Nothing that another program takes for a model.
  void expect_nothing() const {
    EXPECT_FALSE(std::filesystem::exists(repository() / "refs"));
    EXPECT_FALSE(std::filesystem::exists(blob("model.safetensors")));
  }

  Scratch scratch_;
  FakeHub hub_;
  std::vector<std::string> messages_;
};

}  // namespace qkv::testing
