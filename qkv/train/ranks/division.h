#pragma once
// The batches of a validation, divided among ranks. Results are taken in the order of the batches, so that
// sums have the same bits for any number of ranks.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/base/communicator.h"

namespace qkv::train {

// Runs work(i) for i from 0 to count - 1, each on one of the ranks, which all call this with the same work;
// then take(i, result) for all i in order, on each rank. Returns false, without having taken all, if *stop
// became true on any rank, which is polled between batches; null: never. Throws what work() throws on this
// rank, and for another rank's error one that names it.
bool divide(Communicator& ranks, const std::atomic<bool>* stop, int64_t count,
            const std::function<std::string(int64_t batch)>& work,
            const std::function<void(int64_t batch, std::string_view result)>& take);

// Numbers as a result.
template <class T>
std::string pack(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
template <class T>
std::vector<T> unpack(std::string_view result) {
  std::vector<T> values(result.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), result.data(), result.size());
  return values;
}

}  // namespace qkv::train
