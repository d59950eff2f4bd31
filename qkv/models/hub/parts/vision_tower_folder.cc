// The vision towers of models of images and texts, in their folders (wrappers.h).

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/io/checksums.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/opened_config.h"
#include "qkv/models/hub/weight_map.h"
#include "qkv/models/image_tiles.h"
#include "qkv/models/vision_tower.h"
#include "qkv/ops/quantize.h"

namespace qkv::models {

ImageFamily internvl_vision_family();  // families/vision/internvl_vision.cc; towers alone have it

namespace {

using Json = nlohmann::json;

// A class of such models in transformers 5.24.
struct TowerFamily {
  std::string_view model_type;
  std::string_view encoder;  // the model_type of "vision_config", if it has none
  const char* others;        // its fields, where transformers has other defaults than that encoder
  // Reads the projector's fields and how prompts show images.
  void (*read)(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places);
  std::vector<WeightRule> projector;
  // Of the encoder's tensors and the projector's; others in folders of other versions of transformers.
  const char *encoder_prefix = "vision_tower.", *projector_prefix = "multi_modal_projector.";
  std::vector<std::string> other_encoder_prefixes = {}, other_projector_prefixes = {};
};

int32_t id_in(const ConfigReader& whole, const char* key, int64_t otherwise) {
  const int64_t id = whole.integer(key, otherwise);
  if (id < 0) whole.reject(key, "an id of at least 0");
  return static_cast<int32_t>(id);
}

// The layer whose states are used. "-1" are those of the last layer, after the encoder's norm if
// `last_is_normed`; other states are before it.
void read_used_layers(const ConfigReader& whole, nn::StackOptions& stack, int64_t otherwise,
                      bool last_is_normed) {
  const int64_t layers = stack.size(), given = whole.integer("vision_feature_layer", otherwise);
  if (given == -1 && last_is_normed) return;
  const int64_t used = given < 0 ? layers + 1 + given : given;
  if (used < 1 || used > layers) {
    whole.reject("vision_feature_layer",
                 concat("the state after one of the ", layers, " layers of the image encoder"));
  }
  stack.layers.resize(static_cast<size_t>(used));
  stack.final_norm = false;
}

void read_activation(const ConfigReader& whole, VisionTowerConfig& tower) {
  tower.activation = activation_of(whole.string("projector_hidden_act", "gelu"));
  if (!tower.activation) whole.reject("projector_hidden_act", "an activation that is supported");
}

void read_llava(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places) {
  read_used_layers(whole, tower.encoder.encoder, -2, /*last_is_normed=*/false);
  const std::string strategy = whole.string("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full")
    whole.reject("vision_feature_select_strategy", R"("default" or "full")");
  tower.drops_class_token = strategy == "default";
  // transformers leaves out the first patch of encoders without a class token.
  if (tower.drops_class_token && !tower.encoder.class_token)
    whole.reject("vision_feature_select_strategy", "\"full\" for an image encoder without a class token");
  read_activation(whole, tower);
  tower.bias = whole.boolean("multimodal_projector_bias", true);
  places.image_id = id_in(whole, whole.has("image_token_id") ? "image_token_id" : "image_token_index", 32000);
}

void read_llava_next(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places) {
  read_llava(whole, tower, places);
  whole.require_boolean("use_image_newline_parameter", true);
  tower.resolutions = read_resolutions(whole);
  if (tower.encoder.class_token && !tower.drops_class_token)
    whole.reject("vision_feature_select_strategy", "\"default\" for an image encoder with a class token");
}

void read_internvl(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places) {
  read_used_layers(whole, tower.encoder.encoder, -1, /*last_is_normed=*/true);
  whole.require_string("vision_feature_select_strategy", "default");
  tower.drops_class_token = true;
  const int64_t across = tower.encoder.width / tower.encoder.patch;
  const double side = 1 / whole.number("downsample_ratio", 0.5);
  if (!(side >= 1 && side <= static_cast<double>(across) && side == std::floor(side) &&
        across % static_cast<int64_t>(side) == 0)) {
    whole.reject("downsample_ratio",
                 concat("1 divided by a divisor of the ", across, " patches in a row of an image"));
  }
  tower.merge_side = static_cast<int64_t>(side);
  tower.norm = true;
  tower.norm_kind = nn::NormKind::layer;
  tower.epsilon = 1e-5f;  // PyTorch's
  read_activation(whole, tower);
  places = {.image_id = id_in(whole, "image_token_id", 151667), .before = "<img>", .after = "</img>"};
}

void read_gemma(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places) {
  const ImageEncoderConfig& encoder = tower.encoder;
  const int64_t tokens = whole.integer("mm_tokens_per_image", 256), across = encoder.width / encoder.patch;
  int64_t side = 1;
  while ((side + 1) * (side + 1) <= tokens) ++side;
  if (side * side != tokens || across % side != 0) {
    whole.reject("mm_tokens_per_image",
                 concat("the square of a divisor of the ", across, " patches in a row of an image"));
  }
  tower.merge = PatchMerge::averaged;
  tower.merge_side = across / side;
  tower.norm = true;
  tower.epsilon = encoder.encoder.first().epsilon;
  tower.bias = false;
  places = {.image_id = id_in(whole, "image_token_index", 262144),
            .begin_id = id_in(whole, "boi_token_index", 255999),
            .end_id = id_in(whole, "eoi_token_index", 256000),
            .both_directions = true};
}

void read_idefics(const ConfigReader& whole, VisionTowerConfig& tower, ImagePlaces& places) {
  tower.merge_side = whole.integer("scale_factor", 2);
  tower.bias = false;
  places = {.image_id = id_in(whole, "image_token_id", 128257), .tiles = true};
}

TowerFamily idefics(std::string_view model_type, std::string_view encoder) {
  return {.model_type = model_type,
          .encoder = encoder,
          .others = R"({"hidden_size": 1152, "num_attention_heads": 16, "patch_size": 32})",
          .read = read_idefics,
          .projector = {{"projector.linear_1", "model.connector.modality_projection.proj"}},
          .encoder_prefix = "model.vision_model.",
          .projector_prefix = "model.connector."};
}

// Folders of transformers 4 have "vision_model." within the tower's names.
TowerFamily with_tower(TowerFamily family) {
  family.other_encoder_prefixes = {"vision_tower.vision_model.", "model.vision_tower.",
                                   "model.vision_tower.vision_model."};
  family.other_projector_prefixes = {"model.multi_modal_projector."};
  return family;
}

TowerFamily llava(std::string_view model_type) {
  return with_tower({.model_type = model_type,
                     .encoder = "clip_vision_model",
                     .others = R"({"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                                   "num_attention_heads": 16, "image_size": 336, "patch_size": 14})",
                     .read = read_llava,
                     .projector = {{"projector.linear_1", "multi_modal_projector.linear_1"},
                                   {"projector.linear_2", "multi_modal_projector.linear_2"}}});
}

TowerFamily llava_next() {
  TowerFamily family = llava("llava_next");
  family.read = read_llava_next;
  family.projector.push_back(
      {.ours = "projector.newline", .theirs = "image_newline", .otherwise = {"model.image_newline"}});
  return family;
}

std::span<const TowerFamily> tower_families() {
  static const std::array kTowers{
      with_tower({.model_type = "gemma3",
                  .encoder = "siglip_vision_model",
                  .others = "{}",
                  .read = read_gemma,
                  .projector = {{.ours = "projector.norm",
                                 .theirs = "multi_modal_projector.mm_soft_emb_norm",
                                 .minus_one = true},
                                {.ours = "projector.linear_1.weight",
                                 .theirs = "multi_modal_projector.mm_input_projection_weight",
                                 .layout = Layout::transposed}}}),
      idefics("idefics3", "idefics3_vision"),
      with_tower({.model_type = "internvl",
                  .encoder = "internvl_vision",
                  .others = "{}",
                  .read = read_internvl,
                  .projector = {{"projector.norm", "multi_modal_projector.layer_norm"},
                                {"projector.linear_1", "multi_modal_projector.linear_1"},
                                {"projector.linear_2", "multi_modal_projector.linear_2"}}}),
      llava("llava"),
      llava_next(),
      idefics("smolvlm", "smolvlm_vision")};
  return kTowers;
}

// Encoders that compute what SigLIP's does, if an image has the model's size.
bool is_siglip(std::string_view model_type) {
  constexpr std::array<std::string_view, 4> kSame{"siglip_vision_model", "idefics3", "idefics3_vision",
                                                  "smolvlm_vision"};
  return std::ranges::find(kSame, model_type) != kSame.end();
}

// "vision_config" as the config.json of an encoder's own folder.
std::string encoder_config(const ConfigReader& whole, const TowerFamily& family) {
  Json given = Json::object();
  if (whole.has("vision_config")) {
    whole.object("vision_config");
    given = Json::parse(whole.find("vision_config")->text(), nullptr, false);
    if (given.is_discarded()) whole.reject("vision_config", "numbers within a double's range");
  }
  std::string type(family.encoder);
  if (const auto found = given.find("model_type"); found != given.end() && found->is_string())
    type = found->get<std::string>();
  Json config = type == family.encoder || (is_siglip(type) && is_siglip(family.encoder))
                    ? Json::parse(family.others)
                    : Json::object();
  config.update(given);
  const bool siglip = is_siglip(type);
  config["model_type"] = siglip ? "siglip_vision_model" : type;
  config["architectures"] = {siglip                      ? "SiglipVisionModel"
                             : type == "internvl_vision" ? "InternVLVisionModel"
                                                         : "CLIPVisionModel"};
  // InternVL's: a height and a width.
  for (const char* key : {"image_size", "patch_size"}) {
    const Json sides = config.value(key, Json());
    if (sides.is_array() && sides.size() == 2 && sides[0] == sides[1]) config[key] = sides[0];
  }
  // Of images in general, and of the whole.
  for (const char* key : {"vocab_size", "dtype", "torch_dtype", "max_image_size", "size", "use_base_siglip",
                          "tie_word_embeddings"})
    config.erase(key);
  return config.dump(2);
}

// Without heads, which no tower uses.
ImageEncoderConfig read_encoder(const ConfigReader& whole, const TowerFamily& family, const std::string& path,
                                const ImageFamily*& found) {
  const ConfigReader reader(encoder_config(whole, family), path + ": vision_config");
  const std::string type = reader.string("model_type");
  static const ImageFamily internvl = internvl_vision_family();
  found = type == internvl.model_type                                ? &internvl
          : type.starts_with("clip_") || type.starts_with("siglip_") ? find_family(image_families(), type)
                                                                     : nullptr;
  if (found == nullptr)
    reader.reject("model_type", "clip_vision_model, siglip_vision_model or internvl_vision");
  ImageEncoderConfig config = found->parse(reader);
  config.pooler = false;
  config.projection = 0;
  return config;
}

// The tensors of other parts than that with these prefixes.
std::vector<std::string> others(const TensorFiles& files, const std::vector<std::string>& prefixes) {
  std::vector<std::string> names = files.names();
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(prefixes, [&](const std::string& one) { return name.starts_with(one); });
  });
  return names;
}

std::vector<std::string> with(const char* first, std::vector<std::string> others) {
  others.emplace_back(first);
  return others;
}

// The names of the image encoders' tensors within the whole. Of `layers`, the last ones may not be used.
WeightMap encoder_map(const ImageFamily& of, const ImageEncoderConfig& config, const TowerFamily& family,
                      int64_t layers, const TensorFiles& files) {
  WeightMap map = of.weight_map(config);
  const std::string alone = map.prefix;
  for (WeightRule& rule : map.rules) {
    if (rule.theirs.starts_with(alone)) rule.theirs.replace(0, alone.size(), family.encoder_prefix);
  }
  map.prefix = family.encoder_prefix;
  map.other_prefixes = family.other_encoder_prefixes;
  const std::vector<std::string> prefixes = with(family.encoder_prefix, family.other_encoder_prefixes);
  map.other_parts = others(files, prefixes);
  for (const std::string& prefix : prefixes) {
    map.other_parts.push_back(prefix + "head.");
    for (const char* norm : {"post_layernorm.", "layernorm."})
      if (!config.encoder.final_norm) map.other_parts.push_back(prefix + norm);
    for (int64_t layer = config.encoder.size(); layer < layers; ++layer)
      for (const char* list : {"encoder.layers.", "encoder.layer."})
        map.other_parts.push_back(concat(prefix, list, layer, "."));
  }
  return map;
}

const TowerFamily* find_tower(std::string_view model_type) {
  const auto families = tower_families();
  const auto found = std::ranges::find(families, model_type, &TowerFamily::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace

bool reads_images(std::string_view model_type) { return find_tower(without_own(model_type)) != nullptr; }

std::optional<ImageReading> load_image_reading(const std::filesystem::path& folder, int64_t d_model,
                                               const LoadOptions& options) {
  if (is_gguf(folder)) return std::nullopt;
  const std::string path = (folder / kConfig).string(), text = read_file(folder / kConfig);
  const ConfigReader whole(text, path);
  const std::string model_type = whole.string("model_type", "");
  const TowerFamily* family = find_tower(without_own(model_type));
  if (family == nullptr) return std::nullopt;
  const ImageFamily* encoder = nullptr;
  VisionTowerConfig config{.encoder = read_encoder(whole, *family, path, encoder), .d_model = d_model};
  const int64_t layers = config.encoder.encoder.size();
  ImageReading reading;
  std::shared_ptr<VisionTower> tower;
  try {
    config.encoder.validate();  // families divide by sizes
    family->read(whole, config, reading.places);
    config.encoder.encoder.activations = options.activations;
    tower = std::make_shared<VisionTower>(config);
  } catch (const UsageError& error) {
    throw DataError(concat(path, ": ", error.what()));
  }
  const TensorFiles files = with_io_errors([&] { return TensorFiles(folder, MapFor::reading); });
  // Beside a language model in qkv's own format they are as they were.
  const StoredDType stored =
      without_own(model_type) == model_type ? stored_dtype(text, path) : StoredDType{path};
  load_parameters(
      files, encoder_map(*encoder, config.encoder, *family, layers, files), stored,
      [&](const nn::ParameterVisitor& visitor) { tower->encoder().visit(visitor); }, options);
  load_parameters(
      files,
      {.rules = family->projector,
       .prefix = family->projector_prefix,
       .other_parts = others(files, with(family->projector_prefix, family->other_projector_prefixes)),
       .other_prefixes = family->other_projector_prefixes},
      stored, [&](const nn::ParameterVisitor& visitor) { tower->visit_projector(visitor); }, options);
  nn::move_to(*tower, options.device);
  reading.tower = std::move(tower);
  return reading;
}

void save_with_images(const std::filesystem::path& folder, const LanguageModel& model,
                      std::string_view model_type, const std::filesystem::path& original) {
  const std::string path = (original / kConfig).string();
  const auto visit = [&](const nn::ParameterVisitor& visitor) { model.visit(visitor); };
  const DType dtype = weight_dtype(visit);
  Json config = Json::parse(read_file(original / kConfig));
  const std::string whole(without_own(config["model_type"].get<std::string>()));
  const Wrapper* wrapper = find_wrapper(whole);
  const TowerFamily* family = find_tower(whole);
  const LanguageFamily* language = find_family(language_families(), model_type);
  if (wrapper == nullptr || family == nullptr || language == nullptr)
    throw UsageError(concat(path, ": expected a language model that reads images, found ", whole));
  config["model_type"] = model_type_of(whole, dtype);
  config["dtype"] = config_dtype(dtype);
  config.erase("torch_dtype");
  WeightMap map = is_own(dtype)
                      ? WeightMap{.others_same = true, .own_prefix = own_prefix(DualPart::text)}
                      : wrapped_map(language->weight_map(model.config()), *wrapper, model.config().decoder);
  std::vector<io::NamedTensor> tensors = stored_tensors(map, visit);
  const TensorFiles files = with_io_errors([&] { return TensorFiles(original, MapFor::reading); });
  std::vector<std::string> prefixes{family->encoder_prefix, family->projector_prefix};
  for (const auto* more : {&family->other_encoder_prefixes, &family->other_projector_prefixes})
    prefixes.insert(prefixes.end(), more->begin(), more->end());
  for (const WeightRule& rule : family->projector) {
    prefixes.push_back(rule.theirs);
    prefixes.insert(prefixes.end(), rule.otherwise.begin(), rule.otherwise.end());
  }
  for (const std::string& name : files.names()) {
    if (std::ranges::none_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); }))
      continue;
    const io::TensorFile& file = files.file_of(name, {});
    const Tensor stored = file.as_stored(name, file.shape(name));
    const bool rounds = stored.rank() > 1 && !is_own(dtype) && is_weight_dtype(stored.dtype());
    tensors.push_back({name, rounds ? to_dtype({stored}, dtype).values : stored});
  }
  std::ranges::sort(tensors, {}, &io::NamedTensor::name);
  make_writable_folder(folder);
  write_file_atomically(folder / kConfig, config.dump(2) + "\n");
  io::write_safetensors(folder / kSavedWeights, tensors, io::with_checksums({{"format", "pt"}}, tensors));
}

}  // namespace qkv::models
