// qkv.open(), and what the kinds of models share.

#include "python/bind/pipelines.h"
#include "qkv/hub/cache.h"
#include "qkv/models/speech_model.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/speech/transcribe.h"
#include "qkv/pipelines/translate.h"

namespace qkv::python {

std::optional<nb::object> take(nb::dict& given, const char* name) {
  if (!given.contains(name)) return std::nullopt;
  const nb::object value = given[name];
  nb::del(given[name]);
  if (value.is_none()) return std::nullopt;
  return value;
}

void require_result(const std::string& error, size_t index, size_t count, const char* input) {
  if (error.empty()) return;
  throw DataError(count == 1 ? error : concat(input, " ", index, ": ", error));
}

std::string search_option_names() {
  std::string known = "sample, forbid, stop_ids, constraints";
  add_field_names<search::SearchOptions>(known);
  add_field_names<search::Sampling>(known);
  return known;
}

namespace {

DType dtype_named(const char* option, const std::string& name) {
  std::string known;
  for (const std::string& one : weight_dtype_names()) {
    if (one == name) return weight_dtype_from_name(one);
    known += concat(known.empty() ? "" : ", ", one);
  }
  throw UsageError(concat(option, ": expected one of ", known, ", found '", name, "'"));
}

OpenOptions open_options(nb::dict given) {
  OpenOptions options;
  std::string text;
  if (take_value(given, "dtype", text)) options.load.dtype = dtype_named("dtype", text);
  if (take_value(given, "device", text)) parse_field("device", text, options.load.device);
  if (take_value(given, "activations", text)) options.load.activations = dtype_named("activations", text);
  if (const auto adapter = take(given, "adapter"))
    options.load.adapter = hub::model_folder(nb::cast<std::filesystem::path>(*adapter).string());
  if (take_value(given, "cache_dtype", text))
    options.step_model.cache_dtype = dtype_named("cache_dtype", text);
  int64_t side = 0;
  if (take_value(given, "image_size", side)) options.images.size = models::ImageSize{side, side};
  take_fields(given, options.engine);
  std::string known = "kind, dtype, device, activations, adapter, cache_dtype, image_size";
  add_field_names<search::EngineOptions>(known);
  refuse_rest(given, known);
  options.engine.validate();
  options.step_model.validate();
  return options;
}

nb::object open(const std::filesystem::path& name, const std::optional<std::string>& kind,
                const nb::dict& given) {
  const OpenOptions options = open_options(nb::dict(given));
  if (kind && *kind != "encoder")
    throw UsageError(concat("kind: expected 'encoder' or None, found '", *kind, "'"));
  const std::filesystem::path folder = hub::model_folder(name.string());
  const pipelines::OpenedModel opened = released([&]() -> pipelines::OpenedModel {
    if (kind) return pipelines::open_text_encoder(folder, options.load);
    return pipelines::open_model(folder, options.load);
  });
  return std::visit(
      [&]<class Handle>(const Handle& model) -> nb::object {
        if constexpr (std::is_same_v<Handle, std::shared_ptr<const models::TranslationModel>>) {
          return made(folder, model, options);
        } else if constexpr (std::is_same_v<Handle, std::shared_ptr<const pipelines::LoadedLanguageModel>>) {
          return made(model, options);
        } else if constexpr (std::is_same_v<Handle, std::shared_ptr<const pipelines::LoadedTextEncoder>>) {
          return made(model);
        } else {
          return made(model, options);
        }
      },
      opened);
}

// A type of Python.
template <class Value>
std::string type_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    std::string names;
    for (const auto& [word, kind] : words(value)) names += concat(names.empty() ? "\"" : ", \"", word, "\"");
    return "Literal[" + names + "]";
  } else if constexpr (std::is_same_v<Value, bool>) {
    return "bool";
  } else if constexpr (std::is_integral_v<Value>) {
    return "int";
  } else if constexpr (is_number<Value>) {
    return "float";
  } else {
    return "str";
  }
}

// without: a group that is left out.
template <class Options>
void list_fields(nb::list& list, std::optional<std::string_view> without = {}) {
  Options::visit_fields(Options(), [&](const OptionField& field, const auto& value) {
    if (without && field.group == *without) return;
    list.append(nb::make_tuple(nb::str(field.name.data(), field.name.size()), type_of(value),
                               nb::str(field.help.data(), field.help.size())));
  });
}

// (name, type, help) of the options "search", "languages", "engine", "answer" and "transcribe".
nb::list option_fields(const std::string& of) {
  nb::list list;
  if (of == "search") {
    list_fields<search::SearchOptions>(list);
    list_fields<search::Sampling>(list);
  } else if (of == "languages") {
    list_fields<pipelines::Languages>(list);
  } else if (of == "engine") {
    list_fields<search::EngineOptions>(list);
  } else if (of == "answer") {
    list_fields<pipelines::AnswerOptions>(list);
  } else if (of == "transcribe") {
    list_fields<pipelines::TranscribeOptions>(list);
    list_fields<search::SearchOptions>(list, search::SearchOptions::kOutputs);
  } else {
    throw UsageError(
        concat("option_fields: expected search, languages, engine, answer or transcribe, found '", of, "'"));
  }
  return list;
}

}  // namespace

void bind_models(nb::module_& module) {
  module.def("option_fields", option_fields, nb::arg("of"), "(name, type, help) of options.");
  module.def("open", open, nb::arg("folder"), nb::arg("kind").none(), nb::arg("options"));
  bind_translation(module);
  bind_language(module);
  bind_text_encoder(module);
  bind_image_encoder(module);
  bind_speech(module);
  bind_attention(module);
}

}  // namespace qkv::python
