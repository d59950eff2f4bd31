#pragma once
// A short pretraining run on documents of topics, shared by several tests.
//
// A sentence is a run of its topic's words in a fixed order, so that context predicts a masked word, and
// segments of one document have one topic.

#include <filesystem>
#include <string>

#include "qkv/base/files.h"
#include "qkv/train/tasks/pretrain_bert/pretrain_bert.h"

namespace qkv::train::testing_task {

constexpr int kTopics = 8, kWords = 6;

inline std::string topic_text(int documents, int sentences) {
  std::string text;
  for (int d = 0; d < documents; ++d) {
    const std::string topic(1, static_cast<char>('a' + d % kTopics));
    for (int s = 0; s < sentences; ++s) {
      for (int w = 0; w < 4; ++w) text += topic + std::to_string((s * 5 + w) % kWords) + " ";
      text += "\n";
    }
    text += "\n";
  }
  return text;
}

// Writes corpus and tokenizer into `data`, if they are not there.
inline void write_topics(const std::filesystem::path& data) {
  if (std::filesystem::exists(data / "train.txt")) return;
  std::filesystem::create_directories(data / "tokenizer");
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int t = 0; t < kTopics; ++t) {
    for (int w = 0; w < kWords; ++w)
      vocabulary += std::string(1, static_cast<char>('a' + t)) + std::to_string(w) + "\n";
  }
  write_file_atomically(data / "tokenizer/vocab.txt", vocabulary);
  write_file_atomically(data / "valid.txt", topic_text(8, 12));
  write_file_atomically(data / "train.txt", topic_text(32, 20));
}

// A run that uses everything with a state: short inputs first (five batches end within a step), dropout,
// accumulation, averaging, an incomplete logging window.
inline PretrainBertJob topic_job(const std::filesystem::path& data, const std::filesystem::path& out) {
  write_topics(data);
  PretrainBertJob job;
  job.folder = out;
  job.existing = IfRunExists::resume;
  job.train = data / "train.txt";
  job.valid = data / "valid.txt";
  job.vocabulary.tokenizer = data / "tokenizer";
  job.shape = {.layers = 2, .d_model = 32, .heads = 2, .d_ff = 64, .max_positions = 32};
  job.task.segments.max_length = 32;
  job.task.length_warmup.stages = {{.max_length = 8, .batches = 5}, {.max_length = 16, .batches = 4}};
  job.task.batch_tokens = 256;
  job.options.optimizer.average_decay = 0.9f;
  job.options.accumulate = 2;
  job.options.schedule.kind = ScheduleKind::inverse_sqrt;  // the number of steps may change
  job.options.schedule.warmup_steps = 10;
  job.options.schedule.learning_rate = 5e-3f;
  job.options.max_steps = 24;
  job.options.validate_every = 8;
  job.options.checkpoint_every = 5;
  job.options.log_every = 3;
  job.options.seed = 7;
  return job;
}

}  // namespace qkv::train::testing_task
