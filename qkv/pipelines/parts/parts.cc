#include "qkv/pipelines/parts/parts.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/thread.h"
#include "qkv/pipelines/parts/folder.h"
#include "qkv/pipelines/parts/input.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Texts may have bytes that are not UTF-8, which CBOR keeps.
void send_text(Communicator& ranks, int to, const std::string& text) {
  const uint64_t length = text.size();
  ranks.send(to, std::as_bytes(std::span(&length, 1)));
  ranks.send(to, std::as_bytes(std::span(text)));
}

std::string receive_text(Communicator& ranks, int from) {
  uint64_t length = 0;
  ranks.receive(from, std::as_writable_bytes(std::span(&length, 1)));
  std::string text(length, '\0');
  ranks.receive(from, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string cbor(const json& value) {
  std::string text;
  json::to_cbor(value, text);
  return text;
}

std::string message_of(const LineChunk& chunk) {
  return cbor({chunk.texts, chunk.numbers, chunk.errors, chunk.first});
}

LineChunk chunk_of(const std::string& message) {
  const json value = json::from_cbor(message);
  return {.texts = value[0], .numbers = value[1], .errors = value[2], .first = value[3]};
}

// The root's queue of missing parts. Thread-safe.
class Queue {
 public:
  Queue(PartInput& input, PartFolder& folder, const std::function<void(const std::string&)>& report)
      : input_(input), folder_(folder), report_(report) {
    for (size_t part = 0; part < input_.size(); ++part) {
      if (const std::optional<PartResult> result = folder_.find(part)) {
        take(*result);
      } else {
        missing_.push_back(part);
      }
    }
    if (done_ > 0) report_progress();
  }

  // The next part; nothing after the last, or after a failure.
  std::optional<std::pair<size_t, LineChunk>> next() {
    const std::lock_guard lock(mutex_);
    if (error_ || next_ == missing_.size()) return std::nullopt;
    const size_t part = missing_[next_++];
    return std::pair(part, input_.read(part));
  }

  void finish(size_t part, const PartResult& result) {
    folder_.write(part, result);
    const std::lock_guard lock(mutex_);
    take(result);
    if (std::chrono::steady_clock::now() - reported_ > std::chrono::minutes(1)) report_progress();
  }

  // Runs `body`; its error ends the queue.
  template <class Body>
  void guard(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  // Call it after all threads have ended.
  LineCounts counts() const {
    if (error_) std::rethrow_exception(error_);
    return counts_;
  }

 private:
  void take(const PartResult& result) {
    ++done_;
    counts_ += result.counts;
    if (!report_) return;
    for (const std::string& message : result.messages) report_(message);
  }

  void report_progress() {
    reported_ = std::chrono::steady_clock::now();
    if (report_)
      report_(concat(folder_.output().string(), ": ", done_, " of ",
                     counted(static_cast<int64_t>(input_.size()), "parts"), " done"));
  }

  PartInput& input_;
  PartFolder& folder_;
  const std::function<void(const std::string&)>& report_;
  std::mutex mutex_;
  std::vector<size_t> missing_;
  size_t next_ = 0, done_ = 0;
  LineCounts counts_;
  std::exception_ptr error_;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
};

// Gives a rank parts until none is left.
void serve(Queue& queue, Communicator& ranks, int rank) {
  std::optional<std::pair<size_t, LineChunk>> next;
  queue.guard([&] {
    while ((next = queue.next())) {
      send_text(ranks, rank, message_of(next->second));
      const json result = json::from_cbor(receive_text(ranks, rank));
      queue.finish(next->first, {.text = result[0], .messages = result[1], .counts = {result[2], result[3]}});
    }
  });
  queue.guard([&] { send_text(ranks, rank, ""); });
}

// Computes the parts that the root gives.
void work(const std::function<PartResult(LineChunk)>& run, Communicator& ranks) {
  for (;;) {
    const std::string message = receive_text(ranks, 0);
    if (message.empty()) return;
    const PartResult result = run(chunk_of(message));
    send_text(ranks, 0, cbor({result.text, result.messages, result.counts.lines, result.counts.errors}));
  }
}

LineCounts run_as_root(const PartOptions& options, const std::function<PartResult(LineChunk)>& run,
                       Communicator& ranks) {
  std::error_code ignored;
  if (fs::exists(options.output, ignored) && !fs::is_regular_file(options.output, ignored))
    throw UsageError(concat("output: expected a regular file, found ", options.output.string()));
  if (fs::equivalent(options.input, options.output, ignored))
    throw UsageError(concat("output: expected another file than the input, found ", options.output.string()));
  PartInput input(options.input, options.lines);
  PartFolder folder(options, input);
  if (const std::optional<LineCounts> counts = folder.finished()) {
    if (options.report) options.report(concat(options.output.string(), ": is finished already"));
    folder.remove_parts();
    for (int rank = 1; rank < ranks.size(); ++rank) send_text(ranks, rank, "");
    return *counts;
  }
  Queue queue(input, folder, options.report);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks.size(); ++rank)
    threads.push_back(start_thread([&queue, &ranks, rank] { serve(queue, ranks, rank); }));
  queue.guard([&] {
    while (auto next = queue.next()) queue.finish(next->first, run(std::move(next->second)));
  });
  for (std::thread& thread : threads) thread.join();
  const LineCounts counts = queue.counts();
  folder.join(counts);
  return counts;
}

void require_equal_ranks(const PartOptions& options, Communicator& ranks) {
  const std::vector<std::string> all = ranks.all_gather(cbor(options.identity));
  const json expected = json::from_cbor(all[0]);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const json found = json::from_cbor(all[rank]);
    if (found == expected) continue;
    if (!ranks.is_root()) throw RankError("ranks differ");  // the root reports it
    const std::string name = ranks.name(static_cast<int>(rank));
    for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
      if (found[i] != expected[i])
        throw UsageError(concat(expected[i][0].get<std::string>(), ": expected ", expected[i][1].dump(),
                                " as on ", ranks.name(0), ", found ", found[i][1].dump(), " on ", name));
    }
    throw UsageError(
        concat("expected the options of ", ranks.name(0), " on all ranks, found others on ", name));
  }
}

}  // namespace

LineCounts run_parts(const PartOptions& options, const std::function<PartResult(LineChunk)>& run,
                     Communicator& ranks) {
  if (ranks.size() > 1) require_equal_ranks(options, ranks);
  LineCounts counts;
  if (ranks.is_root()) {
    counts = run_as_root(options, run, ranks);
  } else {
    work(run, ranks);
  }
  ranks.broadcast("");  // the others wait for the root, which joins the parts
  return counts;
}

}  // namespace qkv::pipelines
