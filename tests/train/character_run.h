#pragma once
// A short run of the character task that uses everything with a state: dropout, accumulation, averaging,
// validation, an incomplete logging window. Shared by the tests and by the program that kills itself.

#include <filesystem>
#include <memory>
#include <string>

#include "qkv/train/trainer.h"
#include "tests/train/character_task.h"

namespace qkv::train::testing_task {

inline std::string nursery_rhyme(int verses) {
  std::string text;
  for (int i = 0; i < verses; ++i)
    text += i % 2 == 0 ? "the cat sat on the mat. " : "the dog dug in the bog. ";
  return text;
}

inline TrainOptions short_run() {
  TrainOptions options;
  options.optimizer.average_decay = 0.9f;
  options.accumulate = 2;
  options.schedule = {.warmup_steps = 5, .learning_rate = 0.02f};
  options.max_steps = 40;
  options.validate_every = 8;
  options.checkpoint_every = 5;
  options.log_every = 3;
  options.seed = 7;
  return options;
}

// Likewise with another optimizer, such as "sgd". Throws UsageError for an unknown name.
inline TrainOptions short_run_with(const std::string& optimizer) {
  TrainOptions options = short_run();
  set_field(options, "optimizer.kind", optimizer);
  options.sgd.momentum = 0.9f;
  options.rmsprop.centered = true;
  return options;
}

inline std::unique_ptr<CharacterTask> character_task(const CharacterOptions& options = {}) {
  return std::make_unique<CharacterTask>(nursery_rhyme(40), nursery_rhyme(4), options);
}

// Resumes the run in the folder, or starts one.
inline TrainResult train_characters(const std::filesystem::path& folder, const TrainOptions& options,
                                    TrainObserver& observer, const CharacterOptions& characters = {}) {
  return Trainer(character_task(characters), options, folder, IfRunExists::resume).run(observer);
}

}  // namespace qkv::train::testing_task
