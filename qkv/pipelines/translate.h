#pragma once
// From text to text.

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/translation_model.h"
#include "qkv/search/search.h"
#include "qkv/search/transformer.h"

namespace qkv::pipelines {

struct TranslateOptions {
  search::SearchOptions search;
  // Source tokens decoded side by side; decides memory and speed, never the result.
  int64_t batch_tokens = 1024;
  // The most tokens of a source, </s> included; 0: as many as the model has positions for. A longer one is an
  // error, or is cut to its first tokens where truncate is set.
  int64_t max_source_tokens = 0;
  bool truncate = false;
  bool alignment = false;  // tell for each hypothesis where its tokens came from
  bool trace = false;      // tell what a beam search thought of
};

// Text to translate.
struct Source {
  std::string text;
  std::string prefix = {};  // how the translation begins, in whole words
  uint64_t key = 0;         // what is drawn at random depends on it and on the seed
};

struct TranslatedHypothesis {
  std::string text;
  search::Hypothesis hypothesis;    // ids and log-probabilities
  std::vector<std::string> tokens;  // the pieces that hypothesis.ids stand for
  // Where asked for: the source token of each, as align() finds it (in an ensemble, with the first model).
  std::vector<int32_t> alignment;
};

struct Translation {
  std::string text;  // of the best hypothesis
  // At most options.search.nbest, best first; alternatives in their order. None where the source is empty or
  // blank, whose translation is the empty text, and none where there is an error.
  std::vector<TranslatedHypothesis> hypotheses;
  std::string error;                         // why there is no translation; empty: there is one
  int64_t source_tokens = 0;                 // with </s>, before any cut; 0 for an empty source
  bool truncated = false;                    // only the first tokens were translated
  std::vector<std::string> source_pieces;    // what was translated, with </s>
  std::optional<search::SearchTrace> trace;  // where asked for, of a beam search
};

// What a folder's generation_config.json asks for.
TranslateOptions default_options(const models::TranslationModel& model);

// Safe to use from several threads at once. The models must outlive it.
class Translator {
 public:
  explicit Translator(const models::TranslationModel& model);
  // An ensemble: at least one model. Throws UsageError for models whose vocabularies differ.
  explicit Translator(std::vector<const models::TranslationModel*> models);

  // One translation for each source, in their order. A source that is not UTF-8 or too long, a prefix that
  // cannot be, and logits that are no numbers give an error and leave the others unharmed. A translation
  // depends on its source and options.search alone. Throws UsageError for bad options.
  std::vector<Translation> translate(std::span<const Source> sources, const TranslateOptions& options) const;
  // The same for text alone, whose keys are 0, 1, ...
  std::vector<Translation> translate(std::span<const std::string> sources,
                                     const TranslateOptions& options) const;

 private:
  // What to decode; without a source where there is nothing to.
  search::Request read(const Source& source, const TranslateOptions& options, Translation& translation) const;

  std::vector<const models::TranslationModel*> models_;
  search::ModelList transformers_;
};

struct StreamOptions {
  // Lines, and bytes of them, read before they are translated together: what memory grows with.
  int64_t chunk_lines = 2048;
  int64_t chunk_bytes = 1 << 20;
  // Bytes of the longest line; of a longer one no more is kept, and its translation is an error.
  int64_t max_line_bytes = 1 << 20;
  bool prefix_after_tab = false;  // a line is a source, and after a tab the prefix of its translation
};

struct StreamCounts {
  int64_t lines = 0, errors = 0, truncated = 0;
};

// Translates line by line, in order: sink(number of the line from 1 on, its translation). Lines end in LF or
// CRLF, and the last one need not end. A line's key is its number. Throws what translate() throws, and
// IoError if reading fails.
StreamCounts translate_lines(const Translator& translator, std::istream& in,
                             const std::function<void(int64_t line, const Translation&)>& sink,
                             const TranslateOptions& options, const StreamOptions& stream = {});

}  // namespace qkv::pipelines
