#include "qkv/train/tasks/labels/encoder_job.h"

#include "qkv/base/error.h"
#include "qkv/text/text_file.h"

namespace qkv::train {

void EncoderJob::list(Settings& all) {
  all.add("data.train", train, kBookkeeping)
      .flag({"FILE", "Labelled texts to train on (default: the resumed run's)"});
  all.add("data.valid", valid, kBookkeeping).flag({"FILE", "Labelled texts to validate on (default: none)"});
  list_settings(all, encoder);
  list_settings(all, task);
}

Job::Defaults EncoderJob::short_run() const {
  if (!encoder.from.empty()) return {};
  return {{"model.layers", "2"},
          {"model.d_model", "128"},
          {"model.heads", "2"},
          {"model.d_ff", "512"},
          {"schedule.kind", "cosine"}};
}

void EncoderJob::complete_task(const std::set<std::string>& given) {
  if (encoder.from.empty()) return;
  encoder.complete(given);
  complete_fine_tuning(options, given);
}

void EncoderJob::refuse_unused(const std::set<std::string>& given) const {
  if (encoder.tokenizer.empty()) return;
  refuse_given(given, {"vocabulary.size", "vocabulary.lowercase"},
               "with vocabulary.tokenizer, which has its own");
}

TrainOptions EncoderJob::trainer_options() const {
  TrainOptions result = options;
  result.schedule.d_model = encoder.shape.d_model;
  return result;
}

EncoderStart EncoderJob::open_start(bool resumes, TrainObserver& observer,
                                    const std::function<void(const std::filesystem::path& file)>& write_texts,
                                    const std::atomic<bool>* stop) const {
  const bool trains = encoder.from.empty() && encoder.tokenizer.empty() && !resumes;
  observer.on_stage(trains ? "training the tokenizer" : "reading the tokenizer");
  return open_encoder(encoder, folder, resumes, write_texts, stop);
}

void EncoderJob::check_settings() const {
  if (train.empty()) throw UsageError("data.train: expected a file of training data, found none");
  if (valid.empty() && options.patience > 0)
    throw UsageError(concat("train.patience: expected 0 without validation data, found ", options.patience));
  trainer_options().validate();
  // The folder to start from may have vanished since a run to resume was begun.
  encoder.check(reads_start(), target());
  task.validate(encoder.shape.layers);
  text::require_readable_again("data.train", train, "it is read several times");
  text::require_readable_again("data.valid", valid, "it is read several times");
}

}  // namespace qkv::train
