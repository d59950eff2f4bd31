#include "qkv/train/fields.h"

namespace qkv::train {

bool Settings::set(std::string_view name, std::string_view text) const {
  for (const Setting& setting : all_) {
    if (setting.name != name) continue;
    setting.set(name, text);
    return true;
  }
  return false;
}

std::vector<Field> Settings::list() const {
  std::vector<Field> result;
  for (const Setting& setting : all_)
    result.push_back({setting.name, setting.text(), setting.decides_weights});
  return result;
}

void Settings::validate() const {
  for (const Setting& setting : all_) {
    if (setting.check) setting.check();
  }
}

}  // namespace qkv::train
