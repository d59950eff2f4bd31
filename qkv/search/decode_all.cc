// Lists of requests, decoded by an engine.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/search/engine/engine.h"

namespace qkv::search {

std::vector<Decoded> decode_all(Engine& engine, std::span<const Request> requests,
                                const std::function<Request(const Request&)>& fit) {
  if (!engine.idle()) throw UsageError("search: expected an idle engine, found one with other requests");
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Longest first: short requests fill the gaps at the end.
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return requests[i].source.size(); });
  std::vector<Decoded> results(requests.size());
  // Ids, which ascend, and indices. All memory first: a request that was submitted must have its place.
  std::vector<std::pair<uint64_t, size_t>> submitted;
  submitted.reserve(requests.size());
  for (const size_t i : order) {
    try {
      submitted.emplace_back(engine.submit(fit ? fit(requests[i]) : requests[i]), i);
    } catch (...) {
      results[i].error = std::current_exception();
    }
  }
  while (!engine.idle()) {
    for (Decoded& one : engine.step()) {
      const auto found =
          std::ranges::lower_bound(submitted, one.request_id, {}, &std::pair<uint64_t, size_t>::first);
      results[found->second] = std::move(one);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) results[i].request_id = i;
  return results;
}

std::vector<NBest> hypotheses_of(std::vector<Decoded> decoded) {
  std::vector<NBest> result;
  for (Decoded& one : decoded) {
    if (one.error) std::rethrow_exception(one.error);
    result.push_back(std::move(one.hypotheses));
  }
  return result;
}

std::vector<NBest> search(StepModel& step_model, const SpecialIds& special,
                          std::span<const Request> requests) {
  for (const Request& request : requests) request.options.validate();
  Engine engine(std::shared_ptr<StepModel>(std::shared_ptr<StepModel>(), &step_model), special);
  return hypotheses_of(decode_all(engine, requests));
}

}  // namespace qkv::search
