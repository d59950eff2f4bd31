#pragma once
// A model on a hub of the tests: the parts of its API that huggingface_hub's snapshot_download uses.

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "qkv/hub/digest.h"
#include "tests/hub/http_server.h"

namespace qkv::testing {

class FakeHub {
 public:
  // Text of that many bytes, without periods.
  static std::string content(size_t bytes, uint32_t seed = 1) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>('a' + ((seed = seed * 1664525 + 1013904223) >> 24) % 26);
    return text;
  }

  std::string id = "org/tiny", revision = "main", commit = std::string(39, '0') + "1";
  std::map<std::string, std::string> files{{"config.json", "{\"a\": 1}"},
                                           {"model.safetensors", content(100'000)}};
  std::set<std::string> lfs{"model.safetensors"};
  std::string storage;  // the address of the server with the files of LFS; empty: this one
  size_t page = 1000;   // files in a page of the list
  // Answers instead of the hub, if it returns a reply.
  std::function<std::optional<Reply>(const Request&)> instead;

  std::string checksum(const std::string& path) const {
    hub::HubFile file{.path = path,
                      .bytes = std::ssize(files.at(path)),
                      .checksum = std::string(lfs.contains(path) ? 64 : 40, '0')};
    hub::Digest digest(file);
    digest.add(files.at(path));
    return digest.value();
  }

  Reply operator()(const Request& request) const {
    if (instead)
      if (const std::optional<Reply> reply = instead(request)) return *reply;
    const std::string& target = request.target;
    const std::string api = "/api/models/" + id, resolve = "/" + id + "/resolve/" + commit + "/";
    if (target == api + "/revision/" + revision) return {.body = nlohmann::json{{"sha", commit}}.dump()};
    if (target.starts_with(api + "/revision/")) return refusal(404, "RevisionNotFound");
    if (target.starts_with(api + "/tree/" + commit)) return tree(request);
    if (target.starts_with(resolve)) return resolved(request, target.substr(resolve.size()));
    if (target.starts_with("/lfs/")) {
      for (const std::string& path : lfs)
        if (checksum(path) == target.substr(5)) return ranged(request, files.at(path));
    }
    return refusal(404, "RepoNotFound");
  }

  static Reply refusal(int status, const std::string& code, const std::string& message = {}) {
    Reply reply{.status = status, .headers = {{"X-Error-Code", code}}, .body = "no"};
    if (!message.empty()) reply.headers.emplace_back("X-Error-Message", message);
    return reply;
  }

  // The rest of a content from the byte that the request names.
  static Reply ranged(const Request& request, const std::string& content) {
    const std::string range = request.header("range");
    if (range.empty()) return {.body = content};
    const size_t from = std::stoul(range.substr(6));
    return {.status = 206,
            .headers = {{"Content-Range", "bytes " + std::to_string(from) + "-" +
                                              std::to_string(content.size() - 1) + "/" +
                                              std::to_string(content.size())}},
            .body = content.substr(from)};
  }

 private:
  Reply tree(const Request& request) const {
    const size_t cursor = request.target.find("&cursor=");
    const size_t first = cursor == std::string::npos ? 0 : std::stoul(request.target.substr(cursor + 8));
    nlohmann::json list = nlohmann::json::array();
    size_t number = 0;
    for (const auto& [path, content] : files) {
      if (number++ < first || list.size() == page) continue;
      nlohmann::json file{
          {"type", "file"}, {"path", path}, {"size", content.size()}, {"oid", std::string(40, 'f')}};
      if (lfs.contains(path)) {
        file["lfs"] = {{"oid", checksum(path)}, {"size", content.size()}, {"pointerSize", 134}};
      } else {
        file["oid"] = checksum(path);
      }
      list.push_back(file);
    }
    list.push_back({{"type", "directory"}, {"path", "onnx"}, {"size", 0}, {"oid", std::string(40, 'e')}});
    Reply reply{.body = list.dump()};
    if (first + page < files.size()) {
      reply.headers.emplace_back("Link", "</api/models/" + id + "/tree/" + commit +
                                             "?recursive=true&cursor=" + std::to_string(first + page) +
                                             ">; rel=\"next\"");
    }
    return reply;
  }

  Reply resolved(const Request& request, const std::string& path) const {
    const auto found = files.find(path);
    if (found == files.end()) return refusal(404, "EntryNotFound");
    const std::string sum = checksum(path);
    if (!lfs.contains(path)) {
      Reply reply = ranged(request, found->second);
      reply.headers.insert(reply.headers.end(), {{"X-Repo-Commit", commit}, {"ETag", "\"" + sum + "\""}});
      return reply;
    }
    return {.status = 302,
            .headers = {{"X-Repo-Commit", commit},
                        {"X-Linked-ETag", "\"" + sum + "\""},
                        {"X-Linked-Size", std::to_string(found->second.size())},
                        {"Location", storage + "/lfs/" + sum}},
            .body = "elsewhere"};
  }
};

}  // namespace qkv::testing
