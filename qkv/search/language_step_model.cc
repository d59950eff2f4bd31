#include "qkv/search/language_step_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "qkv/base/error.h"

namespace qkv::search {

namespace {

bool is_row(int32_t id) { return id < 0; }

// A part of a prompt that is read at once.
struct Segment {
  Ids ids;
  bool causal = true;
};

// A prompt and the state after the part read so far.
struct Prompt : StepModel::Source {
  using Source::Source;
  // All tokens but the last.
  Ids to_read() const { return Ids(ids).first(ids.size() - 1); }
  Ids unread_ids() const { return to_read().last(static_cast<size_t>(unread)); }
  // The first `tokens` of the unread ones. Images whose rows attend to each other are segments of their own,
  // and whole.
  std::vector<Segment> segments(int64_t tokens) const {
    const Ids left = unread_ids();
    auto at = left.begin();
    const auto asked = at + tokens;
    if (!rows.both_directions) return {{{at, asked}}};
    std::vector<Segment> found;
    while (at < asked) {
      const auto ends =
          is_row(*at) ? std::find_if_not(at, left.end(), is_row) : std::find_if(at, asked, is_row);
      found.push_back({{at, ends}, !is_row(*at)});
      at = ends;
    }
    return found;
  }
  // The rows of these ids, the next ones to be read.
  Tensor next_rows(Ids next) const {
    const Ids left = unread_ids();
    return rows.values.slice_rows(rows.count() - std::ranges::count_if(left, is_row),
                                  std::ranges::count_if(next, is_row));
  }
  nn::DecoderState state;
};

// Reads the next segment of each prompt, all of one kind.
void read_segments(const models::LanguageModel& model, std::span<Prompt* const> prompts,
                   std::span<const Segment> segments) {
  nn::DecoderState together;
  std::vector<Ids> tokens;
  std::vector<Tensor> rows;
  int64_t count = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    tokens.push_back(segments[i].ids);
    if (prompts[i]->rows.count() > 0) {
      rows.push_back(prompts[i]->next_rows(segments[i].ids));
      count += rows.back().rows();
    }
    together.join(std::move(prompts[i]->state));
  }
  EmbeddedRows all{.both_directions = !segments.front().causal};
  if (count > 0) {
    all.values = Tensor::empty({count, model.config().embedding.d_model}, DType::f32, rows.front().device());
    int64_t at = 0;
    for (const Tensor& one : rows) {
      all.values.slice_rows(at, one.rows()).copy_from(one);
      at += one.rows();
    }
  }
  model.read(Ragged::from(tokens), together, all);
  std::vector<nn::DecoderState> parts = together.split();
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i]->state = std::move(parts[i]);
    prompts[i]->unread -= std::ssize(segments[i].ids);
  }
}

}  // namespace

LanguageStepModel::LanguageStepModel(std::shared_ptr<const models::LanguageModel> model,
                                     const StepModelOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_ == nullptr) throw UsageError("search: expected a model, found none");
  options_.validate();
  cache_bytes({});  // throws where the cache's dtype does not fit the model
}

void LanguageStepModel::check(Ids prompt, const EmbeddedRows& rows) const {
  const models::LanguageModelConfig& config = model_->config();
  if (prompt.empty()) throw UsageError("prompt: expected at least one token, found none");
  if (std::ssize(prompt) > config.max_positions) {
    throw UsageError(concat("prompt: expected at most the ", config.max_positions,
                            " tokens that the model can read, found ", prompt.size()));
  }
  const int64_t count = std::ranges::count_if(prompt, is_row);
  if (count != rows.count()) {
    throw UsageError(
        concat("prompt: expected an id below 0 for each of ", rows.count(), " rows, found ", count));
  }
  if (is_row(prompt.back())) {
    throw UsageError("prompt: expected a text after the last image, found its end");
  }
  for (const int32_t id : prompt) {
    if (id < config.vocabulary) continue;
    throw DataError(concat("prompt: expected ids from 0 to ", config.vocabulary - 1, ", found ", id));
  }
}

int64_t LanguageStepModel::cache_bytes(const CacheNeed& need) const {
  const nn::StackOptions& stack = model_->config().decoder;
  const nn::CacheUse use{
      .prompt = need.source_tokens, .chunk = need.chunk_tokens, .rows = need.rows, .steps = need.tokens};
  return nn::cache_bytes(stack, use, 0, options_.cache_dtype, model_->logits().device());
}

std::unique_ptr<StepModel::Source> LanguageStepModel::open(Ids prompt, const EmbeddedRows& rows) {
  auto opened = std::make_unique<Prompt>(prompt, rows);
  opened->unread = std::ssize(opened->to_read());
  auto found = prefixes_.find(opened->to_read());
  int64_t positions = found ? found->positions : 0;
  // Another image may have followed: the rows before it have seen that.
  if (rows.both_directions) {
    while (positions > 0 && is_row(prompt[static_cast<size_t>(positions) - 1])) --positions;
  }
  if (positions > 0 && positions < found->positions) {
    if (found->state.can_share(positions)) {
      found->state = found->state.share(positions);
    } else {
      positions = 0;
    }
  }
  opened->state = positions > 0 ? std::move(found->state)
                                : model_->start(Ragged::from(std::vector<Ids>(1)), options_.cache_dtype);
  opened->reused = positions;
  opened->unread -= positions;
  return opened;
}

void LanguageStepModel::read(std::span<const Chunk> chunks) {
  std::vector<std::vector<Segment>> segments;
  size_t most = 0;
  for (const Chunk& chunk : chunks) {
    const auto& prompt = static_cast<const Prompt&>(*chunk.source);
    if (chunk.tokens < 1 || chunk.tokens > prompt.unread) {
      throw UsageError(
          concat("prompt: expected to read 1 to ", prompt.unread, " tokens, found ", chunk.tokens));
    }
    segments.push_back(prompt.segments(chunk.tokens));
    most = std::max(most, segments.back().size());
  }
  for (size_t i = 0; i < most; ++i) {
    for (const bool causal : {true, false}) {
      std::vector<Prompt*> prompts;
      std::vector<Segment> parts;
      for (size_t c = 0; c < chunks.size(); ++c) {
        if (i >= segments[c].size() || segments[c][i].causal != causal) continue;
        prompts.push_back(static_cast<Prompt*>(chunks[c].source));
        parts.push_back(segments[c][i]);
      }
      if (!prompts.empty()) read_segments(*model_, prompts, parts);
    }
  }
  for (const Chunk& chunk : chunks) {
    const auto& prompt = static_cast<const Prompt&>(*chunk.source);
    if (prompt.unread == 0) prefixes_.keep(prompt.to_read(), prompt.state);
  }
}

void LanguageStepModel::admit(std::span<const std::unique_ptr<Source>> prompts) {
  std::vector<nn::DecoderState*> states;
  for (const auto& prompt : prompts) states.push_back(&static_cast<Prompt&>(*prompt).state);
  state_.join(states);
}

}  // namespace qkv::search
