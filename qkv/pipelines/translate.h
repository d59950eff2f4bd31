#pragma once
// Translation with an encoder-decoder or an ensemble.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/pipelines/open_model.h"
#include "qkv/search/engine/engine.h"
#include "qkv/search/transformer.h"

namespace qkv::pipelines {

// The languages of a text and its translation, for models whose texts name them, as the tokenizer spells
// them. Empty: the folder's.
struct Languages {
  std::string source_language = {}, target_language = {};

  template <class Self, class Visit>
  static void visit_fields(Self&& self, const Visit& visit) {
    visit({"source_language", "LANGUAGE", "Language of the texts, as the model names it (NLLB: eng_Latn)"},
          self.source_language);
    visit({"target_language", "LANGUAGE", "Language of the translations, likewise"}, self.target_language);
  }
};

struct TranslateOptions {
  search::SearchOptions search;
  Languages languages = {};
  // Maximum source tokens, </s> included; 0: the model's positions. A longer source is an error, or is
  // truncated if `truncate` is set.
  int64_t max_source_tokens = 0;
  bool truncate = false;
  bool alignment = false;  // return the aligned source token of each target token
  bool trace = false;      // return the candidates of the beam search
};

// A text to translate.
struct Source {
  std::string text;
  std::string prefix = {};  // the beginning of the translation, in whole words
  uint64_t key = 0;         // with the seed, determines all random numbers
  // Called with each token as soon as it is final; returning false ends the translation.
  std::function<bool(const search::NewToken&)> on_token = {};
};

struct TranslatedHypothesis {
  std::string text;
  search::Hypothesis hypothesis;    // ids and log-probabilities
  std::vector<std::string> tokens;  // the pieces of hypothesis.ids
  // With TranslateOptions::alignment: for each token, the position of its source token, from search::align()
  // (in an ensemble: of the first model).
  std::vector<int32_t> alignment;
};

struct Translation {
  std::string text;  // of the best hypothesis
  // At most SearchOptions::nbest, best first, with different texts; alternatives in their order. Empty for an
  // empty or blank source, whose translation is empty, and on error.
  std::vector<TranslatedHypothesis> hypotheses;
  std::string error;                         // why there is no translation; empty on success
  int64_t source_tokens = 0;                 // with </s>, before truncation; 0 for an empty source
  bool truncated = false;                    // the source was truncated
  std::vector<std::string> source_pieces;    // of the translated source, with </s>
  std::optional<search::SearchTrace> trace;  // with TranslateOptions::trace
};

// A request for an engine, and the data that finish() needs.
struct TranslationRequest {
  search::Request decode;  // to submit, unless done(); a copy, as finish() reads its source
  Translation translation;
  int nbest = 1;  // translations to return; a beam search finds more, in case texts are equal
  bool alignment = false;
  std::unique_ptr<search::SearchTrace> trace = {};  // decode.trace points to it

  // True if the source is empty or has an error: there is nothing to decode.
  bool done() const { return decode.source.empty(); }
};

// Options recommended by the folder's generation_config.json. Throws the errors of search_defaults()
// (qkv/pipelines/search_defaults.h).
TranslateOptions default_options(const models::TranslationModel& model);

// Const: safe to use from several threads.
class Translator {
 public:
  explicit Translator(std::shared_ptr<const models::TranslationModel> model);
  // An ensemble. Throws UsageError for an empty list and for models whose vocabularies differ.
  explicit Translator(std::vector<std::shared_ptr<const models::TranslationModel>> models);
  // Throws the errors of open_translation_model().
  explicit Translator(const std::filesystem::path& folder, const models::LoadOptions& options = {});

  // The model, or the first of an ensemble.
  const models::TranslationModel& model() const { return *models_.front(); }
  TranslateOptions default_options() const { return pipelines::default_options(model()); }

  // An engine for requests of any translator of the same models. An engine serves one thread at a time.
  search::Engine make_engine(const search::EngineOptions& options = {},
                             const search::StepModelOptions& step_model = {}) const;

  // Throws UsageError for bad options, such as a language that the model lacks. An error of the source is
  // stored in the request, which is then done().
  TranslationRequest prepare(const Source& source, const TranslateOptions& options) const;
  // decoded: the engine's result for request.decode; empty for a request that is done().
  Translation finish(TranslationRequest request, search::Decoded decoded = {}) const;

  // prepare(), a temporary engine, and finish(): one translation per source, in order. An error of one
  // source, such as invalid UTF-8, does not affect the others. A translation depends on its source, key and
  // options alone. Throws UsageError for bad options.
  std::vector<Translation> operator()(std::span<const Source> sources, const TranslateOptions& options,
                                      const search::EngineOptions& engine = {},
                                      const search::StepModelOptions& step_model = {}) const;
  // Likewise for text alone; source i has key i.
  std::vector<Translation> operator()(std::span<const std::string> sources, const TranslateOptions& options,
                                      const search::EngineOptions& engine = {},
                                      const search::StepModelOptions& step_model = {}) const;

 private:
  void check(const TranslateOptions& options) const;

  std::vector<std::shared_ptr<const models::TranslationModel>> models_;
  search::ModelList transformers_;
};

// A line as a source whose key is the line number. prefix_after_tab: the text after a tab is the
// translation's prefix.
Source source_of_line(std::string text, int64_t line, bool prefix_after_tab = false);

}  // namespace qkv::pipelines
