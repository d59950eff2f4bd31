#pragma once
// The ranks of a run on several machines (MPI's term): processes with the same program and data, numbered
// from 0, the root. Between two ranks messages keep their order.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/base/error.h"

namespace qkv {

// Thrown by a communication after another rank has failed, or does not answer.
class RankError : public Error {
 public:
  using Error::Error;
};

class Communicator {
 public:
  struct Outgoing {
    int to;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int from;
    std::span<std::byte> bytes;
  };

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool is_root() const { return rank() == 0; }
  // The name of the rank's machine; empty: all are on one.
  virtual std::string host(int /*rank*/) const { return {}; }
  // For messages: "rank 2 (node7)".
  virtual std::string name(int rank) const { return concat("rank ", rank); }

  // Messages under way, whose buffers must stay as they are until then.
  class Transfer {
   public:
    virtual ~Transfer() = default;  // after all messages, or a failure of another rank
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    // Returns when the buffers may be used again. Throws RankError.
    virtual void wait() = 0;
    // Whether wait() would return at once.
    virtual bool done() = 0;
    // When the last message ended, if all have.
    virtual std::chrono::steady_clock::time_point ended() const = 0;

   protected:
    Transfer() = default;
  };
  // Begins to send and receive messages, to and from other ranks, which go on while the caller computes. The
  // k-th message to a rank is the k-th that it receives from this one, of the same size, by the order of the
  // calls. Throws RankError.
  virtual std::unique_ptr<Transfer> start(std::span<const Outgoing> outgoing,
                                          std::span<const Incoming> incoming) = 0;
  // The same, to the end.
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
    start(outgoing, incoming)->wait();
  }
  // Of this rank, since its start.
  struct Traffic {
    int64_t bytes_sent = 0;
    double waiting = 0;  // seconds in wait()
  };
  virtual Traffic traffic() const { return {}; }
  // Makes the communications of all other ranks throw RankError, or ends them: this one has failed.
  virtual void fail(int exit_status) noexcept = 0;

  void send(int to, std::span<const std::byte> bytes);
  void receive(int from, std::span<std::byte> bytes);

  // The functions below are called by all ranks, in the same order.

  // The root's bytes replace the others'. The sizes must be equal.
  void broadcast(std::span<std::byte> bytes);
  // Returns the root's text.
  std::string broadcast(std::string text);
  // Returns the texts of all ranks, in their order.
  std::vector<std::string> all_gather(const std::string& text);
  // Returns after all ranks have called it.
  void barrier() { all_gather({}); }

 protected:
  Communicator() = default;
};

// The only rank: nothing is exchanged.
Communicator& alone();

}  // namespace qkv
