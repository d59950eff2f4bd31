#include "qkv/hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "qkv/base/error.h"
#include "qkv/base/files.h"

namespace qkv::hub {
namespace {

// The first of these variables that is set and not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (const char* const value = std::getenv(name); value && *value) return value;
  return {};
}

bool is_true(const std::string& value) {
  std::string upper = value;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// "~/x" is in the user's home.
std::filesystem::path path_of(const std::string& text) {
  if (text != "~" && !text.starts_with("~/")) return text;
  return variable({"HOME"}) + text.substr(1);
}

std::filesystem::path home_folder() {
  if (const std::string home = variable({"HF_HOME"}); !home.empty()) return path_of(home);
  const std::string cache = variable({"XDG_CACHE_HOME"});
  return path_of(cache.empty() ? "~/.cache" : cache) / "huggingface";
}

std::string without_spaces(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string read_token() {
  if (is_true(variable({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return {};
  std::string name = "HF_TOKEN";
  std::string token = without_spaces(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty()) {
    const std::string given = variable({"HF_TOKEN_PATH"});
    const std::filesystem::path file = given.empty() ? home_folder() / "token" : path_of(given);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) return {};
    name = file.string();
    token = without_spaces(read_file(file));
  }
  if (std::ranges::any_of(token, [](unsigned char c) { return c <= 0x20 || c >= 0x7F; }))
    throw UsageError(name + ": expected a token of printable characters, found others");
  return token;
}

std::string trimmed_lower(std::string_view text) {
  std::string result = without_spaces(std::string(text));
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

std::optional<Url> Proxies::proxy_for(const Url& url) const {
  const std::string& proxy = url.tls ? https : http;
  if (proxy.empty()) return std::nullopt;
  std::string_view rest = except;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string name = trimmed_lower(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    name.erase(0, name.find_first_not_of('.'));
    if (name.empty()) continue;
    if (name == "*") return std::nullopt;
    for (const std::string& host : {url.host, url.authority()})
      if (host == name || host.ends_with("." + name)) return std::nullopt;
  }
  const std::string text = proxy.find("://") == proxy.npos ? "http://" + proxy : proxy;
  if (!trimmed_lower(text).starts_with("http://")) {
    throw UsageError(concat(url.tls ? "HTTPS_PROXY" : "HTTP_PROXY",
                            ": expected a proxy http://HOST:PORT, found ", text.substr(0, text.find("://")),
                            "://"));
  }
  try {
    return parse_url(text);
  } catch (const DataError&) {  // whose message may have a password
    throw UsageError(concat(url.tls ? "HTTPS_PROXY" : "HTTP_PROXY", ": expected a proxy http://HOST:PORT"));
  }
}

std::filesystem::path cache_folder() {
  const std::string given = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  return std::filesystem::absolute(given.empty() ? home_folder() / "hub" : path_of(given));
}

HubSettings HubSettings::from_environment() {
  HubSettings settings;
  if (const std::string endpoint = variable({"HF_ENDPOINT"}); !endpoint.empty()) {
    settings.endpoint = endpoint.substr(0, endpoint.find_last_not_of('/') + 1);
    try {
      parse_url(settings.endpoint);
    } catch (const DataError& error) {
      throw UsageError(concat("HF_ENDPOINT: ", error.what()));
    }
  }
  settings.token = read_token();
  settings.cache = cache_folder();
  settings.offline = is_true(variable({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  if (const std::string text = variable({"HF_HUB_DOWNLOAD_TIMEOUT"}); !text.empty()) {
    int seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > 86'400)
      throw UsageError(
          concat("HF_HUB_DOWNLOAD_TIMEOUT: expected whole seconds from 1 to 86400, found '", text, "'"));
    settings.timeout = std::chrono::seconds(seconds);
  }
  settings.proxies = {.http = variable({"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}),
                      .https = variable({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}),
                      .except = variable({"no_proxy", "NO_PROXY"})};
  return settings;
}

}  // namespace qkv::hub
