#pragma once
// Tools that an answer may call: the grammar of its calls.

#include <string>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/pipelines/output_grammars.h"
#include "qkv/pipelines/tools/call_format.h"

namespace qkv::pipelines {

struct Tool {
  std::string name;             // of letters, digits, _, . and -
  std::string parameters = {};  // a JSON schema of objects; empty: {} is the only one
  bool strict = false;  // a schema that is not supported, too large or not one of objects is an error, not
                        // any object
};

// Reads [{"type": "function", "function": {"name", "description", "parameters", "strict"}}, ...]. Throws
// DataError naming the place for another form, for a name of other characters, of more than 64 or that
// another tool has, for parameters that are no objects, and for more than 128 tools.
std::vector<Tool> tools_of(const JsonValue& list);

struct ToolChoice {
  bool required = false;  // the answer is one call or more; otherwise a text, calls, or both
  bool parallel = true;   // several calls, if the format has them
};

// Answers that may call these tools. OutputGrammar::make throws DataError for a strict tool's schema.
OutputGrammar tools_grammar(const CallFormat& format, const std::vector<Tool>& tools,
                            const ToolChoice& choice);

}  // namespace qkv::pipelines
