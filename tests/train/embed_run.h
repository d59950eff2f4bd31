#pragma once
// Short runs of the task `embed` on sentences of three words, from a small BERT.

#include <string>

#include "qkv/train/tasks/embed/embed.h"
#include "tests/support/scratch.h"

namespace qkv::train::testing_task {

// All pairs of the sentences "a ADJECTIVE NOUN." and "the ADJECTIVE NOUN.", with the score 5 for equal nouns
// and 0 for others. `matching`: only pairs with equal words, without scores.
inline std::string sentence_pairs(bool matching) {
  static constexpr const char* kAdjectives[] = {"red", "blue", "good", "bad"};
  static constexpr const char* kNouns[] = {"man", "dog", "house"};
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 12; ++j) {
      const bool nouns = i % 3 == j % 3, adjectives = i % 4 == j % 4;
      if (matching && !(nouns && adjectives)) continue;
      if (!matching) lines += nouns ? "5\t" : "0\t";
      lines += std::string("a ") + kAdjectives[i % 4] + " " + kNouns[i % 3] + ".\tthe " + kAdjectives[j % 4] +
               " " + kNouns[j % 3] + ".\n";
    }
  }
  return lines;
}

inline std::string scored_pairs() { return sentence_pairs(false); }
inline std::string matching_pairs() { return sentence_pairs(true); }

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
