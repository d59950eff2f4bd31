#pragma once
// Labels in files of JSON lines.

#include <string>

#include "qkv/base/field_text.h"
#include "qkv/base/json.h"

namespace qkv::data {

// A label: a text, or a number as text. Throws DataError naming the member for others.
inline std::string label_text(const JsonValue& value) {
  if (value.is_string()) return value.string();
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_number()) return field_text(value.number());
  value.fail("a label: a text or a number");
}

}  // namespace qkv::data
