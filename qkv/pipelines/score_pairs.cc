#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/pieces.h"
#include "qkv/pipelines/score.h"
#include "qkv/search/score.h"

namespace qkv::pipelines {

TextPair pair_of_line(const std::string& line) {
  const size_t tab = line.find('\t');
  if (tab == std::string::npos)
    return {
        .source = line, .target = {}, .error = "expected a source, a tab and its translation, found no tab"};
  return {.source = line.substr(0, tab), .target = line.substr(tab + 1)};
}

PairScorer::PairScorer(std::shared_ptr<const models::TranslationModel> model)
    : model_(required(std::move(model))) {}

PairScorer::PairScorer(const std::filesystem::path& folder, const models::LoadOptions& options)
    : PairScorer(open_translation_model(folder, options)) {}

PairScoreRequest PairScorer::prepare(const TextPair& pair) const {
  const auto failed = [](std::string error) {
    return PairScoreRequest{.source = {}, .target = {}, .error = std::move(error)};
  };
  if (!pair.error.empty()) return failed(pair.error);
  for (const auto& [name, text] : {std::pair("source", &pair.source), std::pair("target", &pair.target)}) {
    if (const std::string error = text_error(*text); !error.empty()) return failed(concat(name, ": ", error));
  }
  PairScoreRequest request{.source = source_ids(*model_, pair.source, around_source(*model_)),
                           .target = target_ids(*model_, pair.target, model_->generation.rules.forced_bos),
                           .error = {}};
  if (request.source.empty()) return failed("source: expected at least one token, found none");
  const std::optional<int64_t> limit = model_->config.max_tokens();
  for (const auto& [name, ids] : {std::pair("source tokens (the model's limit)", &request.source),
                                  std::pair("target tokens (the model's limit)", &request.target)}) {
    if (const std::string error = length_error(std::ssize(*ids), limit, name); !error.empty())
      return failed(error);
  }
  for (const auto& [name, ids, rows] :
       {std::tuple("source", &request.source, model_->config.source_vocabulary),
        {"target", &request.target, model_->config.target_vocabulary}}) {
    if (const std::string error = ids_error(*ids, rows); !error.empty())
      return failed(concat(name, ": ", error));
  }
  return request;
}

ScoredText PairScorer::finish(const PairScoreRequest& request, std::vector<float> log_probabilities) const {
  if (!request.error.empty()) return {.tokens = {}, .log_probabilities = {}, .error = request.error};
  ScoredText result = scored(std::move(log_probabilities));
  if (!result.error.empty()) return result;
  result.tokens = pieces(*model_->tokenizer, request.target, text::Side::target);
  return result;
}

std::vector<ScoredText> PairScorer::operator()(std::span<const TextPair> pairs, int64_t batch_tokens) const {
  std::vector<PairScoreRequest> requests(pairs.size());
  parallel_for(std::ssize(pairs), 8, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      requests[i] = prepare(pairs[i]);
  });
  std::vector<std::vector<int32_t>> sources, targets;  // of the pairs without an error
  for (const PairScoreRequest& request : requests) {
    if (!request.error.empty()) continue;
    sources.push_back(request.source);
    targets.push_back(request.target);
  }
  std::vector<std::vector<float>> scores =
      search::score(*model_->transformer, sources, targets, batch_tokens);
  std::vector<ScoredText> results;
  auto next = scores.begin();
  for (const PairScoreRequest& request : requests) {
    if (request.error.empty()) {
      results.push_back(finish(request, std::move(*next++)));
    } else {
      results.push_back(finish(request, {}));
    }
  }
  return results;
}

}  // namespace qkv::pipelines
