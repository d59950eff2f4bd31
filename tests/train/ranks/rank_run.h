#pragma once
// Short runs on ranks that are threads.

#include <filesystem>
#include <memory>
#include <string>

#include "qkv/train/ranks/replica.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/character_run.h"
#include "tests/train/reverse_task.h"
#include "tests/train/same_run.h"

namespace qkv::train::testing_task {

inline TrainOptions four_batches(const std::string& optimizer) {
  TrainOptions options = short_run_with(optimizer);
  options.accumulate = 4;
  options.max_steps = 6;
  options.validate_every = 3;
  return options;
}

inline void train_on(int ranks, const std::filesystem::path& folder, const TrainOptions& options,
                     TrainObserver* observer = nullptr) {
  qkv::testing::ThreadRanks(ranks).run([&](Communicator& own) {
    if (!own.is_root()) {
      const std::unique_ptr<Task> task = character_task();
      Replica(*task, options, own).follow();
      return;
    }
    Quiet quiet;
    Trainer trainer(character_task(), options, RunFolder(folder, IfRunExists::resume), own);
    trainer.run(observer ? *observer : quiet);
    trainer.end();
  });
}

}  // namespace qkv::train::testing_task
