#pragma once
// Short runs of the task `embed` on sentences of three words, from a small BERT.

#include <string>

#include "qkv/train/tasks/embed/embed.h"
#include "tests/support/scratch.h"

namespace qkv::train::testing_task {

// All pairs of the sentences "a ADJECTIVE NOUN.", with 0, 2 or 5 as score: the number of equal words.
inline std::string scored_pairs() {
  static constexpr const char *kAdjectives[] = {"red", "blue", "good", "bad"},
                              *kNouns[] = {"man", "dog", "house"};
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 12; ++j) {
      const int equal = (i % 4 == j % 4 ? 1 : 0) + (i % 3 == j % 3 ? 1 : 0);
      lines += std::string(equal == 2   ? "5"
                           : equal == 1 ? "2"
                                        : "0") +
               "\ta " + kAdjectives[i % 4] + " " + kNouns[i % 3] + ".\tthe " + kNouns[j % 3] + " sleeps, " +
               kAdjectives[j % 4] + "\n";
    }
  }
  return lines;
}

// The pairs of score 5, without scores.
inline std::string matching_pairs() {
  std::string lines;
  const std::string all = scored_pairs();
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\n', begin) + 1;
    if (all[begin] == '5') lines += all.substr(begin + 2, end - begin - 2);
    begin = end;
  }
  return lines;
}

// A few steps that use everything with a state.
inline EmbedJob small_embed_job(const qkv::testing::Scratch& scratch, const std::string& folder) {
  EmbedJob job;
  job.from = QKV_TEST_DATA "/models/golden/bert_masked";
  job.train = scratch.write("train.tsv", scored_pairs());
  job.valid = job.train;
  job.folder = scratch / folder;
  job.task.batch_pairs = 16;
  job.task.drop_path = 0.1f;
  job.options.accumulate = 2;
  job.options.optimizer.average_decay = 0.9f;
  job.options.schedule = {.kind = ScheduleKind::linear, .warmup_steps = 3, .learning_rate = 0.01f};
  job.options.max_steps = 12;
  job.options.validate_every = 5;
  job.options.checkpoint_every = 4;
  job.options.log_every = 3;
  job.options.seed = 7;
  return job;
}

}  // namespace qkv::train::testing_task
