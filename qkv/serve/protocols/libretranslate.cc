// LibreTranslate's protocol: /translate, /languages.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/base/utf8.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/protocols/route.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

std::string libre_error(const HttpError& error) { return dump({{"error", error.what()}}); }

std::string language_name(const std::string& code) {
  using Pair = std::pair<std::string_view, const char*>;
  static constexpr std::array kNames{
      Pair{"en", "English"},   Pair{"de", "German"},   Pair{"fr", "French"},     Pair{"es", "Spanish"},
      Pair{"it", "Italian"},   Pair{"nl", "Dutch"},    Pair{"pt", "Portuguese"}, Pair{"ru", "Russian"},
      Pair{"zh", "Chinese"},   Pair{"ja", "Japanese"}, Pair{"ar", "Arabic"},     Pair{"pl", "Polish"},
      Pair{"sv", "Swedish"},   Pair{"fi", "Finnish"},  Pair{"da", "Danish"},     Pair{"cs", "Czech"},
      Pair{"uk", "Ukrainian"}, Pair{"tr", "Turkish"}};
  const auto found = std::ranges::find(kNames, code, &Pair::first);
  return found == kNames.end() ? code : found->second;
}

// The model for a pair of languages: one whose folder names both, else one whose folder names none.
ModelHandle model_for(Service& service, const std::string& source, const std::string& target) {
  ModelHandle unnamed;
  std::string pairs;
  for (const ModelHandle& model : service.models().all()) {
    if (!model->has("translate")) continue;
    const Languages& languages = model->languages();
    if (languages.source.empty() || languages.target.empty()) {
      if (!unnamed) unnamed = model;
      continue;
    }
    if ((source == "auto" || source == languages.source) && target == languages.target) return model;
    pairs += concat(pairs.empty() ? "" : ", ", languages.source, "-", languages.target);
  }
  if (unnamed) return unnamed;
  if (pairs.empty()) throw HttpError(400, "expected a translation model, found none among the models");
  throw HttpError(400, concat("expected a pair of languages among ", pairs, ", found ", source, "-", target));
}

void list_languages(Service& service, const ExchangeHandle& exchange) {
  std::map<std::string, std::vector<std::string>> targets;
  for (const ModelHandle& model : service.models().all()) {
    const Languages& languages = model->languages();
    if (!languages.source.empty() && !languages.target.empty())
      targets[languages.source].push_back(languages.target);
  }
  ResponseJson list = ResponseJson::array();
  for (const auto& [code, to] : targets)
    list.push_back({{"code", code}, {"name", language_name(code)}, {"targets", to}});
  exchange->send_json(dump(list));
}

// A form's fields as a JSON object of texts, so that both kinds of bodies are read alike. curl says that JSON
// is a form unless told otherwise.
std::string json_body(const HttpRequest& request) {
  const size_t first = request.body.find_first_not_of(" \t\r\n");
  if (!is_form(request) || (first != std::string::npos && request.body[first] == '{')) return request.body;
  ResponseJson object = ResponseJson::object();
  for (const auto& [name, value] : parse_form(request)) {
    const bool number = name == "alternatives" && !value.empty() &&
                        std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; }) &&
                        value.size() < 4;
    if (!valid_utf8(name) || !valid_utf8(value))
      throw HttpError(400, "form: expected UTF-8, found other bytes");
    object[name] = number ? ResponseJson(std::stoi(value)) : ResponseJson(value);
  }
  return dump(object);
}

void translate_libre(Service& service, const ExchangeHandle& exchange) {
  Fields fields(json_body(exchange->request()));
  bool is_list = false;
  const std::vector<std::string> texts = fields.texts("q", &is_list);
  const std::string source = fields.required_text("source"), target = fields.required_text("target");
  const std::string format = fields.text("format", "text");
  if (format != "text" && !format.empty())
    throw HttpError(400, concat("format: expected \"text\", found ", quoted_json(format)));
  const auto alternatives = static_cast<int>(fields.integer("alternatives", 0, 20).value_or(0));
  fields.find("api_key");  // keys are sent as "Authorization: Bearer KEY"
  fields.done();
  const ModelHandle model = model_for(service, source, target);
  pipelines::TranslateOptions options = model->pipelines().translator->default_options();
  options.search.nbest = alternatives + 1;
  options.search.beam = std::max(options.search.beam, options.search.nbest);
  std::vector<pipelines::Source> sources;
  for (size_t i = 0; i < texts.size(); ++i) sources.push_back({.text = texts[i], .key = i + 1});
  translate(*model, exchange->call(model), sources, options,
            [exchange, is_list, alternatives](const std::vector<pipelines::Translation>& results,
                                              const std::exception_ptr& error) {
              exchange->answer(error, [&] {
                ResponseJson found = ResponseJson::array(), others = ResponseJson::array();
                for (size_t i = 0; i < results.size(); ++i) {
                  require_result(results[i].error, "q", i, is_list);
                  found.push_back(results[i].text);
                  ResponseJson more = ResponseJson::array();
                  for (size_t k = 1; k < results[i].hypotheses.size(); ++k)
                    more.push_back(results[i].hypotheses[k].text);
                  others.push_back(std::move(more));
                }
                ResponseJson object{{"translatedText", is_list ? found : found.at(0)}};
                if (alternatives > 0) object["alternatives"] = is_list ? others : others.at(0);
                exchange->send_json(dump(object));
              });
            });
}

}  // namespace

std::vector<Route> libretranslate_routes() {
  return {{"POST", "/translate", translate_libre, libre_error},
          {"GET", "/languages", list_languages, libre_error}};
}

}  // namespace qkv::serve
