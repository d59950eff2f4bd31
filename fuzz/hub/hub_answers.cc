// Reads what a hub answers: lists of files, commits, links to further pages, redirects; and names of models.

#include <stdexcept>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/hub/cache.h"
#include "qkv/hub/choice.h"
#include "qkv/hub/listing.h"
#include "qkv/hub/url.h"

namespace qkv::fuzz {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void read_files(std::string_view bytes) {
  const std::vector<hub::HubFile> files = hub::read_tree(bytes, "list");
  for (const hub::HubFile& file : files)
    require(hub::is_safe_path(file.path) && file.bytes >= 0, "a safe file");
  const hub::Choice choice = hub::choose(files, {}, {"[*", "a/"});
  require(choice.taken.size() + choice.skipped.size() == files.size(), "each file once");
}

void read_addresses(std::string_view bytes) {
  static const hub::Url base = hub::parse_url("https://a/b/c");
  for (const hub::Url& url :
       {hub::resolve_url(base, hub::next_page(bytes).value_or(std::string(bytes))), hub::parse_url(bytes)}) {
    // What a request line may have.
    require(url.target.find_first_of(" \r\n") == url.target.npos && url.port != 0, "a target without spaces");
    require(hub::parse_url(url.text()).text() == url.text(), "an address that is read again");
  }
}

void read(std::string_view bytes) {
  if (const auto name = hub::parse_model_name(bytes))
    require(hub::is_safe_path(hub::repository_folder_name(name->id)) && hub::is_safe_path(name->revision),
            "a folder");
  read_in_each_way({[&] { read_files(bytes); }, [&] { hub::read_commit(bytes, "commit"); },
                    [&] { read_addresses(bytes); }});
}

std::vector<std::string> seeds() {
  const std::string sha1(40, 'a');
  return {
      "[{\"type\":\"directory\",\"path\":\"1_Pooling\"},{\"type\":\"file\",\"path\":\"1_Pooling/"
      "config.json\","
      "\"size\":190,\"oid\":\"" +
          sha1 +
          "\"},{\"type\":\"file\",\"path\":\"model.safetensors\",\"size\":5,\"lfs\":"
          "{\"oid\":\"" +
          std::string(64, 'b') + "\",\"size\":90868376}}]",
      "{\"sha\":\"" + sha1 + "\"}", "<https://huggingface.co/api/models/a/tree/b?cursor=c>; rel=\"next\"",
      "https://user:password@[::1]:8080/a%20b?c=d#e", "org/name@refs/pr/1"};
}

}  // namespace

const Reader hub_answers{"hub_answers", read, seeds};

}  // namespace qkv::fuzz
