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
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::string_view stage = text.substr(begin, text.find(',', begin) - begin);
    const size_t length = std::min(stage.find(':'), stage.size());
    LengthStage next;
    try {
      qkv::parse_field(field, stage.substr(0, length), next.max_length);
      qkv::parse_field(field, stage.substr(std::min(length + 1, stage.size())), next.batches);
    } catch (const UsageError&) {
      throw UsageError(
          concat(field, ": expected LENGTH:BATCHES,... such as 16:600,32:200, found '", text, "'"));
    }
    parsed.stages.push_back(next);
    begin += stage.size() + 1;
  }
  value = std::move(parsed);
}

std::string field_text(const LengthWarmup& value) {
  std::string text;
  for (const LengthStage& stage : value.stages)
    text += concat(text.empty() ? "" : ",", stage.max_length, ":", stage.batches);
  return text;
}

}  // namespace qkv::data
