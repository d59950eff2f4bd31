#pragma once
// Bodies of HTML forms: application/x-www-form-urlencoded and multipart/form-data (RFC 7578).

#include <map>
#include <string>
#include <string_view>

#include "qkv/serve/http/message.h"

namespace qkv::serve {

// The fields of a form. Of a repeated name, the last value counts; if the name ends in "[]", the values are
// joined by commas. A file's value is its content. Throws DataError for a malformed body, and for another
// Content-Type.
std::map<std::string, std::string, std::less<>> parse_form(const HttpRequest& request);

// Whether the Content-Type is that of a form.
bool is_form(const HttpRequest& request);

}  // namespace qkv::serve
