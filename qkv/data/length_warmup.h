#pragma once
// Sequence-length warm-up: the first batches of a training have short inputs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::data {

// A number of batches whose inputs have at most a length.
struct LengthStage {
  int64_t max_length = 0;  // tokens of an input, special tokens included
  int64_t batches = 0;

  bool operator==(const LengthStage&) const = default;
};

// From short inputs a small model learns the order of tokens in hundreds of steps; from long ones it first
// learns which tokens a text contains, and stays there for thousands (docs/results.md; Nagatsuka et al. 2021,
// "Pre-training a BERT with curriculum learning by increasing block-size of input text"; Li et al. 2022, "The
// stability-efficiency dilemma", for GPT).
struct LengthWarmup {
  std::vector<LengthStage> stages;  // empty: no warm-up

  // Throws UsageError unless lengths are at least `least`, ascend and stay below max_length, and batches are
  // positive.
  void validate(int64_t least, int64_t max_length) const;

  bool operator==(const LengthWarmup&) const = default;
};

// As text: "16:600,32:200" (length:batches); "" has no stages. parse_field() throws UsageError naming the
// field, what was expected and what was found.
void parse_field(std::string_view field, std::string_view text, LengthWarmup& value);
std::string field_text(const LengthWarmup& value);

}  // namespace qkv::data
