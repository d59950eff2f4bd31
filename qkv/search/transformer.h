#pragma once
// Search with a Transformer, or with an ensemble of them.

#include <memory>
#include <span>
#include <vector>

#include "qkv/models/transformer.h"
#include "qkv/search/engine.h"

namespace qkv::search {

// One model, or an ensemble of models with the same vocabularies and special ids.
using ModelList = std::vector<std::shared_ptr<const models::Transformer>>;

// What an Engine needs to decode with models. Throws UsageError for models with other special ids or
// vocabulary sizes than the first, and for none.
std::shared_ptr<StepModel> make_step_model(const ModelList& models, const StepModelOptions& options = {});
SpecialIds special_ids(const ModelList& models);
// The request as these models can follow it: padding is never chosen, and no output is longer than the models
// have positions for. Throws UsageError for a prefix that leaves no position.
Request fitting(const ModelList& models, Request request);

// The outputs for each request, in their order. Engine options change no result. Throws UsageError for bad
// engine options and for models that make_step_model() refuses; an error of one request is in its result.
std::vector<Decoded> search_each(const ModelList& models, std::span<const Request> requests,
                                 const EngineOptions& engine = {});

// The same, where the first error of a request is thrown.
std::vector<NBest> search(const ModelList& models, std::span<const Request> requests,
                          const EngineOptions& engine = {});

// The same for sources alone; source i has the key i.
std::vector<NBest> search(const models::Transformer& model, std::span<const std::vector<int32_t>> sources,
                          const SearchOptions& options, const EngineOptions& engine = {});

}  // namespace qkv::search
