#pragma once
// Search with an encoder-decoder Transformer, or an ensemble of them.

#include <memory>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/search/engine/engine.h"

namespace qkv::search {

// One model, or an ensemble of models with the same vocabularies and special ids.
using ModelList = std::vector<std::shared_ptr<const models::Transformer>>;

// The step model with which an Engine decodes. Throws UsageError for an empty list and for models whose
// special ids or vocabulary sizes differ from the first's.
std::shared_ptr<StepModel> make_step_model(const ModelList& models, const StepModelOptions& options = {});
SpecialIds special_ids(const ModelList& models);
// The request adapted to the models: padding is never chosen, and outputs are limited to the models'
// positions. Throws UsageError for a prefix that leaves no position.
Request fitting(const ModelList& models, Request request);

// The outputs of each request, in order. Engine options do not affect results. A request's error is returned
// in its result. Throws UsageError for bad engine options and for models that make_step_model() rejects.
std::vector<Decoded> search_each(const ModelList& models, std::span<const Request> requests,
                                 const EngineOptions& engine = {});

// Likewise, but throws the first error of a request.
std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const EngineOptions& engine = {});

// Likewise for sources alone; source i has key i.
std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, const EngineOptions& engine = {});

}  // namespace qkv::search
