#pragma once
// The settings that a user gives to a training run, and those that follow.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/train/checkpoint.h"
#include "qkv/train/job.h"

namespace qkv::train {

struct GivenSettings {
  std::optional<std::string> preset;
  std::vector<std::pair<std::string, std::string>> fields;  // by full name; a later one wins
};

// The setting of that name, or, for a name without its namespace ("d_model"), those that it may stand for:
// none if there is no such setting.
std::vector<std::string> settings_named(const Job& job, const std::string& name);

// Whether a setting is a limit of the run's length: a resumed run with a given one drops the saved ones.
bool is_limit(std::string_view name);

// Fills in a job as `qkv train` does: the preset, by default `default_preset`, the settings of the run to
// resume, the given ones, and what follows from them (Job::complete). Folders of models may be names of the
// hub (hub::model_folder). Throws UsageError for a setting that does not fit, IoError for a name that is not
// in the cache.
void fill(Job& job, std::string_view default_preset, const std::optional<Fields>& saved,
          const GivenSettings& given);

}  // namespace qkv::train
