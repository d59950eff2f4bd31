#include "qkv/train/given_settings.h"

#include <algorithm>
#include <set>

#include "qkv/base/error.h"
#include "qkv/hub/cache.h"

namespace qkv::train {
namespace {

constexpr const char* kDefaultEpochs = "40";

// Whether the value of an option is a model's folder: its unit is "DIR" or "bpe|chars|DIR", and the value
// none of the words.
bool is_model_folder(const FieldFlag& flag, const std::string& value) {
  const std::string words = "|" + flag.unit;
  return words.ends_with("|DIR") && !value.empty() && (words + "|").find("|" + value + "|") == words.npos;
}

}  // namespace

std::vector<std::string> settings_named(const Job& job, const std::string& name) {
  std::vector<std::string> same;
  for (const Field& field : job.fields()) {
    if (field.name == name) return {name};
    if (field.name.ends_with("." + name)) same.push_back(field.name);
  }
  return same;
}

bool is_limit(std::string_view name) {
  return name == "train.max_epochs" || name == "train.max_steps" || name == "train.max_minutes";
}

void fill(Job& job, std::string_view default_preset, const std::optional<Fields>& saved,
          const GivenSettings& given) {
  job.use_preset(given.preset ? *given.preset : default_preset);
  std::set<std::string> names;
  for (const auto& [name, value] : given.fields) names.insert(name);
  if (given.preset) names.insert("preset");
  if (given.preset && names.contains("model.from")) {
    throw UsageError(concat("preset: expected none with model.from, whose folder has its own sizes, found '",
                            *given.preset, "'"));
  }
  const bool limited = std::ranges::any_of(names, is_limit);
  if (saved) {
    for (const auto& [name, value] : *saved) {
      if (limited && is_limit(name)) continue;
      if (given.preset && name.starts_with("model.")) continue;
      job.set_field(name, value);
    }
  } else {
    if (!limited) job.set_field("train.max_epochs", kDefaultEpochs);
    if (names.contains("train.average_last") && !names.contains("optimizer.average_decay"))
      job.set_field("optimizer.average_decay", "0");
  }
  const std::vector<FieldFlag> flags = job.flags();
  for (const auto& [name, value] : given.fields) {
    const auto flag = std::ranges::find(flags, name, &FieldFlag::field);
    const bool folder = flag != flags.end() && is_model_folder(*flag, value);
    if (!job.set_field(name, folder ? hub::model_folder(value) : value))
      throw UsageError(concat(name, ": not a setting of task ", job.task_name()));
  }
  if (!saved) job.complete(names);
}

}  // namespace qkv::train
