#pragma once
// Runs prepared requests through a temporary engine.

#include <utility>
#include <vector>

#include "qkv/search/engine/engine.h"

namespace qkv::pipelines {

// finish(request, engine's result) for each request, in order.
template <class Request, class Finish>
auto run_engine(search::Engine engine, std::vector<Request> requests, const Finish& finish) {
  std::vector<size_t> submitted;
  std::vector<search::Request> to_decode;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].done()) continue;
    submitted.push_back(i);
    to_decode.push_back(requests[i].decode);
  }
  std::vector<search::Decoded> decoded(requests.size()), found = search::decode_all(engine, to_decode);
  for (size_t k = 0; k < submitted.size(); ++k) decoded[submitted[k]] = std::move(found[k]);
  std::vector<decltype(finish(std::move(requests[0]), std::move(decoded[0])))> results;
  for (size_t i = 0; i < requests.size(); ++i)
    results.push_back(finish(std::move(requests[i]), std::move(decoded[i])));
  return results;
}

}  // namespace qkv::pipelines
