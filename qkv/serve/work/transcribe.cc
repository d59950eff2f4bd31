#include "qkv/serve/work/transcribe.h"

#include <memory>
#include <optional>
#include <utility>

namespace qkv::serve {
namespace {

// A call's audio, which goes from worker to worker; each callback holds it.
class Work : public std::enable_shared_from_this<Work> {
 public:
  Work(ServedModel& model, CallHandle call, std::string file, pipelines::TranscribeOptions options,
       OnTranscribed on_progress, TranscriptionDone done)
      : model_(model),
        call_(std::move(call)),
        file_(std::move(file)),
        options_(std::move(options)),
        on_progress_(std::move(on_progress)),
        done_(std::move(done)) {}

  ~Work() {
    if (entered_) model_.transcriptions().leave();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Waits for a place first: a call that waits holds its file alone, without features and rows of windows.
  void begin() {
    serially(QueueLimit::counts, [this] {
      model_.transcriptions().enter(call_, [self = shared_from_this()] {
        self->entered_ = true;
        try {
          self->serially(QueueLimit::ignored, [self = self.get()] { self->read_file(); });
        } catch (...) {
          self->end(std::current_exception());
        }
      });
    });
  }

 private:
  void read_file() {
    const data::Audio audio = data::decode_audio(file_, "file", model_.audio_seconds());
    file_ = {};
    job_.emplace(model_.pipelines().transcriber->start(audio, options_));
    go_on();
  }

  // Runs on the serial worker's thread; an error ends the work.
  void serially(QueueLimit limit, std::function<void()> run) {
    const auto self = shared_from_this();
    model_.serial().submit(call_,
                           {.run = [self, run = std::move(run)] { run(); },
                            .on_failed = [self](const std::exception_ptr& error) { self->end(error); }},
                           limit);
  }

  void go_on() {
    auto request = job_->next();
    if (!request) return end(nullptr);
    const auto self = shared_from_this();
    std::vector<DecodeJob> jobs;
    jobs.push_back({std::move(*request), [self](search::Decoded decoded) {
                      try {
                        if (decoded.error) std::rethrow_exception(decoded.error);
                        self->accept(std::make_shared<const search::Decoded>(std::move(decoded)));
                      } catch (...) {
                        self->end(std::current_exception());
                      }
                    }});
    model_.decoder()->submit(call_, std::move(jobs), QueueLimit::ignored);
  }

  void accept(const std::shared_ptr<const search::Decoded>& decoded) {
    serially(QueueLimit::ignored, [this, decoded] {
      job_->accept(*decoded);
      on_progress_(job_->transcription());
      go_on();
    });
  }

  void end(const std::exception_ptr& error) {
    if (std::exchange(ended_, true)) return;
    done_(job_ ? job_->transcription() : pipelines::Transcription(), error);
  }

  ServedModel& model_;
  CallHandle call_;
  std::string file_;
  pipelines::TranscribeOptions options_;
  OnTranscribed on_progress_;
  TranscriptionDone done_;
  std::optional<pipelines::TranscriptionJob> job_;
  bool entered_ = false, ended_ = false;
};

}  // namespace

void transcribe(ServedModel& model, const CallHandle& call, std::string file,
                const pipelines::TranscribeOptions& options, OnTranscribed on_progress,
                TranscriptionDone done) {
  model.pipelines().transcriber->check(options);
  std::make_shared<Work>(model, call, std::move(file), options, std::move(on_progress), std::move(done))
      ->begin();
}

}  // namespace qkv::serve
