#include "qkv/train/fields.h"

namespace qkv::train {

void Settings::Setting::flag(FieldFlag one) {
  option = std::move(one);
  if (option.unit == "|") option.unit = names;
  option.on_resume = !decides_weights && name.starts_with("train.");
  option.field = name;
  if (!option.flag.empty()) return;
  option.flag = "--" + name.substr(name.find('.') + 1);
  std::ranges::replace(option.flag, '_', '-');
}

void Settings::flag(std::string_view name, FieldFlag one) {
  for (Setting& setting : all_) {
    if (setting.name == name) return setting.flag(std::move(one));
  }
  throw UsageError(concat(name, ": expected a setting, found none of this name"));
}

std::vector<FieldFlag> Settings::flags() const {
  std::vector<FieldFlag> result;
  for (const Setting& setting : all_) {
    if (setting.option.help.empty()) continue;
    result.push_back(setting.option);
    result.back().value = setting.text();
  }
  return result;
}

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
