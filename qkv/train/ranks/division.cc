#include "qkv/train/ranks/division.h"

#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"

namespace qkv::train {
namespace {

using nlohmann::json;

constexpr std::byte kEnds{0}, kStops{1};

// Tells the other ranks that this one has ended, or was requested to stop.
class Notice {
 public:
  explicit Notice(Communicator& ranks)
      : ranks_(ranks), from_others_(static_cast<size_t>(ranks.size()), kEnds) {
    for (int other = 0; other < ranks.size(); ++other) {
      if (other == ranks.rank()) continue;
      const Communicator::Incoming wanted{other, std::span(&from_others_[static_cast<size_t>(other)], 1)};
      receiving_.push_back({other, ranks.start({}, {&wanted, 1})});
    }
  }
  bool stops() {
    for (const auto& [other, transfer] : receiving_) {
      if (transfer->done() && from_others_[static_cast<size_t>(other)] == kStops) return true;
    }
    return false;
  }
  void send(std::byte what) {
    std::vector<Communicator::Outgoing> outgoing;
    for (const auto& [other, transfer] : receiving_) outgoing.push_back({other, std::span(&what, 1)});
    ranks_.exchange(outgoing, {});
    for (const auto& [other, transfer] : receiving_) transfer->wait();
  }

 private:
  Communicator& ranks_;
  std::vector<std::byte> from_others_;
  std::vector<std::pair<int, std::unique_ptr<Communicator::Transfer>>> receiving_;  // ends before the bytes
};

}  // namespace

bool divide(Communicator& ranks, const std::atomic<bool>* stop, int64_t count,
            const std::function<std::string(int64_t)>& work,
            const std::function<void(int64_t, std::string_view)>& take) {
  const auto stopped = [stop] { return stop && *stop; };
  if (ranks.size() == 1) {
    for (int64_t i = 0; i < count; ++i) {
      if (stopped()) return false;
      take(i, work(i));
    }
    return true;
  }
  std::string results;
  json own{{"sizes", json::array()}, {"stopped", false}};
  std::exception_ptr error;
  Notice notice(ranks);
  try {
    for (int64_t i = ranks.rank(); i < count; i += ranks.size()) {
      if (stopped() || notice.stops()) {
        own["stopped"] = true;
        break;
      }
      const std::string result = work(i);
      own["sizes"].push_back(result.size());
      results += result;
    }
  } catch (const std::exception& failure) {
    error = std::current_exception();
    own["error"] = failure.what();
  }
  notice.send(own["stopped"] || error ? kStops : kEnds);

  std::string text;
  json::to_cbor(own, text);
  std::vector<json> all;
  for (const std::string& one : ranks.all_gather(text)) all.push_back(json::from_cbor(one));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].contains("error")) continue;
    const std::string where = ranks.name(static_cast<int>(rank));
    if (!ranks.is_root()) throw RankError(concat(where, " has failed"));  // the root reports it
    if (error) std::rethrow_exception(error);
    throw Error(concat(where, ": ", all[rank]["error"].get<std::string>()));
  }
  for (const json& one : all) {
    if (one["stopped"].get<bool>()) return false;
  }
  const std::vector<std::string> parts = ranks.all_gather(results);
  std::vector<size_t> at(parts.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto rank = static_cast<size_t>(i % ranks.size());
    const size_t size = all[rank]["sizes"].at(static_cast<size_t>(i / ranks.size()));
    take(i, std::string_view(parts[rank]).substr(at[rank], size));
    at[rank] += size;
  }
  return true;
}

}  // namespace qkv::train
