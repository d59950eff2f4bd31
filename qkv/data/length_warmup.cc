#include "qkv/data/length_warmup.h"

#include <algorithm>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"

namespace qkv::data {
namespace {

constexpr std::string_view kField = "train.length_warmup";

}  // namespace

void LengthWarmup::validate(int64_t least, int64_t max_length) const {
  for (const LengthStage& stage : stages) {
    if (stage.max_length < least || stage.max_length >= max_length) {
      throw UsageError(concat(kField, ": expected growing lengths, here ", least, " to ", max_length - 1,
                              " (train.max_length is ", max_length, "), found ", stage.max_length));
    }
    if (stage.batches < 1) {
      throw UsageError(concat(kField, ": expected 1 or more batches of length ", stage.max_length, ", found ",
                              stage.batches));
    }
    least = stage.max_length + 1;
  }
}

void parse_field(std::string_view field, std::string_view text, LengthWarmup& value) {
  LengthWarmup parsed;
  for (const auto& [length, batches] : parse_pairs(field, text, "LENGTH:BATCHES,... such as 16:600,32:200"))
    parsed.stages.push_back({.max_length = length, .batches = batches});
  value = std::move(parsed);
}

std::string field_text(const LengthWarmup& value) {
  NumberPairs pairs;
  for (const LengthStage& stage : value.stages) pairs.emplace_back(stage.max_length, stage.batches);
  return pairs_text(pairs);
}

}  // namespace qkv::data
