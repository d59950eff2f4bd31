#pragma once
// JSON schemas in a short notation, for the fields of requests and answers:
//   string integer number boolean null any object    types
//   "word"  true  false                              that value alone
//   [T]  {a: T, b?: T}  {*: T}                       arrays; objects, b may be missing; objects with any
//   names A | B                                            either T(1..64)  T(1..) limits: of a number, of
//   the length of a text or an array T 'text'                                         a description Name a
//   schema among the components of the document

#include <string_view>

#include "qkv/serve/protocols/json_text.h"

namespace qkv::serve {

// Throws std::logic_error for text that is not of this notation.
ResponseJson schema_of(std::string_view notation);

// The schema with null as a further value.
ResponseJson nullable(ResponseJson schema);

}  // namespace qkv::serve
