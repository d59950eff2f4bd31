#pragma once

#include "qkv/jinja/library/library.h"

namespace qkv::jinja {

// transformers' tojson: json.dumps() with ensure_ascii=False by default.
Value to_json(Run& run, const Value& value, const Arguments& arguments);

}  // namespace qkv::jinja
