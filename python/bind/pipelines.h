#pragma once
// Opened model folders for Python: one class per kind, in a file each, and what they share. Results other
// than arrays and plain texts are the JSON of the commands' --json, which qkv/_model.py reads.

#include <nlohmann/json.hpp>

#include "python/bind/common.h"
#include "python/bind/shared_engine.h"
#include "qkv/base/parallel.h"
#include "qkv/explain/parts.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/ops/quantize.h"
#include "qkv/pipelines/images/image_encoder.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/search/engine/engine.h"

namespace qkv::python {

using Texts = std::vector<std::string>;

struct OpenOptions {
  models::LoadOptions load;
  search::EngineOptions engine;
  search::StepModelOptions step_model;
  pipelines::ImageEncoderOptions images;
};

// The classes.
void bind_translation(nb::module_& module);
void bind_language(nb::module_& module);
void bind_text_encoder(nb::module_& module);
void bind_image_encoder(nb::module_& module);
void bind_speech(nb::module_& module);
void bind_attention(nb::module_& module);
nb::object made(const std::filesystem::path& folder,
                const std::shared_ptr<const models::TranslationModel>& model, const OpenOptions& options);
nb::object made(const std::shared_ptr<const pipelines::LoadedLanguageModel>& model,
                const OpenOptions& options);
nb::object made(const std::shared_ptr<const pipelines::LoadedTextEncoder>& encoder);
nb::object made(const std::shared_ptr<const pipelines::LoadedImageEncoder>& encoder,
                const OpenOptions& options);
nb::object made(const std::shared_ptr<const pipelines::LoadedDualEncoder>& encoder,
                const OpenOptions& options);
nb::object made(const std::shared_ptr<const models::SpeechModel>& model, const OpenOptions& options);

// An object with apply(context, next), which may be called by any thread. Throws UsageError for another.
std::shared_ptr<const search::Constraint> constraint_of(nb::handle object);

// Takes an option out of `given`; nothing if it is missing or None.
std::optional<nb::object> take(nb::dict& given, const char* name);

template <class Value>
bool take_value(nb::dict& given, const char* name, Value& value) {
  const std::optional<nb::object> found = take(given, name);
  if (found) assign(name, *found, value);
  return found.has_value();
}
template <class Value>
void take_value(nb::dict& given, const char* name, std::optional<Value>& value) {
  Value found{};
  if (take_value(given, name, found)) value = found;
}

// Throws DataError naming the text, or another input, of several.
void require_result(const std::string& error, size_t index, size_t count, const char* input = "text");

template <class Result, class Json>
Texts json_of_all(const std::vector<Result>& results, const Json& json) {
  Texts texts;
  for (size_t i = 0; i < results.size(); ++i) {
    require_result(results[i].error, i, results.size());
    texts.push_back(json(results[i]));
  }
  return texts;
}

// {"model", "kind", "family", "dtype", "parameters", "active_parameters", "weight_bytes", "parts"}.
template <class Model>
nlohmann::ordered_json described(const char* kind, const std::filesystem::path& folder, const Model& model) {
  const std::vector<explain::PartCount> parts = explain::count_parts(model);
  const explain::PartCount total = explain::total(parts);
  return {{"model", folder.string()},
          {"kind", kind},
          {"family", models::family_of(folder)},
          {"dtype", weight_dtype_name(models::weight_dtype(model))},
          {"parameters", nn::count_parameters(model)},
          {"active_parameters", total.active},
          {"weight_bytes", total.weight_bytes},
          {"parts", nlohmann::ordered_json::parse(explain::to_json(parts))}};
}

// Takes the options of a search without sampling.
template <class Tokenizer>
void take_plain_search(nb::dict& given, const Tokenizer& tokenizer, search::SearchOptions& search) {
  const bool least = given.contains("min_new_tokens");
  take_fields(given, search);
  if (!least) search.min_new_tokens = std::min(search.min_new_tokens, search.max_new_tokens);
  if (const auto forbid = take(given, "forbid")) {
    for (auto& ids : pipelines::bad_words(tokenizer, nb::cast<Texts>(*forbid)))
      search.bad_words.push_back(std::move(ids));
  }
  if (const auto constraints = take(given, "constraints")) {
    for (const nb::handle one : *constraints) search.constraints.push_back(constraint_of(one));
  }
  if (const auto stop = take(given, "stop_ids")) {
    for (const int32_t id : nb::cast<std::vector<int32_t>>(*stop)) search.stop.push_back(id);
  }
}
// Takes the options of a search and of sampling. defaults: the folder's.
template <class Tokenizer>
void take_search(nb::dict& given, const models::GenerationDefaults& defaults, const Tokenizer& tokenizer,
                 search::SearchOptions& search) {
  std::optional<bool> sample;
  take_value(given, "sample", sample);
  search::Sampling sampling = search.sampling ? *search.sampling : pipelines::sampling_defaults(defaults);
  if (take_fields(given, sampling) || sample.value_or(search.sampling.has_value())) {
    search.sampling = sampling;
    search.beam = 1;
  }
  if (sample && !*sample) search.sampling.reset();
  take_plain_search(given, tokenizer, search);
}
// Their names.
std::string search_option_names();

// Requests that are prepared in parallel, with checks for signals.
template <class Item, class Prepare>
auto prepared(const std::vector<Item>& items, const Prepare& prepare) {
  std::vector<decltype(prepare(size_t{0}))> requests(items.size());
  Ticker tick;
  constexpr int64_t kChunk = 1024;
  for (int64_t first = 0; first < std::ssize(items); first += kChunk) {
    parallel_for(std::min(kChunk, std::ssize(items) - first), 8, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(first + begin); i < static_cast<size_t>(first + end); ++i)
        requests[i] = prepare(i);
    });
    tick();
  }
  return requests;
}

// Through the model's engine: finish(request, its result) for each request.
template <class Request, class Finish>
auto decoded(SharedEngine& engine, std::vector<Request> requests, const Finish& finish) {
  std::vector<size_t> submitted;
  std::vector<search::Request> to_decode;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].done()) continue;
    submitted.push_back(i);
    to_decode.push_back(requests[i].decode);
  }
  std::vector<search::Decoded> all(requests.size()), found = engine.decode(std::move(to_decode));
  for (size_t k = 0; k < submitted.size(); ++k) all[submitted[k]] = std::move(found[k]);
  std::vector<decltype(finish(std::move(requests[0]), std::move(all[0])))> results;
  for (size_t i = 0; i < requests.size(); ++i)
    results.push_back(finish(std::move(requests[i]), std::move(all[i])));
  return results;
}

// The JSON of each scored text or pair, with checks for signals.
template <class Item, class Scorer>
Texts scored(const std::vector<Item>& items, const Scorer& scorer) {
  constexpr size_t kChunk = 256;
  Ticker tick;
  Texts texts;
  for (size_t first = 0; first < items.size(); first += kChunk) {
    const auto results = scorer(std::span(items).subspan(first, std::min(kChunk, items.size() - first)));
    for (size_t i = 0; i < results.size(); ++i) {
      require_result(results[i].error, first + i, items.size());
      texts.push_back(to_json(results[i]));
    }
    tick();
  }
  return texts;
}

}  // namespace qkv::python
