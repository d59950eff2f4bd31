#include "qkv/search/transformer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/search/ensemble_step_model.h"
#include "qkv/search/transformer_step_model.h"

namespace qkv::search {
namespace {

void require_alike(const ModelList& models) {
  if (models.empty() || std::ranges::count(models, nullptr) > 0)
    throw UsageError("search: expected at least one model, found none");
  const models::TransformerConfig& first = models.front()->config();
  for (const auto& model : models) {
    const models::TransformerConfig& config = model->config();
    const auto same = [&](const char* what, int64_t expected, int64_t found) {
      if (expected != found) {
        throw UsageError(concat("ensemble: expected models of one vocabulary, found ", what, " ", expected,
                                " and ", found));
      }
    };
    same("source_vocabulary", first.source_vocabulary, config.source_vocabulary);
    same("target_vocabulary", first.target_vocabulary, config.target_vocabulary);
    same("decoder_start_id", first.decoder_start_id, config.decoder_start_id);
    same("eos_id", first.eos_id, config.eos_id);
    same("pad_id", first.pad_id, config.pad_id);
    if (first.source_eos != config.source_eos)
      throw UsageError("ensemble: expected models of equal source_eos, found true and false");
  }
}

}  // namespace

std::shared_ptr<StepModel> make_step_model(const ModelList& models, const StepModelOptions& options) {
  require_alike(models);
  std::vector<std::shared_ptr<StepModel>> step_models;
  for (const auto& model : models)
    step_models.push_back(std::make_shared<TransformerStepModel>(model, options));
  if (step_models.size() == 1) return step_models.front();
  return std::make_shared<EnsembleStepModel>(std::move(step_models));
}

SpecialIds special_ids(const ModelList& models) {
  require_alike(models);
  const models::TransformerConfig& config = models.front()->config();
  return {.start = static_cast<int32_t>(config.decoder_start_id),
          .eos = static_cast<int32_t>(config.eos_id),
          .source_eos = config.source_eos};
}

Request fitting(const ModelList& models, Request request) {
  require_alike(models);
  SearchOptions& options = request.options;
  for (const auto& model : models) {
    const models::TransformerConfig& config = model->config();
    const auto pad = static_cast<int32_t>(config.pad_id);
    if (pad != config.eos_id) options.suppress_tokens.push_back(pad);
    if (const std::optional<int64_t> positions = config.max_tokens())
      fit_positions(request, *positions, 1);  // 1: the start token
  }
  return request;
}

std::vector<Decoded> search_each(const ModelList& models, std::span<const Request> requests,
                                 const EngineOptions& options) {
  Engine engine(make_step_model(models), special_ids(models), options);
  return decode_all(engine, requests, [&](const Request& request) { return fitting(models, request); });
}

std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const EngineOptions& engine) {
  return hypotheses_of(search_each(models, requests, engine));
}

std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, const EngineOptions& engine) {
  options.validate();
  std::vector<Request> requests;
  for (const auto& source : sources)
    requests.push_back({.source = source, .options = options, .key = requests.size()});
  // A non-owning pointer: the model outlives the call.
  const std::shared_ptr<const models::Transformer> borrowed(std::shared_ptr<void>(), &model);
  return search(ModelList{borrowed}, requests, engine);
}

}  // namespace qkv::search
