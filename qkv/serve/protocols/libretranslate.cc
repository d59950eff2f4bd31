// LibreTranslate's protocol: /translate, /languages.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/base/utf8.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

std::string libre_error(const HttpError& error) {
  return concat(R"({"error":)", json_string(error.what()), "}");
}

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

const text::TranslationTokenizer& tokenizer_of(const ServedModel& model) {
  return *model.pipelines().translator->model().tokenizer;
}

// The names of the languages of a model whose texts name theirs; "auto": the folder's.
pipelines::Languages languages_for(const ServedModel& model, const std::string& source,
                                   const std::string& target) {
  if (!tokenizer_of(model).has_languages()) return {};
  return {.source_language = source == "auto" ? "" : source, .target_language = target};
}

bool knows(const ServedModel& model, const std::string& source, const std::string& target) {
  const text::TranslationTokenizer& tokenizer = tokenizer_of(model);
  return (source == "auto" || tokenizer.find_language(source)) && tokenizer.find_language(target);
}

// The model for a pair of languages: one whose folder names both, else one whose folder names none.
ModelHandle model_for(Service& service, const std::string& source, const std::string& target) {
  ModelHandle unnamed;
  std::string pairs;
  for (const ModelHandle& model : service.models().all()) {
    if (!model->has("translate")) continue;
    const Languages& languages = model->languages();
    if (tokenizer_of(*model).has_languages()) {
      if (knows(*model, source, target)) return model;
      pairs += concat(pairs.empty() ? "" : ", ", "the languages of ", model->name());
      continue;
    }
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
    if (model->has("translate")) {
      const std::vector<std::string> known = tokenizer_of(*model).languages();
      for (const std::string& code : known)
        targets[code].insert(targets[code].end(), known.begin(), known.end());
    }
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

// Calls use(line, blank) for each line of a text. Lines are translated one by one, as LibreTranslate does,
// and blank ones stay as they are.
template <class Use>
void for_each_line(std::string_view text, const Use& use) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    use(line, line.find_first_not_of(" \t\r") == line.npos);
    begin = end + 1;
  }
}

// The text with the k-th hypothesis of each line, or the last one of a line that has fewer. `results`: of the
// lines that are not blank.
std::string translated(std::string_view text, std::span<const pipelines::Translation> results, size_t k) {
  std::string joined;
  size_t next = 0;
  for_each_line(text, [&](std::string_view line, bool blank) {
    if (line.data() != text.data()) joined += '\n';
    if (blank) {
      joined += line;
      return;
    }
    const auto& hypotheses = results[next++].hypotheses;
    if (!hypotheses.empty()) joined += hypotheses[std::min(k, hypotheses.size() - 1)].text;
    if (line.ends_with('\r')) joined += '\r';
  });
  return joined;
}

void translate_libre(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange, json_body(exchange->request()));
  bool is_list = false;
  const std::vector<std::string> texts = fields.texts("q", &is_list);
  const std::string source = fields.required("source").string(), target = fields.required("target").string();
  const std::string format = fields.text("format");
  if (format != "text" && !format.empty())
    throw HttpError(400, concat("format: expected \"text\", found ", quoted_json(format)));
  const auto alternatives = static_cast<int>(*fields.integer("alternatives"));
  fields.find("api_key");  // keys are sent as "Authorization: Bearer KEY"
  fields.done();
  const ModelHandle model = model_for(service, source, target);
  pipelines::TranslateOptions options = model->pipelines().translator->default_options();
  options.languages = languages_for(*model, source, target);
  options.search.nbest = alternatives + 1;
  options.search.beam = std::max(options.search.beam, options.search.nbest);
  std::vector<pipelines::Source> sources;
  std::vector<size_t> ends;  // of each text's sources
  for (const std::string& text : texts) {
    for_each_line(text, [&](std::string_view line, bool blank) {
      if (blank) return;
      if (sources.size() == Fields::kMaxTexts)
        throw HttpError(400, concat("q: expected at most ", Fields::kMaxTexts, " lines in all, found more"));
      if (line.ends_with('\r')) line.remove_suffix(1);
      sources.push_back({.text = std::string(line), .key = sources.size() + 1});
    });
    ends.push_back(sources.size());
  }
  translate(*model, exchange->call(model), sources, options,
            [exchange, is_list, alternatives, texts, ends](const std::vector<pipelines::Translation>& results,
                                                           const std::exception_ptr& error) {
              exchange->answer(error, [&] {
                ResponseJson found = ResponseJson::array(), others = ResponseJson::array();
                for (size_t i = 0, begin = 0; i < texts.size(); begin = ends[i++]) {
                  const auto own = std::span(results).subspan(begin, ends[i] - begin);
                  size_t hypotheses = 0;
                  for (const pipelines::Translation& one : own) {
                    require_result(one.error, "q", i, is_list);
                    hypotheses = std::max(hypotheses, one.hypotheses.size());
                  }
                  found.push_back(translated(texts[i], own, 0));
                  ResponseJson more = ResponseJson::array();
                  for (size_t k = 1; k < hypotheses; ++k) more.push_back(translated(texts[i], own, k));
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
  std::vector<Route> routes{
      post("/translate", translate_libre, "Translate a text, or texts.",
           {required("q", kTexts, "Text or texts to translate"),
            required("source", "string", "Code of its language, or auto"), required("target", "string"),
            optional("format", R"("text" | "")", "", R"("text")"),
            whole("alternatives", between(0, 20), "", "0"),
            optional("api_key", "any", "Ignored: keys are sent as Authorization: Bearer KEY")},
           "{translatedText: string | [string], alternatives?: [string | [string]]}",
           {.body = Body::json_or_form}),
      get("/languages", list_languages, "List the languages that the models name.",
          "[{code: string, name: string, targets: [string]}]")};
  for (Route& route : routes) {
    route.tag = "LibreTranslate";
    route.error_shape = libre_error;
    route.error = "LibreTranslateError";
  }
  return routes;
}

}  // namespace qkv::serve
