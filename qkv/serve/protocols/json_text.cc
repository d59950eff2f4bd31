#include "qkv/serve/protocols/json_text.h"

#include <openssl/evp.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "qkv/base/json.h"
#include "qkv/base/utf8.h"

namespace qkv::serve {

std::string dump(const ResponseJson& object) {
  return object.dump(-1, ' ', false, ResponseJson::error_handler_t::replace);
}

std::string json_string(std::string_view text) { return quoted_json(repair_utf8(text).text); }

std::string json_list(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const std::string& value : values) {
    if (text.size() > 1) text += ',';
    text += value;
  }
  return text + ']';
}

std::string json_floats(const std::vector<float>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const float value : values) list.push_back(decimal(value));
  return list.dump();
}

std::string base64_floats(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  const auto bytes = static_cast<int>(values.size() * sizeof(float));
  std::vector<unsigned char> from(static_cast<size_t>(bytes)), to(static_cast<size_t>(bytes + 2) / 3 * 4 + 1);
  if (bytes > 0) std::memcpy(from.data(), values.data(), from.size());
  const int length = EVP_EncodeBlock(to.data(), from.data(), bytes);
  return {to.begin(), to.begin() + length};
}

void add_bytes(size_t& response, size_t part, size_t most) {
  response += part;
  if (response > most) {
    throw HttpError(400, concat("response: expected at most ", most,
                                " bytes, found more; ask for fewer texts or results"));
  }
}

void require_short(const char* field, const std::string& text, size_t texts) {
  if (text.size() * texts <= kMaxRepeatedBytes) return;
  throw HttpError(400, concat(field, ": expected at most ", kMaxRepeatedBytes / texts, " bytes with ", texts,
                              " texts, found ", text.size()));
}

void require_result(const std::string& error, const char* field, size_t item, bool is_list) {
  if (error.empty()) return;
  throw HttpError(400, is_list ? concat(field, "[", item, "]: ", error) : concat(field, ": ", error));
}

}  // namespace qkv::serve
