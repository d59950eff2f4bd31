// Encoder-decoders.

#include "python/bind/pipelines.h"
#include "qkv/explain/captured_report.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/translate.h"

namespace qkv::python {
namespace {

class TranslationModel {
 public:
  TranslationModel(std::filesystem::path folder, std::shared_ptr<const models::TranslationModel> model,
                   const OpenOptions& options)
      : folder_(std::move(folder)),
        model_(std::move(model)),
        translator_(model_),
        engine_([this, options] { return translator_.make_engine(options.engine, options.step_model); }) {}

  std::string inspect() const {
    return described("translation", folder_, *translator_.model().transformer).dump();
  }

  pipelines::TranslateOptions options(nb::dict given, pipelines::TranslationFields& fields) const {
    pipelines::TranslateOptions options = translator_.default_options();
    take_search(given, translator_.model().generation, *translator_.model().tokenizer, options.search);
    take_fields(given, options.languages);
    take_value(given, "alignment", options.alignment);
    take_value(given, "truncate", options.truncate);
    take_value(given, "max_source_tokens", options.max_source_tokens);
    std::string known = concat("alignment, truncate, max_source_tokens, ", search_option_names());
    add_field_names<pipelines::Languages>(known);
    refuse_rest(given, known);
    options.search.validate();
    fields = {.scores = true, .alignment = options.alignment};
    return options;
  }

  std::vector<pipelines::Translation> run(const std::vector<pipelines::Source>& sources,
                                          const pipelines::TranslateOptions& options) {
    auto requests = prepared(sources, [&](size_t i) { return translator_.prepare(sources[i], options); });
    return decoded(engine_, std::move(requests),
                   [&](pipelines::TranslationRequest request, search::Decoded result) {
                     return translator_.finish(std::move(request), std::move(result));
                   });
  }

  // Pairs of the text and its JSON, which is empty unless wanted.
  std::vector<std::pair<std::string, std::string>> translate(const Texts& texts, const Texts& prefixes,
                                                             bool details, const nb::dict& given) {
    pipelines::TranslationFields fields;
    const pipelines::TranslateOptions options = this->options(nb::dict(given), fields);
    std::vector<pipelines::Source> sources;
    for (size_t i = 0; i < texts.size(); ++i) {
      sources.push_back({.text = texts[i], .prefix = prefixes.empty() ? "" : prefixes.at(i), .key = i + 1});
    }
    return released([&] {
      const auto results = run(sources, options);
      std::vector<std::pair<std::string, std::string>> texts_and_details;
      for (size_t i = 0; i < results.size(); ++i) {
        require_result(results[i].error, i, results.size());
        texts_and_details.emplace_back(results[i].text, details ? to_json(results[i], fields) : "");
      }
      return texts_and_details;
    });
  }

  Texts score(const Texts& sources, const Texts& targets) const {
    if (sources.size() != targets.size())
      throw UsageError(
          concat("targets: expected one for each of ", sources.size(), " sources, found ", targets.size()));
    const pipelines::PairScorer scorer(model_);
    std::vector<pipelines::TextPair> pairs;
    for (size_t i = 0; i < sources.size(); ++i) pairs.push_back({.source = sources[i], .target = targets[i]});
    return scored(pairs, scorer);
  }

  std::string tokenize(const std::string& text, bool target) const {
    const text::Tokenizer& tokenizer =
        model_->tokenizer->tokenizer(target ? text::Side::target : text::Side::source);
    return pipelines::to_json(tokenizer.encode(text), tokenizer);
  }
  std::string decode(const std::vector<int32_t>& ids) const { return model_->tokenizer->decode(ids); }

  std::shared_ptr<explain::AttentionReport> attention(const std::string& source,
                                                      const std::string& target) const {
    return std::make_shared<explain::AttentionReport>(explain::attention_report(
        pipelines::capture_text(*model_, source, target, translator_.default_options().search),
        folder_.string()));
  }

  std::shared_ptr<models::Transformer> model() const {
    return std::const_pointer_cast<models::Transformer>(model_->transformer);
  }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const models::TranslationModel> model_;
  pipelines::Translator translator_;
  SharedEngine engine_;
};

}  // namespace

nb::object made(const std::filesystem::path& folder,
                const std::shared_ptr<const models::TranslationModel>& model, const OpenOptions& options) {
  return nb::cast(std::make_shared<TranslationModel>(folder, model, options));
}

void bind_translation(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<TranslationModel>(module, "TranslationModel")
      .def("inspect", &TranslationModel::inspect)
      .def("translate", &TranslationModel::translate, nb::arg("texts"), nb::arg("prefixes"),
           nb::arg("details"), nb::arg("options"))
      .def("score", &TranslationModel::score, nb::arg("sources"), nb::arg("targets"), without_gil)
      .def("tokenize", &TranslationModel::tokenize, nb::arg("text"), nb::arg("target"))
      .def_prop_ro("model", &TranslationModel::model)
      .def("decode", &TranslationModel::decode, nb::arg("ids"))
      .def("attention", &TranslationModel::attention, nb::arg("source"), nb::arg("target"), without_gil);
}

}  // namespace qkv::python
