#pragma once
// A task that is learnt in seconds: reversing the words of a line.

#include <filesystem>
#include <string>

#include "qkv/base/philox.h"
#include "qkv/train/tasks/translation/translation.h"
#include "tests/support/scratch.h"

namespace qkv::train::testing_task {

inline data::CorpusFiles write_reversals(const qkv::testing::Scratch& scratch, const std::string& name,
                                         int lines, uint64_t seed) {
  static constexpr const char* kSpoken[] = {"ba", "ko", "mi", "te", "ru", "zo", "pe", "la"};
  RandomStream random(seed);
  std::string source, target;
  for (int line = 0; line < lines; ++line) {
    const uint64_t words = 2 + random.below(4);
    std::string forward, backward;
    for (uint64_t i = 0; i < words; ++i) {
      const std::string word = kSpoken[random.below(8)];
      forward += (i > 0 ? " " : "") + word;
      backward = word + (i > 0 ? " " : "") + backward;
    }
    source += forward + "\n";
    target += backward + "\n";
  }
  return {scratch.write(name + ".source", source), scratch.write(name + ".target", target)};
}

// A few steps that use everything with a state: dropout, accumulation, averaging, validation, an incomplete
// window.
inline TranslationJob small_job(const qkv::testing::Scratch& scratch, const std::string& folder) {
  TranslationJob job;
  job.train = write_reversals(scratch, "train", 120, 1);
  job.valid = write_reversals(scratch, "valid", 10, 2);
  job.folder = scratch / folder;
  job.config = {.d_model = 16,
                .encoder_layers = 1,
                .decoder_layers = 1,
                .heads = 2,
                .d_ff = 32,
                .dropout = 0.1f,
                .embedding_dropout = 0.1f,
                .attention_dropout = 0.1f};
  job.task.batch_tokens = 200;
  job.options.accumulate = 2;
  job.options.optimizer.average_decay = 0.9f;
  job.options.schedule = {.warmup_steps = 3, .learning_rate = 0.01f};
  job.options.max_steps = 6;
  job.options.validate_every = 4;
  job.options.best_by = "loss";
  job.options.log_every = 5;
  job.options.seed = 11;
  job.vocabulary.size = 40;
  return job;
}

struct Quiet : TrainObserver {};

inline TrainResult train(const TranslationJob& job, const std::atomic<bool>* stop = nullptr) {
  Quiet quiet;
  return run_job(job, quiet, stop);
}

}  // namespace qkv::train::testing_task
