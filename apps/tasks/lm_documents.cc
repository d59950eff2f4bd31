#include "apps/tasks/lm_documents.h"

#include <optional>

#include "apps/cli/messages.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/train/tasks/lm/lm_tokenizer.h"

namespace qkv::apps {

data::TokenDocuments read_lm_documents(const std::string& file, const pipelines::LoadedLanguageModel& model,
                                       data::DocumentBounds bounds, data::OnBadLine on_bad_line) {
  const data::Documents documents = data::read_documents(file, bounds, on_bad_line);
  if (documents.skipped_bad_utf8 > 0)
    say(concat(file, ": ", counted(documents.skipped_bad_utf8, "lines"), " of invalid UTF-8 left out"));
  data::DocumentTokens special{.start = {}, .end = {}, .unknown = model.tokenizer.special_tokens().unk};
  if (bounds != data::DocumentBounds::none) {
    const models::LanguageModelConfig& config = model.model->config();
    if (config.eos_ids.empty()) {
      throw DataError(
          concat(model.folder.string(), ": expected a model with an \"eos_token_id\", found none"));
    }
    special.end = config.eos_ids.front();
    special.start = config.bos_ids.empty() ? special.end : config.bos_ids.front();
  }
  data::TokenDocuments tokens = data::tokenize_documents(documents, model.tokenizer, special);
  if (tokens.labels() == 0)
    throw DataError(concat(file, ": expected text of two or more tokens, found ", tokens.tokens()));
  if (tokens.unknown > 0) {
    say(concat(file, ": ", tokens.unknown, " of ", tokens.tokens(),
               " tokens stand for characters outside the vocabulary; they carry less information than these "
               "characters, so the bits per byte are too low"));
  }
  return tokens;
}

data::DocumentBounds usual_bounds(const std::filesystem::path& model, const std::filesystem::path& adapter) {
  std::optional<data::DocumentBounds> saved;
  if (!adapter.empty()) saved = train::saved_document_bounds(adapter);
  if (!saved) saved = train::saved_document_bounds(model);
  return saved.value_or(data::DocumentBounds::blank_lines);
}

}  // namespace qkv::apps
