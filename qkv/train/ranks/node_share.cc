#include "qkv/train/ranks/node_share.h"

namespace qkv::train {

NodeShare::NodeShare(Communicator& ranks) : ranks_(&ranks), first_(ranks.rank()) {
  for (int rank = ranks.size() - 1; rank >= 0; --rank) {
    if (ranks.host(rank) == ranks.host(ranks.rank())) first_ = rank;
  }
  for (int rank = first_ + 1; rank < ranks.size(); ++rank) {
    if (is_first() && ranks.host(rank) == ranks.host(first_)) others_.push_back(rank);
  }
}

void NodeShare::add_bytes(std::span<std::byte> bytes) {
  if (!is_first()) return ranks_->receive(first_, bytes);
  parts_.emplace_back(bytes.begin(), bytes.end());
}

void NodeShare::send() {
  std::vector<Communicator::Outgoing> outgoing;
  for (const std::vector<std::byte>& part : parts_) {
    for (const int other : others_) outgoing.push_back({other, part});
  }
  std::vector<std::byte> done(others_.size() + 1);  // of each other rank, or of this one
  std::vector<Communicator::Incoming> incoming;
  if (!is_first()) outgoing.push_back({first_, done});
  for (size_t i = 0; i < others_.size(); ++i) incoming.push_back({others_[i], std::span(&done[i], 1)});
  ranks_->exchange(outgoing, incoming);
  parts_.clear();
}

}  // namespace qkv::train
