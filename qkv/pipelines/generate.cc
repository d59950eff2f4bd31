#include "qkv/pipelines/generate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/search/batches.h"
#include "qkv/text/utf8.h"

namespace qkv::pipelines {
namespace {

std::string not_utf8(const std::string& text) {
  const auto bad = text::first_bad_utf8(text);
  return bad ? concat("expected UTF-8, found a malformed character at byte ", *bad) : "";
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.what();
  }
}

// Passes tokens on as text.
class Teller {
 public:
  // `prompt` has been told: what follows may begin with a space because of it.
  Teller(const text::Tokenizer& tokenizer, search::Ids prompt, std::function<void(std::string_view)> tell)
      : decoder_(tokenizer), tell_(std::move(tell)) {
    for (const int32_t id : prompt) decoder_.add(id);
  }
  bool add(const search::NewToken& token) {
    pass_on(decoder_.add(token.id));
    return true;
  }
  void finish() { pass_on(decoder_.finish()); }

 private:
  void pass_on(const std::string& text) {
    if (!text.empty()) tell_(text);
  }

  text::StreamDecoder decoder_;
  std::function<void(std::string_view)> tell_;
};

// What stands behind a prompt's text, with the space between them where there is one.
std::string continuation(const text::Tokenizer& tokenizer, search::Ids prompt, search::Ids ids) {
  std::vector<int32_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), ids.begin(), ids.end());
  const std::string before = tokenizer.decode(prompt), whole = tokenizer.decode(all);
  return whole.starts_with(before) ? whole.substr(before.size()) : tokenizer.decode(ids);
}

}  // namespace

TextGenerator::TextGenerator(const std::filesystem::path& folder, const models::LoadOptions& options)
    : model_(models::load_language_model(folder, options)), tokenizer_(text::Tokenizer::load(folder)) {
  if (tokenizer_.size() > model_->config().vocabulary) {
    throw DataError(concat(folder.string(), ": expected a tokenizer of at most the model's ",
                           model_->config().vocabulary, " tokens, found ", tokenizer_.size()));
  }
}

std::vector<int32_t> TextGenerator::read(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer_.encode(text).ids;
  if (ids.empty() && !model_->config().bos_ids.empty()) ids.push_back(model_->config().bos_ids.front());
  return ids;
}

std::vector<Generated> TextGenerator::generate(std::span<const Prompt> prompts,
                                               const GenerateOptions& options) const {
  search::SearchOptions search = options.search;
  ++search.max_length;  // the search counts the end
  search.validate();
  std::vector<Generated> results(prompts.size());
  std::vector<search::Request> requests(prompts.size());
  parallel_for(std::ssize(prompts), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      results[i].error = not_utf8(prompts[i].text);
      if (results[i].error.empty()) requests[i].source = read(prompts[i].text);
      requests[i].key = prompts[i].key;
      results[i].prompt_tokens = std::ssize(requests[i].source);
    }
  });
  std::vector<std::unique_ptr<Teller>> tellers(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].on_text) continue;
    if (search.nbest != 1) throw UsageError("on_text: expected one text to be asked for, found several");
    tellers[i] = std::make_unique<Teller>(tokenizer_, requests[i].source, prompts[i].on_text);
    requests[i].on_token = [teller = tellers[i].get()](const search::NewToken& token) {
      return teller->add(token);
    };
  }
  std::vector<search::Decoded> found = search::generate(*model_, requests, search, options.batch_tokens);
  for (size_t i = 0; i < found.size(); ++i) {
    if (tellers[i]) tellers[i]->finish();
    if (!results[i].error.empty()) continue;
    if (found[i].error) {
      results[i].error = message_of(found[i].error);
      continue;
    }
    for (search::Hypothesis& hypothesis : found[i].hypotheses) {
      // What the limit put at the end was not written.
      if (!hypothesis.complete && !hypothesis.ids.empty()) {
        hypothesis.ids.pop_back();
        hypothesis.token_log_probabilities.pop_back();
      }
      std::string text = continuation(tokenizer_, requests[i].source, hypothesis.ids);
      results[i].writings.push_back({std::move(text), std::move(hypothesis)});
    }
  }
  return results;
}

TextAttention TextGenerator::attention(const std::string& text) const {
  if (const std::string bad = not_utf8(text); !bad.empty()) throw DataError(concat("text: ", bad));
  const std::vector<int32_t> ids = read(text);
  if (ids.empty()) throw UsageError("text: expected one with tokens, found none");
  TextAttention result;
  for (const int32_t id : ids) result.tokens.emplace_back(tokenizer_.token(id).value_or(""));
  nn::ForwardContext context;
  context.observer = observer_of(result);
  const search::Ids one = ids;
  (*model_)(search::pack_ragged(std::span(&one, 1)), context);
  return result;
}

std::vector<ScoredText> TextGenerator::score(std::span<const std::string> texts, int64_t batch_tokens) const {
  std::vector<ScoredText> results(texts.size());
  std::vector<std::vector<int32_t>> ids(texts.size());
  std::vector<search::Ids> sequences(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    results[i].error = not_utf8(texts[i]);
    if (!results[i].error.empty()) continue;
    ids[i] = read(texts[i]);
    if (std::ssize(ids[i]) > model_->config().max_positions) {
      results[i].error = concat("expected at most the ", model_->config().max_positions,
                                " tokens that the model can read, found ", ids[i].size());
      ids[i].clear();
    }
    sequences[i] = ids[i];
  }
  const std::vector<std::vector<float>> scores = search::score(*model_, sequences, batch_tokens);
  for (size_t i = 0; i < texts.size(); ++i) {
    ScoredText& one = results[i];
    one.log_probabilities = scores[i];
    for (size_t t = 1; t < ids[i].size(); ++t)
      one.tokens.emplace_back(tokenizer_.token(ids[i][t]).value_or(""));
    one.log_probability = std::accumulate(scores[i].begin(), scores[i].end(), 0.0);
    if (!scores[i].empty()) {
      one.perplexity = std::exp(-one.log_probability / static_cast<double>(scores[i].size()));
    }
  }
  return results;
}

}  // namespace qkv::pipelines
