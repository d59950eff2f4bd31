#include "qkv/models/hub/parts/processor_text.h"

#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"
#include "qkv/models/hub/config_reader.h"

namespace qkv::models {
namespace {

constexpr const char *kProcessor = "preprocessor_config.json", *kProcessors = "processor_config.json";

// A name that is too long is not there.
bool is_there(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::exists(file, error);
}

}  // namespace

bool has_processor(const std::filesystem::path& folder) {
  return is_there(folder / kProcessor) || is_there(folder / kProcessors);
}

std::pair<std::string, std::string> processor_text(const std::filesystem::path& folder,
                                                   const std::string& field) {
  const std::filesystem::path path = folder / kProcessor, several = folder / kProcessors;
  if (is_there(path) || !is_there(several)) return {read_file(path), path.string()};
  const std::string text = read_file(several);
  const auto object = ConfigReader(text, several.string()).find(field);
  if (!object)
    throw DataError(concat(several.string(), ": ", field, ": expected an object, as there is no ", kProcessor,
                           ", found none"));
  return {std::string(object->text()), concat(several.string(), ": ", field)};
}

}  // namespace qkv::models
