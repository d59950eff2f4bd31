#pragma once
// Results as JSON objects, one per line, with the keys that the commands print. Invalid UTF-8 (possible with
// byte tokens) becomes U+FFFD. A failed result is {"error": "..."}.

#include <cstdint>
#include <optional>
#include <string>

#include "qkv/metrics/bleu.h"
#include "qkv/metrics/chrf.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/rerank.h"
#include "qkv/pipelines/results.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/translate.h"

namespace qkv::pipelines {

struct TranslationFields {
  bool scores = false;     // tokens, log-probabilities, and whether the model ended the translation itself
  bool alignment = false;  // tokens of both sides, and each target token's source token
};

// {"translation", "truncated", "source_tokens": [...], "hypotheses": [{"text", "score", "tokens",
// "log_probability", "complete", "token_log_probabilities", "alignment"}, ...]}.
std::string to_json(const Translation& translation, const TranslationFields& fields = {});

// {"steps": [[{"hypothesis": ["▁ein"], "token": "▁Haus", "log_probability", "total", "penalty", "coverage",
// "score", "fate": "kept" | "finished" | "pruned"}, ...], ...]}: the candidates of each step, best first.
std::string to_json(const search::SearchTrace& trace, const text::TranslationTokenizer& tokenizer);

// {"prompt_tokens", "texts": [{"text", "complete", "log_probability", "ids", "token_log_probabilities"},
// ...]}.
std::string to_json(const Generated& generated);

// {"log_probability", "perplexity", "tokens", "token_log_probabilities"}; perplexity is null if no token is
// scored.
std::string to_json(const ScoredText& scored);

// {"labels": [{"label", "probability"}, ...]}, at most `top` of them.
std::string to_json(const Classified& classified, size_t top = SIZE_MAX);

// {"tokens": [{"text", "begin", "end", "label", "probability"}, ...]}.
std::string to_json(const TaggedText& tagged);

// {"answers": [{"text", "begin", "end", "probability"}, ...]}; begin and end are bytes.
std::string to_json(const AnsweredText& answered);

// {"masks": [[{"token", "id", "probability", "text"}, ...], ...]}.
std::string to_json(const FilledText& filled);

// {"vector": [...]}.
std::string to_json(const Embedded& embedded);

// {"weights": [{"token", "id", "weight"}, ...]}.
std::string to_json(const SparseEmbedded& embedded);

// {"score"}, or {"score", "text"}.
std::string to_json(const Reranked& reranked, const std::optional<std::string>& text = {});

// {"score", "signature", "precisions": [...], "brevity_penalty", "hypothesis_length", "reference_length"},
// unrounded.
std::string to_json(const metrics::BleuResult& bleu, const metrics::BleuOptions& options);

// {"score", "signature"}, unrounded.
std::string to_json(const metrics::ChrfResult& chrf, const metrics::ChrfOptions& options);

// {"ids", "tokens", "offsets": [[0, 3], ...], "type_ids", "special_mask", "text_index", "word_index"}, an
// entry for each token; offsets are bytes. The tokenizer is the one that made the encoding.
std::string to_json(const text::Encoding& encoding, const text::Tokenizer& tokenizer);

// The object with "line": 3 and, unless empty, "file": "cat.jpg" as its first members.
std::string with_line(int64_t line, const std::string& object, const std::string& file = {});

}  // namespace qkv::pipelines
