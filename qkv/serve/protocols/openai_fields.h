#pragma once
// Fields that several of OpenAI's routes have.

#include <vector>

#include "qkv/serve/protocols/completion.h"
#include "qkv/serve/protocols/fields.h"

namespace qkv::serve {

inline constexpr const char* kPrompt =
    "string | [string](1..2048) | [integer(0..2147483647)](1..) | [[integer(0..2147483647)](1..)](1..2048) "
    "'A text, texts, token ids, or lists of token ids.'";

// A text, a list of texts, a list of token ids, or a list of such lists.
std::vector<pipelines::Prompt> prompts_of(const JsonValue& value);

// The fields of completions of texts and of chats, and of options, which have these names.
RequestFields completion_fields(OptionsInRequest names, bool sampling_of_model);
// Reads them. `options.generate.search` has the defaults of what the request lacks, `sampling` likewise.
// Throws HttpError (400) and DataError.
void read_completion_fields(Fields& fields, OptionsInRequest names, search::Sampling sampling,
                            CompletionOptions& options);

// Throws HttpError (400) for min_tokens beyond max_tokens.
void require_min_tokens(const search::SearchOptions& search);

// Throws HttpError (400) for a field that is neither missing nor neutral.
void require_neutral(Fields& fields, const char* name, double neutral);
// Likewise: an empty text, list or object, and false are neutral.
void require_absent(Fields& fields, const char* name);
inline constexpr const char* kUnsupported = "Not supported: neutral or missing";

Route text_completions_route();
Route chat_completions_route();

}  // namespace qkv::serve
