#include "qkv/models/hub/model_file.h"

#include <system_error>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/parts/wrappers.h"

namespace qkv::models {

std::optional<std::string> read_model_file(const std::filesystem::path& model, const std::string& name) {
  return with_io_errors([&]() -> std::optional<std::string> {
    if (is_gguf(model)) return GgufModel(model).text_file(name);
    std::error_code error;
    if (std::filesystem::exists(model / name, error)) {
      const std::string text = read_file(model / name);
      return name == "config.json" ? unwrapped_config(text, (model / name).string()) : text;
    }
    if (error && error != std::errc::filename_too_long)  // an invalid file name does not exist
      throw std::filesystem::filesystem_error("cannot read", model / name, error);
    return std::nullopt;
  });
}

std::string model_file_name(const std::filesystem::path& model, const std::string& name) {
  return is_gguf(model) ? model.string() : (model / name).string();
}

void refuse_gguf(const std::filesystem::path& model, const std::string& what) {
  if (is_gguf(model))
    throw UsageError(concat(what, ": expected a model folder, found the GGUF file ", model.string()));
}

}  // namespace qkv::models
