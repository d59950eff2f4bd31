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
#include "qkv/models/hub/weights.h"
#include "qkv/models/hub/wrappers.h"

namespace qkv::models {

inline constexpr const char* kConfig = "config.json";
inline constexpr const char* kGeneration = "generation_config.json";
inline constexpr const char* kModules = "modules.json";
// Kinds of models, for messages.
inline constexpr const char *kLanguageModel = "a language model", *kTextEncoder = "an encoder of texts",
                            *kImageEncoder = "an encoder of images", *kTransformer = "an encoder-decoder";

// The tensors' names and layouts: the family's; its names and the parameters' layouts; the parameters' own.
enum class Layouts : uint8_t { family, gguf, own };

// How the tensors of files are named and laid out. `wrapper`: the model that the family's is within, or null.
struct Stored {
  Layouts layouts = Layouts::family;
  const Wrapper* wrapper = nullptr;
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
