#pragma once
// Variables of the environment for a test, restored at its end.

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace qkv::testing {

// Begins without the variables that qkv pull reads.
class Environment {
 public:
  Environment() {
    for (const char* const name : {"HF_ENDPOINT",
                                   "HF_HOME",
                                   "HF_HUB_CACHE",
                                   "HUGGINGFACE_HUB_CACHE",
                                   "XDG_CACHE_HOME",
                                   "HF_TOKEN",
                                   "HUGGING_FACE_HUB_TOKEN",
                                   "HF_TOKEN_PATH",
                                   "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                                   "HF_HUB_OFFLINE",
                                   "TRANSFORMERS_OFFLINE",
                                   "HF_HUB_DOWNLOAD_TIMEOUT",
                                   "http_proxy",
                                   "HTTP_PROXY",
                                   "https_proxy",
                                   "HTTPS_PROXY",
                                   "all_proxy",
                                   "ALL_PROXY",
                                   "no_proxy",
                                   "NO_PROXY",
                                   "SSL_CERT_FILE",
                                   "SSL_CERT_DIR"})
      set({{name, ""}});
    set({{"HOME", "/nonexistent"}});
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // An empty value removes the variable.
  void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* const present = std::getenv(name.c_str());
      before_.emplace(name, present ? std::optional<std::string>(present) : std::nullopt);
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace qkv::testing
