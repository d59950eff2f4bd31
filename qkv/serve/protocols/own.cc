// qkv's own protocol: what the command line does, with its JSON.

#include "qkv/serve/protocols/own.h"

#include <array>
#include <utility>

#include "qkv/base/json.h"

namespace qkv::serve {

std::string results_type(const std::string& result) {
  return concat("{model: string, results: [Failed | ", result, "]}");
}

std::string results_json(const ServedModel& model, const char* key, const std::vector<std::string>& results,
                         const std::string& more) {
  return concat(R"({"model":)", quoted_json(model.name()), more, R"(,")", key, R"(":)", json_list(results),
                "}");
}

void run_serially(const ModelHandle& model, const ExchangeHandle& exchange,
                  std::function<std::string()> work) {
  model->serial().submit(
      exchange->call(model),
      {.run =
           [exchange, model, work = std::move(work)] {
             std::string answer = work();
             exchange->answer(nullptr, [&] { exchange->send_json(std::move(answer)); });
           },
       .on_failed = [exchange](const std::exception_ptr& error) { exchange->fail(error); }});
}

void require_few_labels(const std::vector<std::string>& labels) {
  constexpr size_t kMost = 100;
  if (labels.size() > kMost)
    throw HttpError(400, concat("labels: expected at most ", kMost, ", found ", labels.size()));
}

std::vector<Route> own_routes() {
  std::vector<Route> routes;
  for (std::vector<Route>& some :
       std::array{writing_routes(), label_routes(), attention_routes(), image_routes()}) {
    for (Route& route : some) {
      route.tag = "qkv";
      routes.push_back(std::move(route));
    }
  }
  return routes;
}

}  // namespace qkv::serve
