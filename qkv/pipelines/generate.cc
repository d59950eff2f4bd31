#include "qkv/pipelines/generate.h"

#include <memory>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/pieces.h"

namespace qkv::pipelines {
namespace {

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

GenerateOptions TextGenerator::default_options() const {
  GenerateOptions options;
  options.search.no_repeat_ngram = model_->generation.no_repeat_ngram;
  options.search.repetition_penalty = model_->generation.repetition_penalty;
  return options;
}

std::vector<Generated> TextGenerator::generate(std::span<const Prompt> prompts,
                                               const GenerateOptions& options) const {
  const search::SearchOptions& search = options.search;
  search.validate();
  std::vector<Generated> results(prompts.size());
  std::vector<search::Request> requests(prompts.size());
  parallel_for(std::ssize(prompts), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      results[i].error = utf8_error(prompts[i].text);
      if (results[i].error.empty()) {
        requests[i].source = prompt_ids(*model_, prompts[i].text);
        results[i].error = length_error(std::ssize(requests[i].source), model().config().max_positions);
      }
      requests[i].options = search;
      requests[i].key = prompts[i].key;
      results[i].prompt_tokens = std::ssize(requests[i].source);
    }
  });
  std::vector<std::unique_ptr<Teller>> tellers(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].on_text) continue;
    if (search.nbest != 1) throw UsageError("on_text: expected one text to be asked for, found several");
    tellers[i] = std::make_unique<Teller>(tokenizer(), requests[i].source, prompts[i].on_text);
    requests[i].on_token = [teller = tellers[i].get()](const search::NewToken& token) {
      return teller->add(token);
    };
  }
  std::vector<search::Decoded> found =
      search::generate(model_->model, requests, {.batch_tokens = options.batch_tokens});
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
      std::string text = continuation(tokenizer(), requests[i].source, hypothesis.ids);
      results[i].completions.push_back({std::move(text), std::move(hypothesis)});
    }
  }
  return results;
}

}  // namespace qkv::pipelines
