// Reads a config.json with the family that it names, and constructs the model without weights.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/transformer.h"

namespace {

using namespace qkv::models;

constexpr const char* kPath = "config.json";

template <class Model, class Family>
void open(const std::string& text, std::span<const Family> families) {
  try {
    const ConfigReader reader(text, kPath);
    const Family* family = find_family(families, reader.string("model_type"));
    if (family == nullptr) return;
    const auto config = family->parse(reader);
    const Model model(config);
    family->weight_map(config);
    family->serialize(config).json();
  } catch (const qkv::Error&) {
    // Rejected, as expected.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  open<LanguageModel>(text, language_families());
  open<TextEncoder>(text, encoder_families());
  open<ImageEncoder>(text, image_families());
  open<Transformer>(text, translation_families());
  return 0;
}
