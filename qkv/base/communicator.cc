#include "qkv/base/communicator.h"

#include <cstdint>
#include <utility>

namespace qkv {
namespace {

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Transfer> start(std::span<const Outgoing> outgoing,
                                  std::span<const Incoming> incoming) override {
    struct Nothing final : Transfer {
      void wait() override {}
      bool done() override { return true; }
      std::chrono::steady_clock::time_point ended() const override { return {}; }
    };
    if (outgoing.empty() && incoming.empty()) return std::make_unique<Nothing>();
    throw UsageError("exchange: expected no message in a run of one rank, found some");
  }
  void fail(int /*exit_status*/) noexcept override {}
};

}  // namespace

Communicator& alone() {
  static Alone instance;
  return instance;
}

void Communicator::send(int to, std::span<const std::byte> bytes) {
  const Outgoing message{to, bytes};
  exchange({&message, 1}, {});
}

void Communicator::receive(int from, std::span<std::byte> bytes) {
  const Incoming message{from, bytes};
  exchange({}, {&message, 1});
}

// A binomial tree: a rank receives from the one without its lowest bit, and serves those with one lower bit
// more.
void Communicator::broadcast(std::span<std::byte> bytes) {
  const int own = rank(), count = size();
  int bit = 1;
  while (bit < count && (own & bit) == 0) bit *= 2;
  if (own != 0) receive(own - bit, bytes);
  std::vector<Outgoing> outgoing;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (own + bit < count) outgoing.push_back({own + bit, bytes});
  }
  exchange(outgoing, {});
}

std::string Communicator::broadcast(std::string text) {
  uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)));
  text.resize(length);
  broadcast(std::as_writable_bytes(std::span(text)));
  return text;
}

std::vector<std::string> Communicator::all_gather(const std::string& text) {
  const uint64_t length = text.size();
  std::vector<uint64_t> lengths(static_cast<size_t>(size()));
  std::vector<std::string> all(lengths.size());
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    outgoing.push_back({other, std::as_bytes(std::span(&length, 1))});
    incoming.push_back({other, std::as_writable_bytes(std::span(&lengths[static_cast<size_t>(other)], 1))});
  }
  exchange(outgoing, incoming);
  for (Outgoing& message : outgoing) message.bytes = std::as_bytes(std::span(text));
  for (Incoming& message : incoming) {
    std::string& theirs = all[static_cast<size_t>(message.from)];
    theirs.resize(lengths[static_cast<size_t>(message.from)]);
    message.bytes = std::as_writable_bytes(std::span(theirs));
  }
  exchange(outgoing, incoming);
  all[static_cast<size_t>(rank())] = text;
  return all;
}

}  // namespace qkv
