#pragma once
// What the files of qkv's own protocol share.

#include <functional>
#include <string>
#include <vector>

#include "qkv/serve/protocols/json_text.h"
#include "qkv/serve/service.h"
#include "qkv/serve/work/gather.h"

namespace qkv::serve {

// The routes by idea: translations and scores, labels and spans of texts, attention, images.
std::vector<Route> writing_routes();
std::vector<Route> label_routes();
std::vector<Route> attention_routes();
std::vector<Route> image_routes();

// The type of the answer that results_json() makes (schema.h); `result`: of one text.
std::string results_type(const std::string& result);

// {"model": ..., key: [...]}, a JSON object for each text. more: further members, such as ,"seed":3.
std::string results_json(const ServedModel& model, const char* key, const std::vector<std::string>& results,
                         const std::string& more = {});

// Sends the results of all texts, or the error of the call.
template <class Result, class ToJson>
typename Gather<Result>::Done sender(const ExchangeHandle& exchange, const ModelHandle& model,
                                     const char* key, const ToJson& to_text, const std::string& more = {}) {
  return [exchange, model, key, to_text, more](const std::vector<Result>& results,
                                               const std::exception_ptr& error) {
    exchange->answer(error, [&] {
      std::vector<std::string> objects;
      size_t bytes = 0;
      for (const Result& result : results) {
        objects.push_back(to_text(result));
        add_bytes(bytes, objects.back().size());
      }
      exchange->send_json(results_json(*model, key, objects, more));
    });
  };
}

// Throws HttpError (400) for more labels than a request may have.
void require_few_labels(const std::vector<std::string>& labels);

// Work for the model's serial worker: `work` returns the answer.
void run_serially(const ModelHandle& model, const ExchangeHandle& exchange,
                  std::function<std::string()> work);

}  // namespace qkv::serve
