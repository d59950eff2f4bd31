#pragma once
// The JSON texts that a JSON Schema (draft 2020-12) allows, as a grammar.

#include <cstdint>
#include <string>

#include "qkv/grammar/grammar.h"

namespace qkv::grammar {

// The grammar describes objects, arrays, strings, numbers, true, false and null in UTF-8. Members of an
// object come in the order of "properties". Between its parts a text may have a space, or a line end and up
// to 20 spaces. Numbers have up to 16 digits before and after the point, and an exponent of up to 2, which
// doubles have.
//
// Keywords: type, properties, required, additionalProperties (true or false beside properties, as no others
// are written; alone, of all values), items, prefixItems, minItems, maxItems, minLength, maxLength, minimum,
// maximum, exclusiveMinimum and exclusiveMaximum of integers, enum, const, anyOf, oneOf (as anyOf), allOf of
// one schema, $ref within the document, $defs, definitions; title, description, format and other annotations
// are ignored. Throws DataError naming the place for another keyword, and for a schema that is malformed or
// too large; Machine refuses one that no text fits. `name` begins messages.
Grammar grammar_of_json_schema(const std::string& schema, const std::string& name);

// Likewise as a rule of a grammar, whose number is returned. After an error the grammar has rules of no use.
int32_t add_json_schema(Grammar& grammar, const std::string& schema, const std::string& name);

}  // namespace qkv::grammar
