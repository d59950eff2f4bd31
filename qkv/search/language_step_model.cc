#include "qkv/search/language_step_model.h"

#include <utility>

#include "qkv/base/error.h"

namespace qkv::search {

namespace {

// A prompt and the state after the part read so far.
struct Prompt : StepModel::Source {
  using Source::Source;
  // All tokens but the last.
  Ids to_read() const { return Ids(ids).first(ids.size() - 1); }
  nn::DecoderState state;
};

}  // namespace

LanguageStepModel::LanguageStepModel(std::shared_ptr<const models::LanguageModel> model,
                                     const StepModelOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_ == nullptr) throw UsageError("search: expected a model, found none");
  options_.validate();
  cache_bytes({});  // throws where the cache's dtype does not fit the model
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
  const nn::CacheUse use{
      .prompt = need.source_tokens, .chunk = need.chunk_tokens, .rows = need.rows, .steps = need.tokens};
  return nn::cache_bytes(stack, use, 0, options_.cache_dtype, model_->logits().device());
}

std::unique_ptr<StepModel::Source> LanguageStepModel::open(Ids prompt) {
  auto opened = std::make_unique<Prompt>(prompt);
  opened->unread = std::ssize(opened->to_read());
  if (auto found = prefixes_.find(opened->to_read())) {
    opened->state = std::move(found->state);
    opened->reused = found->positions;
    opened->unread -= found->positions;
  } else {
    opened->state = model_->start(Ragged::from(std::vector<Ids>(1)), options_.cache_dtype);
  }
  return opened;
}

void LanguageStepModel::read(std::span<const Chunk> chunks) {
  nn::DecoderState together;
  std::vector<Ids> tokens;
  for (const Chunk& chunk : chunks) {
    auto& prompt = static_cast<Prompt&>(*chunk.source);
    if (chunk.tokens < 1 || chunk.tokens > prompt.unread) {
      throw UsageError(
          concat("prompt: expected to read 1 to ", prompt.unread, " tokens, found ", chunk.tokens));
    }
    const Ids unread = prompt.to_read().last(static_cast<size_t>(prompt.unread));
    tokens.push_back(unread.first(static_cast<size_t>(chunk.tokens)));
    together.join(std::move(prompt.state));
  }
  model_->read(Ragged::from(tokens), together);
  std::vector<nn::DecoderState> parts = together.split();
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto& prompt = static_cast<Prompt&>(*chunks[i].source);
    prompt.state = std::move(parts[i]);
    prompt.unread -= chunks[i].tokens;
    if (prompt.unread == 0) prefixes_.keep(prompt.to_read(), prompt.state);
  }
}

void LanguageStepModel::admit(std::span<const std::unique_ptr<Source>> prompts) {
  std::vector<nn::DecoderState*> states;
  for (const auto& prompt : prompts) states.push_back(&static_cast<Prompt&>(*prompt).state);
  state_.join(states);
}

}  // namespace qkv::search
