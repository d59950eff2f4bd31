#pragma once
// What huggingface_hub reads from the environment, with the same names, defaults and precedence.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "qkv/hub/url.h"

namespace qkv::hub {

// HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, or in lower case, which counts first.
struct Proxies {
  std::string http, https;
  std::string except;  // hosts or domains, separated by commas; "*": all

  // The proxy for a server. Throws UsageError for one that is not reached over HTTP.
  std::optional<Url> proxy_for(const Url& url) const;
};

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT
  std::string token;                                // HF_TOKEN, or the file HF_HOME/token; empty: none
  std::filesystem::path
      cache;  // HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub
  bool offline = false;                       // HF_HUB_OFFLINE
  std::chrono::milliseconds timeout{10'000};  // of silence: HF_HUB_DOWNLOAD_TIMEOUT, in seconds
  Proxies proxies;
  // Attempts without progress that are repeated, and the first pause between them, which doubles up to
  // eightfold.
  int retries = 5;
  std::chrono::milliseconds pause{1'000};

  // Throws UsageError naming the variable with an invalid value.
  static HubSettings from_environment();
};

// The cache by itself, which needs no valid token or endpoint.
std::filesystem::path cache_folder();

}  // namespace qkv::hub
