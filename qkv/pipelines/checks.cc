#include "qkv/pipelines/checks.h"

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/pipelines/lines.h"

namespace qkv::pipelines {

std::string text_error(std::string_view text) {
  if (std::ssize(text) > kMaxTextBytes)
    return concat("expected at most ", kMaxTextBytes, " bytes, found ", text.size());
  const auto bad = first_bad_utf8(text);
  return bad ? concat("expected UTF-8, found a malformed character at byte ", *bad) : "";
}

void require_text(std::string_view name, std::string_view text) {
  if (const std::string error = text_error(text); !error.empty()) throw UsageError(concat(name, ": ", error));
}

std::string length_error(int64_t tokens, std::optional<int64_t> limit, const char* of) {
  if (!limit || tokens <= *limit) return "";
  return concat("expected at most ", *limit, " ", of, ", found ", tokens);
}

std::string ids_error(std::span<const int32_t> ids, int64_t vocabulary, int64_t rows) {
  for (const int32_t id : ids) {
    if ((id < 0 && --rows < 0) || id >= vocabulary)
      return concat("expected token ids from 0 to ", vocabulary - 1, " (the model's), found ", id);
  }
  return "";
}

std::string message_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.what();
  }
}

}  // namespace qkv::pipelines
