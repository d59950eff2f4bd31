#pragma once
// config.json of a model folder, opened and read by its family: what loading, saving and questions about a
// folder have in common.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/parts/dual_family.h"
#include "qkv/models/hub/parts/wrappers.h"
#include "qkv/models/hub/weights.h"

namespace qkv::models {

inline constexpr const char* kConfig = "config.json";
inline constexpr const char* kGeneration = "generation_config.json";
inline constexpr const char* kSavedWeights = "model.safetensors";
inline constexpr const char* kModules = "modules.json";
// Kinds of models, for messages.
inline constexpr const char *kLanguageModel = "a language model", *kTextEncoder = "an encoder of texts",
                            *kImageEncoder = "an encoder of images", *kTransformer = "an encoder-decoder";

// The tensors' names and layouts: the family's; its names and the parameters' layouts; the parameters' own.
enum class Layouts : uint8_t { family, gguf, own };

// How the tensors of files are named and laid out. `wrapper`, `dual`: the model that the family's is within,
// or null; `part`: the encoder of a dual one.
struct Stored {
  Layouts layouts = Layouts::family;
  const Wrapper* wrapper = nullptr;
  const DualFamily* dual = nullptr;
  DualPart part = DualPart::text;
};

// A folder's config.json, opened, with the fields read before its family reads the rest.
struct Opened {
  ConfigReader reader;
  StoredDType weights;
  std::string family;
  Stored stored = {};
};

// Throws IoError, and DataError for a file that is malformed, and for weights that another program has
// quantised.
Opened open_config(const std::filesystem::path& folder);

// Of the names of an encoder's tensors in the parameters' own layouts.
constexpr const char* own_prefix(DualPart part) { return part == DualPart::text ? "text." : "image."; }

// One encoder of a dual model, as a folder of its own would be; other folders as they are.
Opened part_of(Opened opened, DualPart part);

// Whether weights of a dtype have no place in the family's own folders.
inline bool is_own(DType dtype) { return dtype == DType::i8 || in_blocks(dtype); }
// With a prefix for such weights.
std::string model_type_of(std::string_view family, DType dtype);

template <class Family>
std::string model_types(std::span<const Family> families) {
  std::string list;
  for (const Family& family : families) list += concat(list.empty() ? "" : ", ", family.model_type);
  return list;
}

// A folder's config.json, read by its family.
template <class Family>
struct Configured {
  Opened opened;
  const Family* family;
  decltype(std::declval<const Family&>().parse(std::declval<const ConfigReader&>())) config;
};

// `described`: the folder with config.json. `kind`: for messages. Throws DataError for a model_type that is
// not one of the families', and for a field that does not fit.
template <class Family>
Configured<Family> read_config(const std::filesystem::path& folder, const std::filesystem::path& described,
                               const char* kind, std::span<const Family> families);

}  // namespace qkv::models
