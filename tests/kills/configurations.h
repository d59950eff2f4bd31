#pragma once
// The interrupted training runs: together they use everything that has a state.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace qkv::testing {

using Configuration = std::pair<std::string, std::vector<std::string>>;

// Names, and options of `qkv train translation`.
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
      // Moving averages; BLEU stays 0, so that the loss breaks ties.
      {"ema", with({"--dropout", "0.1", "--set", "train.log_every=1"})},
      // The mean of the last validations' weights, from snapshots beside the checkpoints.
      {"average_last", with({"--average-last", "3", "--bleu-every", "0", "--set", "train.log_every=1"})},
      // Early stopping: a learning rate that increases the loss.
      {"early_stopping",
       with({"--patience", "1", "--bleu-every", "0", "--learning-rate", "0.3", "--checkpoint-every", "1",
             "--average-decay", "0", "--max-steps", "30", "--set", "train.log_every=1"})},
      // Two vocabularies, two batches per step, several steps per point of the curves, a single checkpoint.
      {"accumulate", with({"--separate-vocab", "--accumulate", "2", "--set", "train.log_every=2", "--set",
                           "train.keep_checkpoints=1", "--schedule", "cosine", "--vocab-kind", "bpe"})},
      // BLEU in every second validation; the others cannot be the best.
      {"sgd", with({"--set", "optimizer.kind=sgd", "--set", "sgd.momentum=0.9", "--bleu-every", "2"})},
  };
}

}  // namespace qkv::testing
