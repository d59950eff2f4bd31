// A config.json, as the family reads it that it names, and the model that it describes, without its numbers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "qkv/base/error.h"
#include "qkv/models/family.h"
#include "qkv/models/marian.h"
#include "qkv/models/transformer.h"

namespace {

using namespace qkv::models;

constexpr const char* kPath = "config.json";

template <class Model, class Config>
void open(const std::string& text, std::span<const FamilyOf<Config>> families) {
  try {
    const ConfigReader reader(text, kPath);
    const std::string type = reader.text("model_type");
    const auto family = std::ranges::find(families, type, &FamilyOf<Config>::model_type);
    if (family == families.end()) return;
    const Config config = family->read(reader);
    const Model model(config);
    family->names(config);
    family->write(config);
  } catch (const qkv::Error&) {
    // Refused, as it should be.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  open<LanguageModel>(text, language_families());
  open<TextEncoder>(text, encoder_families());
  open<ImageEncoder>(text, image_families());
  try {
    const Transformer model(parse_config_json(text, kPath));
  } catch (const qkv::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
