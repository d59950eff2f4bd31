#pragma once
// The trainings that are killed: everything that has a state is in one of them.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace qkv::testing {

using Configuration = std::pair<std::string, std::vector<std::string>>;

// Each a name and options of `qkv train translation`.
inline std::vector<Configuration> kill_configurations() {
  const std::vector<std::pair<std::string, std::string>> common{
      {"--max-steps", "9"},       {"--validate-every", "3"}, {"--checkpoint-every", "2"},
      {"--warmup-steps", "2"},    {"--threads", "2"},        {"--checkpoint-minutes", "0"},
      {"--learning-rate", "0.01"}};
  const auto with = [&](std::vector<std::string> more) {
    for (const auto& [option, value] : common) {
      if (std::ranges::find(more, option) == more.end()) more.insert(more.end(), {option, value});
    }
    return more;
  };
  return {
      // Moving averages; BLEU that stays 0, so that the loss breaks ties.
      {"ema", with({"--dropout", "0.1", "--set", "train.log_every=1"})},
      // The mean of the last validations' weights, whose snapshots lie beside the checkpoints.
      {"average_last", with({"--average-last", "3", "--bleu-every", "0", "--set", "train.log_every=1"})},
      // Ends early: a learning rate that only makes it worse.
      {"early_stopping",
       with({"--patience", "1", "--bleu-every", "0", "--learning-rate", "0.3", "--checkpoint-every", "1",
             "--average-decay", "0", "--max-steps", "30", "--set", "train.log_every=1"})},
      // Two vocabularies, two batches a step, a curve of several steps, a checkpoint alone.
      {"accumulate", with({"--separate-vocab", "--accumulate", "2", "--set", "train.log_every=2", "--set",
                           "train.keep_checkpoints=1", "--schedule", "cosine", "--vocab-kind", "bpe"})},
      // BLEU in every second validation: the others are not the best.
      {"sgd", with({"--set", "optimizer.kind=sgd", "--set", "sgd.momentum=0.9", "--bleu-every", "2"})},
  };
}

}  // namespace qkv::testing
