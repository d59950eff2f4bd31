#include "qkv/search/language_step_model.h"

#include <utility>

#include "qkv/base/error.h"
#include "qkv/search/batches.h"

namespace qkv::search {

LanguageStepModel::LanguageStepModel(std::shared_ptr<const models::LanguageModel> model)
    : model_(std::move(model)) {
  if (model_ == nullptr) throw UsageError("search: expected a model, found none");
}

void LanguageStepModel::check(Ids prompt) const {
  const models::LanguageModelConfig& config = model_->config();
  if (prompt.empty()) throw UsageError("prompt: expected at least one token, found none");
  if (std::ssize(prompt) > config.max_positions) {
    throw UsageError(concat("prompt: expected at most the ", config.max_positions,
                            " tokens that the model can read, found ", prompt.size()));
  }
  for (const int32_t id : prompt) {
    if (id >= 0 && id < config.vocabulary) continue;
    throw DataError(concat("prompt: expected ids from 0 to ", config.vocabulary - 1, ", found ", id));
  }
}

int64_t LanguageStepModel::cache_bytes(const CacheNeed& need) const {
  const nn::StackOptions& stack = model_->config().decoder;
  return stack.layers * nn::cache_bytes(stack.layer, need.source_tokens + need.rows * need.tokens, 0);
}

void LanguageStepModel::admit(std::span<const std::unique_ptr<Source>> prompts) {
  std::vector<Ids> beginnings;
  for (const auto& prompt : prompts) beginnings.push_back(Ids(prompt->ids).first(prompt->ids.size() - 1));
  state_.join(model_->start(pack_ragged(beginnings)));
}

}  // namespace qkv::search
