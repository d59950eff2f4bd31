#include "qkv/pipelines/parts.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "qkv/base/counted.h"
#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/hash.h"
#include "qkv/base/thread.h"

namespace qkv::pipelines {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
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

uint64_t hash_of(const LineChunk& chunk) {
  Hash64 hash;
  for (const auto* list : {&chunk.texts, &chunk.errors}) {
    hash.add(list->size());
    for (const std::string& text : *list) {
      hash.add(text.size());
      hash.add(text);
    }
  }
  return hash.value();
}

std::string text_of(uint64_t hash) {
  std::string digits(16, '0');
  for (size_t i = digits.size(); i-- > 0; hash /= 16) digits[i] = "0123456789abcdef"[hash % 16];
  return digits;
}

std::string hash_of_text(const std::string& text) {
  Hash64 hash;
  hash.add(text);
  return text_of(hash.value());
}

// The chunks of a file.
class Input {
 public:
  Input(fs::path path, const LineOptions& options) : path_(std::move(path)), options_(options) {
    std::error_code ignored;
    if (fs::exists(path_) && !fs::is_regular_file(path_, ignored))
      throw IoError(concat("cannot read ", path_.string(), ": not a regular file"));
    in_.open(path_, std::ios::binary);
    if (!in_)
      throw IoError(concat("cannot open ", path_.string(), ": ", std::generic_category().message(errno)));
    if (in_.get() == 0x1f && in_.get() == 0x8b)
      throw UsageError(concat(path_.string(), ": expected a text, found a file compressed by gzip"));
    in_.clear();
    in_.seekg(0);
    LineReader reader(in_, options_);
    Hash64 all;
    LineChunk chunk;
    for (std::streamoff at = 0; reader.next(chunk); at = in_.eof() ? 0 : std::streamoff(in_.tellg())) {
      parts_.push_back({at, chunk.first, std::ssize(chunk.errors), hash_of(chunk)});
      all.add(parts_.back().hash);
    }
    hash_ = text_of(all.value());
  }

  size_t size() const { return parts_.size(); }
  int64_t first(size_t part) const { return parts_[part].first; }
  int64_t lines(size_t part) const { return parts_[part].lines; }
  const std::string& hash() const { return hash_; }

  LineChunk read(size_t part) {
    in_.clear();
    in_.seekg(parts_[part].offset);
    LineOptions options = options_;
    options.first = parts_[part].first;
    LineChunk chunk;
    LineReader(in_, options).next(chunk);
    if (hash_of(chunk) != parts_[part].hash)
      throw IoError(concat(path_.string(), ": has changed since the start"));
    return chunk;
  }

 private:
  struct Part {
    std::streamoff offset;
    int64_t first, lines;
    uint64_t hash;
  };

  fs::path path_;
  LineOptions options_;
  std::ifstream in_;
  std::vector<Part> parts_;
  std::string hash_;
};

// The folder of the parts: run.json, which identifies the run, and a file for each finished part, of a line
// of JSON and the text.
class Folder {
 public:
  Folder(const PartOptions& options, const Input& input)
      : output_(options.output),
        path_(options.output.string() + ".parts"),
        identity_(ordered_json::object()),
        input_(input) {
    for (const auto& [name, value] : options.identity) identity_[name] = value;
    identity_["lines of a part"] = std::to_string(options.lines.chunk_lines);
    identity_["input"] = input.hash();
    run_ = hash_of_text(identity_.dump());
    make_writable_folder(path_);
    lock_.emplace(path_);
    remove_partial_files(path_);
    require_same_run();
  }

  // The counts of a finished run.
  std::optional<LineCounts> finished() const {
    std::error_code ignored;
    if (!record_.contains("finished") || !fs::exists(output_, ignored)) return std::nullopt;
    const ordered_json& end = record_["finished"];
    if (content_hash(output_) != end.value("output", "")) return std::nullopt;
    return LineCounts{.lines = end.value("lines", int64_t{0}), .errors = end.value("errors", int64_t{0})};
  }

  // The result of a finished part, without its text; nothing if it is to be computed.
  std::optional<PartResult> find(size_t part) const {
    std::ifstream in(file(part), std::ios::binary);
    std::string line;
    if (!std::getline(in, line)) return std::nullopt;
    std::error_code ignored;
    const uint64_t bytes = fs::file_size(file(part), ignored) - line.size() - 1;
    try {
      const json head = json::parse(line);
      if (head.at("run") != run_ || head.at("first") != input_.first(part) ||
          head.at("lines") != input_.lines(part) || head.at("bytes") != bytes) {
        return std::nullopt;
      }
      return PartResult{.text = {},
                        .messages = head.at("messages"),
                        .counts = {input_.lines(part), head.at("errors").get<int64_t>()}};
    } catch (const json::exception&) {
      return std::nullopt;
    }
  }

  void write(size_t part, const PartResult& result) const {
    const json head{{"run", run_},
                    {"first", input_.first(part)},
                    {"lines", input_.lines(part)},
                    {"errors", result.counts.errors},
                    {"messages", result.messages},
                    {"bytes", result.text.size()}};
    AtomicFile out(file(part));
    out.write(head.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
    out.write(result.text);
    out.commit();
  }

  // Writes the output. The parts are removed last, so that a run that ends meanwhile can repeat it.
  void join(const LineCounts& counts) {
    const fs::path joined = path_ / "joined";
    Hash64 hash;
    {
      AtomicFile out(joined);
      std::string block(1 << 20, '\0');
      for (size_t part = 0; part < input_.size(); ++part) {
        InputFile in(file(part));
        bool in_text = false;
        while (const size_t bytes = in.read(block.data(), block.size())) {
          std::string_view text(block.data(), bytes);
          if (!in_text) {
            const size_t end = text.find('\n');
            in_text = end != text.npos;
            text.remove_prefix(in_text ? end + 1 : text.size());
          }
          out.write(text);
          hash.add(text);
        }
      }
      out.commit();
    }
    with_io_errors([&] { fs::rename(joined, output_); });
    flush_folder(output_.has_parent_path() ? output_.parent_path() : ".");
    record_["finished"] = {
        {"lines", counts.lines}, {"errors", counts.errors}, {"output", text_of(hash.value())}};
    write_record();
    remove_parts();
  }

  // Of a finished run, which may have ended before it did.
  void remove_parts() const {
    for (const fs::path& path : files_in(path_)) {
      std::error_code ignored;
      if (path.filename() != "run.json") fs::remove(path, ignored);
    }
  }

  const fs::path& output() const { return output_; }

 private:
  fs::path file(size_t part) const {
    std::string digits = std::to_string(part + 1);
    digits.insert(0, 6 - std::min<size_t>(6, digits.size()), '0');
    return path_ / ("part-" + digits);
  }

  void write_record() const { write_file_atomically(path_ / "run.json", record_.dump(2) + "\n"); }

  void require_same_run() {
    if (fs::exists(path_ / "run.json")) {
      record_ = ordered_json::parse(read_file(path_ / "run.json"), nullptr, false);
      const ordered_json found = record_.is_object() ? record_.value("run", ordered_json()) : ordered_json();
      for (const auto& [name, value] : identity_.items()) require_same(name, value, found);
      if (found.is_object())
        for (const auto& [name, value] : found.items())
          require_same(name, identity_.value(name, ordered_json()), found);
    } else {
      record_ = {{"run", identity_}};
      write_record();
    }
  }

  void require_same(const std::string& name, const ordered_json& expected, const ordered_json& all) const {
    const ordered_json found = all.is_object() ? all.value(name, ordered_json()) : ordered_json();
    if (found == expected) return;
    const auto shown = [](const ordered_json& value) { return value.is_null() ? "none" : value.dump(); };
    throw UsageError(concat(path_.string(), ": expected the parts of this run, found those of another (",
                            name, ": ", shown(found), ", here ", shown(expected),
                            "); remove the folder, or choose another output"));
  }

  fs::path output_, path_;
  ordered_json identity_;
  const Input& input_;
  std::string run_;  // a hash of the identity
  std::optional<FolderLock> lock_;
  ordered_json record_;
};

// The root's queue of missing parts. Thread-safe.
class Queue {
 public:
  Queue(Input& input, Folder& folder, const std::function<void(const std::string&)>& report)
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

  Input& input_;
  Folder& folder_;
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
  Input input(options.input, options.lines);
  Folder folder(options, input);
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

std::string content_hash(const fs::path& path) {
  Hash64 hash;
  const auto add = [&hash](const fs::path& file) {
    InputFile in(file);
    std::string block(1 << 20, '\0');
    while (const size_t bytes = in.read(block.data(), block.size())) hash.add(block.data(), bytes);
  };
  if (!is_folder(path)) {
    add(path);
    return text_of(hash.value());
  }
  const auto add_files = [&](const fs::path& folder) {
    for (const fs::path& file : files_in(folder)) {
      if (is_folder(file) || file.filename() == "log.jsonl") continue;
      hash.add(file.string().substr(path.string().size()));
      add(file);
    }
  };
  add_files(path);
  for (const fs::path& inner : files_in(path)) {
    const fs::path name = inner.filename();
    if (is_folder(inner) && name != "checkpoints" && name != "cache") add_files(inner);
  }
  return text_of(hash.value());
}

}  // namespace qkv::pipelines
