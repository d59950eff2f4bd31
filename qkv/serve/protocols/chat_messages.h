#pragma once
// The messages of OpenAI's chats: texts, images and calls of tools.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/pipelines/chat.h"
#include "qkv/serve/work/served_model.h"

namespace qkv::serve {

// A PNG or JPEG file in a message, and its place for messages.
struct ImageFile {
  std::string bytes, name;
};

struct ChatMessages {
  std::vector<pipelines::ChatMessage> messages;
  std::vector<ImageFile> images = {};  // in the order of the messages
};

// Reads "messages". `continued`: the answer continues the last one. Throws DataError naming the place of what
// is unknown, of images where the model reads none, and of more than it has room for.
ChatMessages messages_of(const JsonValue& given, bool continued, const ServedModel& model);

// The bytes of a URL such as "data:image/png;base64,iVBO...". Nothing for another one.
std::optional<std::string> bytes_of_data_url(std::string_view url);

}  // namespace qkv::serve
