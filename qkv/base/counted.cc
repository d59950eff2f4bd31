#include "qkv/base/counted.h"

namespace qkv {

std::string noun(int64_t number, std::string_view things) {
  if (number == 1) things.remove_suffix(things.ends_with("ches") || things.ends_with("sses") ? 2 : 1);
  return std::string(things);
}

std::string counted(int64_t number, std::string_view things) {
  return std::to_string(number) + " " + noun(number, things);
}

}  // namespace qkv
