#include "qkv/serve/protocols/chat_messages.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/pipelines/images/prompt_images.h"
#include "qkv/pipelines/tools/tools.h"

namespace qkv::serve {
namespace {

constexpr std::array kRoles{"system", "developer", "user", "assistant", "tool"};

using OnlyFields = std::initializer_list<std::string_view>;

void require_only(const JsonValue& object, const OnlyFields& known, const std::string& expected) {
  object.members([&](std::string_view name, const JsonValue& value) {
    if (std::ranges::find(known, name) == known.end()) value.fail(expected);
  });
}

class Reader {
 public:
  explicit Reader(const ServedModel& model) : model_(model) {}

  pipelines::ChatMessage message(const JsonValue& given) {
    const std::optional<pipelines::CallFormat>& format = model_.pipelines().calls;
    const std::string role = given["role"].string();
    if (std::ranges::find(kRoles, role) == kRoles.end()) {
      std::string roles;
      for (const char* one : kRoles) roles += concat(roles.empty() ? "" : ", ", one);
      given["role"].fail(concat("one of ", roles));
    }
    const std::optional<JsonValue> calls = given.find("tool_calls");
    if (calls && !calls->is_array()) calls->fail("a list of calls");
    const bool has_calls = calls && calls->size() > 0;
    if (has_calls && role != "assistant") calls->fail("none, as only an assistant calls tools");
    if (has_calls && !format) calls->fail("none, as the model's chat template shows no calls of tools");
    pipelines::ChatMessage message{role, ""};
    if (!has_calls || given.has("content")) read_content(given["content"], message);
    if (has_calls)
      message = pipelines::message_with_calls(*format, message.content, pipelines::tool_calls_of(*calls));
    given.members([&](std::string_view name, const JsonValue& value) {
      // Clients send an earlier answer back with its empty fields.
      const bool is_neutral = value.is_null() || (value.is_array() && value.size() == 0);
      if (name == "role" || name == "content" || name == "tool_calls" || is_neutral) return;
      if (name != "name" && name != "tool_call_id" && name != "reasoning_content")
        value.fail("none, as it is not supported");
      if (!value.is_string()) value.fail("a text");
      message.fields.emplace_back(name, value);
    });
    return message;
  }

  std::vector<ImageFile> images;

 private:
  // A text, or a list of parts. Texts alone are joined by line ends, as in vLLM; beside images, the template
  // gets the list.
  void read_content(const JsonValue& content, pipelines::ChatMessage& message) {
    if (content.is_string()) {
      message.content = content.string();
      return;
    }
    if (!content.is_array()) content.fail("a text or a list of parts of type \"text\" or \"image_url\"");
    std::string parts;
    const size_t before = images.size();
    for (const JsonValue& part : content.items()) {
      const std::string type = part["type"].string();
      if (type == "image_url") {
        read_image(part, message.role);
      } else {
        if (type != "text") part["type"].fail("\"text\" or \"image_url\", as no other part is supported");
        require_only(part, {"type", "text"}, "none, as a part of type \"text\" has only a text");
        if (!message.content.empty()) message.content += '\n';
        message.content += part["text"].string();
      }
      parts += concat(parts.empty() ? "[" : ", ",
                      type == "text"
                          ? concat(R"({"type": "text", "text": )", quoted_json(part["text"].string()), "}")
                          : std::string(R"({"type": "image"})"));
    }
    if (images.size() > before) message.fields.emplace_back("content", parse_json(parts + "]", "content"));
  }

  void read_image(const JsonValue& part, const std::string& role) {
    const auto& reader = model_.pipelines().generator->model();
    if (!reader.images) part["type"].fail("\"text\", as the model reads no images");
    if (role != "user") part["type"].fail("\"text\", as only a user's messages have images");
    require_only(part, {"type", "image_url"}, "none, as a part of type \"image_url\" has only that");
    const JsonValue image = part["image_url"];
    require_only(image, {"url", "detail"}, "none, as an image has only \"url\" and \"detail\"");
    const std::string url = image["url"].string();
    auto bytes = bytes_of_data_url(url);
    if (!bytes && url.starts_with("data:image/"))
      throw DataError(concat(image["url"].path(),
                             ": expected \";base64,\" and letters of base64, padded with "
                             "\"=\" to a multiple of 4, found others in ",
                             url.size(), " bytes"));
    if (!bytes) {
      throw DataError(concat(image["url"].path(),
                             ": expected data:image/png;base64,... or data:image/jpeg;base64,..., "
                             "as the server loads no addresses, found ",
                             repair_utf8(url.substr(0, 32)).text));
    }
    if (std::ssize(images) == reader.images->most_images())
      part.fail(concat("at most ", images.size(), " images, which the model has positions for"));
    images.push_back({std::move(*bytes), image["url"].path()});
  }

  const ServedModel& model_;
};

}  // namespace

std::optional<std::string> bytes_of_data_url(std::string_view url) {
  constexpr std::string_view kData = "data:image/", kBase64 = ";base64,";
  const size_t comma = url.find(kBase64);
  if (!url.starts_with(kData) || comma == url.npos) return std::nullopt;
  url.remove_prefix(comma + kBase64.size());
  if (url.empty() || url.size() % 4 != 0 || url.size() > INT_MAX) return std::nullopt;
  std::string bytes(url.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(url.data()), static_cast<int>(url.size())) < 0)
    return std::nullopt;
  for (int padding = 0; padding < 2 && url.ends_with('='); ++padding) {
    url.remove_suffix(1);
    bytes.pop_back();
  }
  return bytes;
}

ChatMessages messages_of(const JsonValue& given, bool continued, const ServedModel& model) {
  if (!given.is_array() || given.size() == 0) given.fail("a list of at least one message");
  Reader reader(model);
  ChatMessages all;
  for (const JsonValue& one : given.items()) all.messages.push_back(reader.message(one));
  all.images = std::move(reader.images);
  if (continued && given.items().back().has("tool_calls") && given.items().back()["tool_calls"].size() > 0)
    given.items().back()["tool_calls"].fail("none, as the answer continues the last message");
  return all;
}

}  // namespace qkv::serve
