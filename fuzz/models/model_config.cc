// Reads a config.json with the family that it names, and constructs the model without weights.

#include <type_traits>

#include "fuzz/input.h"
#include "fuzz/reader.h"
#include "qkv/base/error.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/parts/dual_family.h"
#include "qkv/models/hub/parts/wrappers.h"
#include "qkv/nn/parameter.h"

namespace qkv::fuzz {
namespace {

using namespace models;

template <class Model, class Family>
void open(const std::string& text, std::span<const Family> families) {
  const ConfigReader whole(unwrapped_config(text, "config.json"), "config.json");
  const DualFamily* dual = find_dual(whole.string("model_type"));
  constexpr DualPart kPart = std::is_same_v<Model, TextEncoder> ? DualPart::text : DualPart::image;
  const ConfigReader reader =
      dual == nullptr ? whole : ConfigReader(config_of_part(whole, *dual, kPart), "config.json");
  const Family* family = find_family(families, reader.string("model_type"));
  if (family == nullptr) throw DataError("another kind of model");
  const auto config = family->parse(reader);
  const Model model(config);
  nn::count_parameters(model);
  family->weight_map(config);
  family->serialize(config).json();
}

void read(std::string_view bytes) {
  const std::string text(bytes);
  read_in_each_way({[&] { open<LanguageModel>(text, language_families()); },
                    [&] { open<TextEncoder>(text, encoder_families()); },
                    [&] { open<ImageEncoder>(text, image_families()); },
                    [&] { open<Transformer>(text, translation_families()); }});
}

std::vector<std::string> seeds() {
  return golden_files({"apps/golden/hub", "models/golden", "pipelines/golden"}, "/config.json");
}

}  // namespace

const Reader model_config{"model_config", read, seeds};

}  // namespace qkv::fuzz
