#include "qkv/models/quantize.h"

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/folder.h"

namespace qkv::models {

void quantize_folder(const std::filesystem::path& from, const std::filesystem::path& to, WeightForm form) {
  if (std::filesystem::exists(to) && !(std::filesystem::is_directory(to) && std::filesystem::is_empty(to))) {
    throw UsageError(concat(to.string(), ": expected an empty folder or none, found ",
                            std::filesystem::is_directory(to) ? "one with files in it" : "a file"));
  }
  const TranslationModel model = load_translation_model(from, {.weights = form});
  make_writable_folder(to);
  model.tokenizer->save(to);
  save_transformer(to, *model.transformer, model.generation);
}

}  // namespace qkv::models
