#include "qkv/hub/listing.h"

#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/json.h"
#include "qkv/hub/cache.h"

namespace qkv::hub {
namespace {

std::string read_digits(const JsonValue& value, size_t digits) {
  std::string text = value.string();
  if (!is_hexadecimal(text, digits)) value.fail(concat(digits, " hexadecimal digits"));
  return text;
}

}  // namespace

std::string read_commit(std::string_view json, const std::string& name) {
  return read_digits(parse_json(json, name)["sha"], 40);
}

std::vector<HubFile> read_tree(std::string_view json, const std::string& name) {
  std::vector<HubFile> files;
  for (const JsonValue& entry : parse_json(json, name).items()) {
    if (entry["type"].string() != "file") continue;
    HubFile file{.path = entry["path"].string()};
    if (!is_safe_path(file.path)) entry["path"].fail("a file in the model's folder");
    const std::optional<JsonValue> lfs = entry.find("lfs");
    file.bytes = (lfs ? *lfs : entry)["size"].integer(0, std::numeric_limits<int64_t>::max() / 2);
    file.checksum = lfs ? read_digits((*lfs)["oid"], 64) : read_digits(entry["oid"], 40);
    files.push_back(std::move(file));
  }
  return files;
}

std::optional<std::string> next_page(std::string_view link) {
  while (true) {
    const size_t begin = link.find('<'), end = link.find('>', begin);
    if (begin == link.npos || end == link.npos) return std::nullopt;
    const std::string_view target = link.substr(begin + 1, end - begin - 1);
    link.remove_prefix(end + 1);
    const std::string_view parameters = link.substr(0, link.find('<'));
    if (parameters.find("rel=\"next\"") != parameters.npos || parameters.find("rel=next") != parameters.npos)
      return std::string(target);
  }
}

}  // namespace qkv::hub
