#include "qkv/serve/http/form.h"

#include <algorithm>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/serve/http/url.h"

namespace qkv::serve {
namespace {

using FormFields = UrlFields;

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return result;
}

// The value of a header's parameter: name="x" or name=x. A name within quotes is none.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  std::string part;  // without spaces outside of quotes
  bool quoted = false, first = true;
  const auto value = [&]() -> std::optional<std::string> {
    const size_t equals = part.find('=');
    if (first || quoted || equals == std::string::npos || in_lower_case(part.substr(0, equals)) != name)
      return std::nullopt;
    std::string found = part.substr(equals + 1);
    if (found.size() >= 2 && found.starts_with('"') && found.ends_with('"'))
      found = found.substr(1, found.size() - 2);
    return found;
  };
  for (const char letter : header) {
    if (letter == '"') quoted = !quoted;
    if (!quoted && (letter == ' ' || letter == '\t')) continue;
    if (quoted || letter != ';') {
      part += letter;
      continue;
    }
    if (auto found = value()) return found;
    part.clear();
    first = false;
  }
  return value();
}

FormFields parse_multipart(std::string_view body, const std::string& boundary) {
  if (boundary.empty() || boundary.size() > 70)
    throw DataError("form: expected a boundary of 1 to 70 characters in Content-Type");
  const std::string delimiter = concat("\r\n--", boundary);
  FormFields fields;
  // The first delimiter may begin the body.
  const std::string first = delimiter.substr(2);
  size_t at = body.starts_with(first) ? first.size() : body.find(delimiter);
  if (at == std::string_view::npos) throw DataError("form: expected a part, found no boundary");
  if (!body.starts_with(first)) at += delimiter.size();
  while (true) {
    std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) return fields;
    if (!rest.starts_with("\r\n")) throw DataError("form: expected a line break after a boundary");
    const size_t header_end = rest.find("\r\n\r\n");
    if (header_end == std::string_view::npos)
      throw DataError("form: expected a blank line after a part's header");
    const size_t part_end = body.find(delimiter, at + header_end + 2);
    if (part_end == std::string_view::npos) throw DataError("form: expected a boundary after the last part");
    const std::string_view header = rest.substr(2, header_end);
    std::optional<std::string> name;
    for (size_t line = 0; line < header.size();) {
      const size_t end = std::min(header.find("\r\n", line), header.size());
      const std::string_view field = header.substr(line, end - line);
      if (in_lower_case(field.substr(0, 20)) == "content-disposition:") name = parameter(field, "name");
      line = end + 2;
    }
    if (!name) throw DataError("form: expected a name in each part's Content-Disposition, found none");
    const size_t begin = at + header_end + 4;
    std::string value = begin > part_end ? "" : std::string(body.substr(begin, part_end - begin));
    const auto known = fields.find(*name);
    if (known != fields.end() && name->ends_with("[]")) value = concat(known->second, ",", value);
    fields.insert_or_assign(*name, std::move(value));
    at = part_end + delimiter.size();
  }
}

}  // namespace

bool is_form(const HttpRequest& request) {
  const std::string type = in_lower_case(request.header("Content-Type"));
  return type.starts_with("application/x-www-form-urlencoded") || type.starts_with("multipart/form-data");
}

FormFields parse_form(const HttpRequest& request) {
  const std::string_view type = request.header("Content-Type");
  const std::string lower = in_lower_case(type);
  if (lower.starts_with("application/x-www-form-urlencoded")) {
    auto fields = parse_url_fields(request.body, ControlCharacters::allowed);
    if (!fields) throw DataError("form: expected two hexadecimal digits after each '%', found others");
    return std::move(*fields);
  }
  if (!lower.starts_with("multipart/form-data"))
    throw DataError(concat("Content-Type: expected multipart/form-data, found '", type, "'"));
  return parse_multipart(request.body, parameter(type, "boundary").value_or(""));
}

}  // namespace qkv::serve
