// Addresses, names of models, the environment, and the cache.

#include <gtest/gtest.h>

#include <cstdlib>

#include "qkv/base/error.h"
#include "qkv/hub/cache.h"
#include "qkv/hub/settings.h"
#include "qkv/hub/url.h"
#include "tests/support/environment.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::testing;
using namespace qkv::hub;
using namespace std::string_literals;

TEST(Url, IsReadByItsParts) {
  const Url url = parse_url("HTTPS://Hub.Example:8443/a%20b/c?d=e#fragment");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a%20b/c?d=e");
  EXPECT_EQ(url.text(), "https://hub.example:8443/a%20b/c?d=e");
  EXPECT_EQ(parse_url("http://a").text(), "http://a/");
  EXPECT_EQ(parse_url("http://a:80").origin(), "http://a");
  EXPECT_EQ(parse_url("http://a:443").origin(), "http://a:443");
  EXPECT_EQ(parse_url("https://a?x").target, "/?x");
  EXPECT_EQ(parse_url("http://[::1]:9/x").host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:9/x").origin(), "http://[::1]:9");
  EXPECT_EQ(parse_url("http://u%40x:p@proxy:3128").user_info, "u@x:p");
  EXPECT_EQ(parse_url("http://u:p@proxy:3128").origin(), "http://proxy:3128");
  EXPECT_EQ(parse_url("http://a/\xC3\xA9").target, "/%C3%A9");
}

TEST(Url, RefusesOthers) {
  for (const char* const wrong :
       {"", "a", "ftp://a/", "file:///etc/passwd", "http://", "http:///x", "http://a:0/", "http://a:65536/",
        "http://a:x/", "http://a b/", "http://a/\r\nX: y", "http://[::1/", "http://[::1]x/", "http://[z]/",
        "http://a\xC3\xA9/", "https://?x"}) {
    EXPECT_THROW(parse_url(wrong), DataError) << wrong;
  }
}

// RFC 3986, section 5.
TEST(Url, ResolvesReferences) {
  const Url base = parse_url("https://a:8/b/c?d");
  EXPECT_EQ(resolve_url(base, "http://e/f").text(), "http://e/f");
  EXPECT_EQ(resolve_url(base, "//e/f").text(), "https://e/f");
  EXPECT_EQ(resolve_url(base, "/f?g").text(), "https://a:8/f?g");
  EXPECT_EQ(resolve_url(base, "?g").text(), "https://a:8/b/c?g");
  EXPECT_EQ(resolve_url(base, "f").text(), "https://a:8/b/f");
  EXPECT_EQ(resolve_url(base, "/f?u=http://x/").text(), "https://a:8/f?u=http://x/");
  EXPECT_THROW(resolve_url(base, "ftp://e/"), DataError);
}

TEST(Url, IsEncoded) {
  EXPECT_EQ(encode_url("refs/pr/1", ""), "refs%2Fpr%2F1");
  EXPECT_EQ(encode_url("1_Pooling/a b?.json", "/"), "1_Pooling/a%20b%3F.json");
}

TEST(ModelNames, FollowTheRulesOfTheHub) {
  for (const char* const right :
       {"gpt2", "org/name", "Org-1/na_me.v2", "a/b@refs/pr/1", "_a/b_", "a@0123abcd"})
    EXPECT_TRUE(parse_model_name(right)) << right;
  for (const char* const wrong : {"",
                                  "/",
                                  "a/",
                                  "/a",
                                  "a/b/c",
                                  "./a",
                                  "../a",
                                  "a/..",
                                  "a--b",
                                  "a..b",
                                  ".a",
                                  "a.",
                                  "-a",
                                  "a-",
                                  "a.git",
                                  "a b",
                                  "a\\b",
                                  "org/name@",
                                  "org/name@../x",
                                  "org/name@a//b",
                                  "org/name@/a",
                                  "org/name@a\\b",
                                  "\xC3\xA9"})
    EXPECT_FALSE(parse_model_name(wrong)) << wrong;
  EXPECT_FALSE(parse_model_name(std::string(97, 'a')));
  const auto name = parse_model_name("org/name@refs/pr/1");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->id, "org/name");
  EXPECT_EQ(name->revision, "refs/pr/1");
  EXPECT_EQ(parse_model_name("org/name")->revision, "main");
  EXPECT_EQ(repository_folder_name("org/name"), "models--org--name");
  EXPECT_EQ(repository_folder_name("gpt2"), "models--gpt2");
}

TEST(SafePaths, StayInTheirFolder) {
  for (const char* const right :
       {"a", "a/b.json", "1_Pooling/config.json", "..a", "a..", ".gitattributes", "\xC3\xA9"})
    EXPECT_TRUE(is_safe_path(right)) << right;
  for (const char* const wrong : {"", "/", "/etc/passwd", "..", "../a", "a/..", "a/../../b", "./a", "a/.",
                                  "a//b", "a/", "a\\b", "..\\a", "C:\\a", "a\nb"})
    EXPECT_FALSE(is_safe_path(wrong)) << wrong;
  EXPECT_FALSE(is_safe_path(std::string("a\0b", 3)));
  EXPECT_FALSE(is_safe_path(std::string(256, 'a'))) << "no file system has such names";
}

// As huggingface_hub/constants.py.
TEST(HubSettings, AreThoseOfHuggingfaceHub) {
  Environment environment;
  environment.set({{"HOME", "/home/me"}});
  EXPECT_EQ(cache_folder(), "/home/me/.cache/huggingface/hub");
  environment.set({{"XDG_CACHE_HOME", "/xdg"}});
  EXPECT_EQ(cache_folder(), "/xdg/huggingface/hub");
  environment.set({{"HF_HOME", "~/hf"}});
  EXPECT_EQ(cache_folder(), "/home/me/hf/hub");
  environment.set({{"HUGGINGFACE_HUB_CACHE", "/old"}});
  EXPECT_EQ(cache_folder(), "/old");
  environment.set({{"HF_HUB_CACHE", "/new"}});
  EXPECT_EQ(cache_folder(), "/new");

  const HubSettings plain = HubSettings::from_environment();
  EXPECT_EQ(plain.endpoint, "https://huggingface.co");
  EXPECT_EQ(plain.token, "");
  EXPECT_FALSE(plain.offline);
  EXPECT_EQ(plain.timeout, std::chrono::seconds(10));
  environment.set({{"HF_ENDPOINT", "http://mirror:81/hf//"},
                   {"HF_HUB_OFFLINE", "yes"},
                   {"HF_HUB_DOWNLOAD_TIMEOUT", "3"}});
  const HubSettings set = HubSettings::from_environment();
  EXPECT_EQ(set.endpoint, "http://mirror:81/hf");
  EXPECT_TRUE(set.offline);
  EXPECT_EQ(set.timeout, std::chrono::seconds(3));
  environment.set({{"HF_ENDPOINT", "mirror"}});
  expect_throw<UsageError>("HF_ENDPOINT: address 'mirror'", [] { HubSettings::from_environment(); });
  environment.set({{"HF_ENDPOINT", ""}, {"HF_HUB_DOWNLOAD_TIMEOUT", "soon"}});
  expect_throw<UsageError>("HF_HUB_DOWNLOAD_TIMEOUT: expected whole seconds",
                           [] { HubSettings::from_environment(); });
}

TEST(HubSettings, TakeTheTokenFromTheEnvironmentOrAFile) {
  Environment environment;
  const Scratch scratch;
  environment.set({{"HF_HOME", scratch.path().string()}});
  EXPECT_EQ(HubSettings::from_environment().token, "");
  scratch.write("token", " hf_file\n");
  EXPECT_EQ(HubSettings::from_environment().token, "hf_file");
  environment.set({{"HF_TOKEN_PATH", scratch.write("other", "hf_other\r\n").string()}});
  EXPECT_EQ(HubSettings::from_environment().token, "hf_other");
  environment.set({{"HF_TOKEN", "hf_given"}});
  EXPECT_EQ(HubSettings::from_environment().token, "hf_given");
  environment.set({{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}});
  EXPECT_EQ(HubSettings::from_environment().token, "");
  environment.set({{"HF_HUB_DISABLE_IMPLICIT_TOKEN", ""}, {"HF_TOKEN", "a\r\nX-Other: b"}});
  expect_throw<UsageError>("HF_TOKEN: expected a token of printable characters",
                           [] { HubSettings::from_environment(); });
}

// As urllib.request.proxy_bypass_environment.
TEST(HubSettings, ChooseAProxy) {
  const auto origin = [](const Proxies& proxies, const char* url) {
    const std::optional<Url> proxy = proxies.proxy_for(parse_url(url));
    return proxy ? proxy->origin() : "none";
  };
  const Proxies proxies{
      .http = "http://plain:1", .https = "u:p@secure:2", .except = "local, .Example.org,hub.net:8443"};
  EXPECT_EQ(origin(proxies, "http://a/"), "http://plain:1");
  EXPECT_EQ(origin(proxies, "https://a/"), "http://secure:2");
  EXPECT_EQ(origin(proxies, "https://local/"), "none");
  EXPECT_EQ(origin(proxies, "https://notlocal/"), "http://secure:2");
  EXPECT_EQ(origin(proxies, "https://example.org/"), "none");
  EXPECT_EQ(origin(proxies, "https://a.EXAMPLE.org/"), "none");
  EXPECT_EQ(origin(proxies, "https://hub.net/"), "http://secure:2");
  EXPECT_EQ(origin(proxies, "https://hub.net:8443/"), "none");
  EXPECT_EQ(origin({.http = "http://x:1", .https = "", .except = "*"}, "http://a/"), "none");
  EXPECT_EQ(origin({.http = "http://x:1", .https = "", .except = ""}, "https://a/"), "none");
  for (const char* const wrong : {"socks5://user:secret@x:1", "http://user:secret@x:port"}) {
    const std::string message = message_of<UsageError>(
        [&] { Proxies{.http = "", .https = wrong, .except = ""}.proxy_for(parse_url("https://a/")); });
    expect_contains(message, "HTTPS_PROXY: expected a proxy http://HOST:PORT");
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
}

TEST(Cache, FindsWhatPythonDownloaded) {
  Environment environment;
  const Scratch scratch;
  const std::string first(40, 'a'), second(40, 'b');
  const std::string repository = "models--org--name/";
  // As huggingface_hub writes it: a ref without a newline.
  scratch.write(repository + "refs/main", first);
  scratch.write(repository + "refs/refs/pr/1", second);
  for (const std::string& commit : {first, second})
    scratch.write(repository + "snapshots/" + commit + "/config.json", "{}");
  environment.set({{"HF_HUB_CACHE", scratch.path().string()}});
  const std::string snapshots = (scratch / repository).string() + "snapshots/";
  EXPECT_EQ(model_folder("org/name"), snapshots + first);
  EXPECT_EQ(model_folder("org/name@main"), snapshots + first);
  EXPECT_EQ(model_folder("org/name@refs/pr/1"), snapshots + second);
  EXPECT_EQ(model_folder("org/name@" + second), snapshots + second);
  const auto message = [](const std::string& name) {
    return message_of<IoError>([&] { model_folder(name); });
  };
  expect_parts(message("org/name@v2"),
               {"model org/name@v2: there is no such folder, and none in the cache ", scratch.path().string(),
                " (there: ", "main", "refs/pr/1", "; qkv pull org/name --revision v2 downloads it"});
  expect_parts(message("org/other"), {"; qkv pull org/other downloads it"});
  EXPECT_EQ(message("org/other").find("there:"), std::string::npos);
  EXPECT_EQ(model_folder("org/name/config.json"), snapshots + first + "/config.json");
  for (const std::string& path :
       {"org/name/other.gguf"s, "org/name/../config.json"s, "org/other/config.json"s})
    EXPECT_EQ(model_folder(path), path) << "a path that is not there";
  scratch.write(repository + "refs/main", "../../../secret");
  expect_throw<DataError>("refs/main: expected a commit of 40 digits", [] { model_folder("org/name"); });
}

TEST(Cache, LeavesPathsAsTheyAre) {
  Environment environment;
  const Scratch scratch;
  environment.set({{"HF_HUB_CACHE", scratch.path().string()}});
  const std::string folder = scratch.write("models--org--name/x", "").parent_path().string();
  for (const std::string& path :
       {folder, "./nowhere"s, "/nowhere/else"s, "../nowhere"s, "a/b/c"s, "nowhere/"s, ""s})
    EXPECT_EQ(model_folder(path), path);
}

}  // namespace
