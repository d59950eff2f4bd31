#pragma once
// Translations, by an encoder-decoder or an ensemble of them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/engine.h"
#include "qkv/search/transformer.h"

namespace qkv::pipelines {

struct TranslateOptions {
  search::SearchOptions search;
  // The most tokens of a source, </s> included; 0: as many as the model has positions for. A longer source is
  // an error, or is cut to its first tokens where truncate is set.
  int64_t max_source_tokens = 0;
  bool truncate = false;
  bool alignment = false;  // return the source token of each target token
  bool trace = false;      // return the candidates of the beam search
};

// A text to translate.
struct Source {
  std::string text;
  std::string prefix = {};  // the beginning of the translation, in whole words
  uint64_t key = 0;         // with the seed, all that random numbers depend on
  // Called with each token as soon as it is certain; to return false ends the translation.
  std::function<bool(const search::NewToken&)> on_token = {};
};

struct TranslatedHypothesis {
  std::string text;
  search::Hypothesis hypothesis;    // ids and log-probabilities
  std::vector<std::string> tokens;  // the pieces that hypothesis.ids stand for
  // With TranslateOptions::alignment: of each token the position of its source token (in an ensemble, as the
  // first model has it), as search::align() finds it.
  std::vector<int32_t> alignment;
};

struct Translation {
  std::string text;  // of the best hypothesis
  // At most SearchOptions::nbest, best first; alternatives in their order. None for an empty or blank source,
  // whose translation is the empty text, and none where there is an error.
  std::vector<TranslatedHypothesis> hypotheses;
  std::string error;                         // why there is no translation; empty: there is one
  int64_t source_tokens = 0;                 // with </s>, before any cut; 0 for an empty source
  bool truncated = false;                    // only the first tokens were translated
  std::vector<std::string> source_pieces;    // of what was translated, with </s>
  std::optional<search::SearchTrace> trace;  // with TranslateOptions::trace
};

// A source as an engine takes it, and what finish() needs besides.
struct TranslationRequest {
  search::Request decode;  // to submit, unless done(); a copy, as finish() reads its source
  Translation translation;
  bool alignment = false;
  std::unique_ptr<search::SearchTrace> trace = {};  // decode.trace points to it

  // There is nothing to decode: the source is empty or has an error.
  bool done() const { return decode.source.empty(); }
};

// What the folder's generation_config.json recommends.
TranslateOptions default_options(const models::TranslationModel& model);

// Const: any number of threads may use one.
class Translator {
 public:
  explicit Translator(std::shared_ptr<const models::TranslationModel> model);
  // An ensemble. Throws UsageError for no model and for models whose vocabularies differ.
  explicit Translator(std::vector<std::shared_ptr<const models::TranslationModel>> models);
  // Throws what open_translation_model() throws.
  explicit Translator(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // The model, or the first of an ensemble.
  const models::TranslationModel& model() const { return *models_.front(); }
  TranslateOptions default_options() const { return pipelines::default_options(model()); }

  // An engine for requests of any translator of the same models. One engine is for one thread at a time.
  search::Engine make_engine(const search::EngineOptions& options = {}) const;

  // Throws UsageError for bad options; an error of the source is in the request, which is then done().
  TranslationRequest prepare(const Source& source, const TranslateOptions& options) const;
  // decoded: what the engine returns for request.decode; nothing for a request that is done().
  Translation finish(TranslationRequest request, search::Decoded decoded = {}) const;

  // prepare(), an engine of its own, and finish(): one translation for each source, in their order. An error
  // of one source, such as text that is not UTF-8, leaves the others unharmed. A translation depends on its
  // source, key and options alone. Throws UsageError for bad options.
  std::vector<Translation> operator()(std::span<const Source> sources, const TranslateOptions& options,
                                      const search::EngineOptions& engine = {}) const;
  // The same for text alone; source i has the key i.
  std::vector<Translation> operator()(std::span<const std::string> sources, const TranslateOptions& options,
                                      const search::EngineOptions& engine = {}) const;

 private:
  void check(const TranslateOptions& options) const;

  std::vector<std::shared_ptr<const models::TranslationModel>> models_;
  search::ModelList transformers_;
};

// A line as a source whose key is the line's number. prefix_after_tab: the text after a tab is the beginning
// of the translation.
Source source_of_line(std::string text, int64_t line, bool prefix_after_tab = false);

}  // namespace qkv::pipelines
