#pragma once
// Bodies of HTML forms: application/x-www-form-urlencoded and multipart/form-data (RFC 7578).

#include <map>
#include <string>
#include <string_view>

#include "qkv/serve/http/message.h"

namespace qkv::serve {

// The fields of a form; the last value of a repeated name, or, if that ends in "[]", all of them with commas
// between. A file's value is its content. Throws DataError
// for a malformed body, and for a Content-Type that is neither.
std::map<std::string, std::string, std::less<>> parse_form(const HttpRequest& request);

// Whether the Content-Type is that of a form.
bool is_form(const HttpRequest& request);

}  // namespace qkv::serve
