#include "qkv/text/train_sentencepiece.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/philox.h"
#include "qkv/base/reserved_memory.h"
#include "qkv/base/stop.h"
#include "qkv/base/thread.h"
#include "qkv/base/utf8.h"
#include "qkv/text/lines.h"
#include "qkv/text/token_models/sentencepiece_message.h"

namespace qkv::text {
namespace {

// The vocabulary has </s>, <unk> and <pad>; of these, the SentencePiece model has only <unk>.
constexpr int64_t kSpecialTokens = 3, kOutsideModel = 2;
constexpr size_t kMaxSentenceBytes = 4192;  // SentencePiece's own limit
// The trainer's floating-point sums depend on the number of threads, so it is fixed.
constexpr int kTrainerThreads = 4;
// Memory for training on a small corpus. The trainer ends the process if an allocation fails.
constexpr size_t kRoom = size_t{32} << 20;

// Iterates over the sampled sentences of the files. SentencePiece must not see exceptions, so they are stored
// and rethrown later.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const TrainOptions& options) : options_(options), random_(options.seed, 0x535045ull) {
    for (const auto& path : options.inputs) count(path);
    wanted_ = options.max_sentences > 0 ? std::min(unseen_, options.max_sentences) : unseen_;
    lines_.used = wanted_;
    advance();
  }

  const TrainedLines& lines() const { return lines_; }

  bool done() const override { return done_; }
  void Next() override { advance(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Whether a line is used for training.
  bool usable(const LineReader& reader, const std::string& line) const {
    if (line.empty() || line.size() > kMaxSentenceBytes || line.find('\0') != line.npos) return false;
    if (valid_utf8(line)) return true;
    if (!options_.skip_bad_utf8) reader.require_utf8(line);
    return false;
  }

  void count(const std::filesystem::path& path) {
    LineReader reader(path);
    std::string line;
    while (reader.next(line)) {
      unseen_ += usable(reader, line) ? 1 : 0;
      lines_.skipped_bad_utf8 += valid_utf8(line) ? 0 : 1;
    }
    lines_.lines += reader.lines();
  }

  void advance() {
    try {
      while (wanted_ > taken_) {
        if (!reader_) {
          if (file_ == options_.inputs.size()) break;  // a file shrank since it was counted
          reader_ = std::make_unique<LineReader>(options_.inputs[file_++]);
        }
        if (!reader_->next(line_)) {
          reader_.reset();
          continue;
        }
        if (!usable(*reader_, line_)) continue;
        // Selection sampling (Knuth, TAOCP 2, algorithm 3.4.2 S): exactly `wanted_` of all lines, each subset
        // equally likely.
        const bool take =
            wanted_ - taken_ >= unseen_ ||
            static_cast<int64_t>(random_.below(static_cast<uint64_t>(unseen_))) < wanted_ - taken_;
        --unseen_;
        if (!take) continue;
        ++taken_;
        return;
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
  }

  const TrainOptions& options_;
  RandomStream random_;
  int64_t unseen_ = 0, wanted_ = 0, taken_ = 0;
  TrainedLines lines_;
  size_t file_ = 0;
  std::unique_ptr<LineReader> reader_;
  std::string line_;
  bool done_ = false;
  std::exception_ptr error_;
};

void validate(const TrainOptions& options) {
  if (options.inputs.empty())
    throw UsageError("vocabulary training: expected at least one text file, found none");
  if (options.vocab_size <= kSpecialTokens || options.vocab_size > 1'000'000) {
    throw UsageError(concat("vocab_size: expected 4 to 1000000, found ", options.vocab_size));
  }
  if (!(options.character_coverage >= 0.9 && options.character_coverage <= 1.0)) {
    throw UsageError(concat("character coverage: expected 0.9 to 1, found ", options.character_coverage));
  }
  if (options.max_sentences < 0) {
    throw UsageError(concat("max_sentences: expected 0 or more, found ", options.max_sentences));
  }
}

// The number after `before` in a message of SentencePiece, converted to our vocabulary size (SentencePiece's
// excludes </s> and <pad>); 0 if not found.
int64_t size_after(std::string_view message, std::string_view before) {
  const size_t at = message.find(before);
  int64_t size = 0;
  if (at == message.npos) return 0;
  std::from_chars(message.data() + at + before.size(), message.data() + message.size(), size);
  return size > 0 ? size + kOutsideModel : 0;
}

int64_t largest_possible(std::string_view message) { return size_after(message, "set it to a value <= "); }

[[noreturn]] void explain(const TrainOptions& options, const std::string& message) {
  if (const int64_t largest = largest_possible(message); largest > 0) {
    throw UsageError(concat("vocab_size: expected at most ", largest, ", the maximum for this text, found ",
                            options.vocab_size));
  }
  if (const int64_t smallest = size_after(message, " vs ");
      smallest > 0 && message.find("required_chars") != message.npos) {
    throw UsageError(
        concat("vocab_size: expected at least ", smallest,
               ", one piece for each character of this text (or a lower character coverage), found ",
               options.vocab_size));
  }
  throw Error(concat("SentencePiece cannot train a vocabulary of ", options.vocab_size,
                     " pieces: ", plain_sentencepiece_message(message)));
}

std::string train_to_the_end(const TrainOptions& options, TrainedLines& lines) {
  Sentences sentences(options);
  sentences.rethrow();
  lines = sentences.lines();
  if (sentences.done()) {
    throw DataError(concat("vocabulary training: expected sentences in ", options.inputs.front().string(),
                           options.inputs.size() > 1 ? " and the others" : "", ", found none"));
  }
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", options.kind == SubwordKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocab_size - kOutsideModel)},
      {"character_coverage", concat(options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"num_threads", std::to_string(kTrainerThreads)},
      {"shuffle_input_sentence", "false"},
      {"unk_id", "0"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "3"}};
  const ReservedMemory reserved(kRoom);
  std::string model;
  const auto status = [&] {
    try {
      return sentencepiece::SentencePieceTrainer::Train(settings, &sentences, &model);
    } catch (const std::system_error& error) {
      throw Error(
          concat("SentencePiece cannot start its ", kTrainerThreads, " threads: ", error.code().message()));
    }
  }();
  sentences.rethrow();
  if (status.ok()) return model;
  const int64_t largest = largest_possible(status.message());
  if (!options.smaller_if_needed || largest <= 0 || largest >= options.vocab_size) {
    explain(options, status.message());
  }
  TrainOptions smaller = options;
  smaller.vocab_size = largest;
  smaller.smaller_if_needed = false;
  return train_to_the_end(smaller, lines);
}

// Abandoned threads, which only the end of the process waits for: they use SentencePiece's globals, which
// must outlive them.
class AbandonedThreads {
 public:
  ~AbandonedThreads() {
    for (std::thread& thread : threads_) thread.join();
  }
  void add(std::thread thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread));
  }
  static AbandonedThreads& instance() {
    static AbandonedThreads threads;
    return threads;
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

// Shared by the thread and its caller, which may return first.
struct Training {
  TrainOptions options;
  std::mutex mutex;  // of the members below
  std::condition_variable ended;
  bool done = false;
  std::string model;
  TrainedLines lines;
  std::exception_ptr error;
};

void run(Training& training) {
  std::string model;
  TrainedLines lines;
  std::exception_ptr error;
  try {
    model = train_to_the_end(training.options, lines);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(training.mutex);
  training.model = std::move(model);
  training.lines = lines;
  training.error = error;
  training.done = true;
  training.ended.notify_all();
}

}  // namespace

std::string train_sentencepiece(const TrainOptions& options, const std::atomic<bool>* stop,
                                TrainedLines* lines) {
  validate(options);
  throw_if_stopped(stop);
  TrainedLines unused;
  TrainedLines& counted = lines ? *lines : unused;
  if (!stop) return train_to_the_end(options, counted);
  constexpr auto kLook = std::chrono::milliseconds(20);
  AbandonedThreads& abandoned = AbandonedThreads::instance();
  const auto training = std::make_shared<Training>();
  training->options = options;
  std::thread thread;
  try {
    thread = start_thread([training] { run(*training); });
  } catch (const std::system_error&) {  // no thread available: trains without stops
    return train_to_the_end(options, counted);
  }
  std::unique_lock lock(training->mutex);
  while (!training->ended.wait_for(lock, kLook, [&] { return training->done; })) {
    if (!*stop) continue;
    abandoned.add(std::move(thread));
    throw Stopped();
  }
  lock.unlock();
  thread.join();
  if (training->error) std::rethrow_exception(training->error);
  counted = training->lines;
  return std::move(training->model);
}

}  // namespace qkv::text
