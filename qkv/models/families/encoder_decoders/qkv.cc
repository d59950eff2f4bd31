// qkv's own format for encoder-decoders that no other family can express: each configuration field and each
// tensor under its own name.

#include "qkv/base/error.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

constexpr const char* kFields = "qkv";

TransformerConfig parse(const ConfigReader& reader) {
  if (!reader.is_object(kFields)) reader.reject(kFields, "an object of fields");
  TransformerConfig config;
  for (const auto& [name, value] : reader.entries(kFields)) {
    if (!set_field(config, name, value)) reader.object(kFields).reject(name, "no field of that name");
  }
  return config;
}

bool fits(const TransformerConfig& /*config*/) { return true; }

ConfigWriter serialize(const TransformerConfig& config) {
  ConfigWriter writer("qkv", "QkvTransformer");
  writer.strings(kFields, fields(config));
  // For programs that only look for common fields.
  writer.integer("vocab_size", config.source_vocabulary);
  writer.integer("d_model", config.d_model);
  writer.integer("eos_token_id", config.eos_id);
  writer.integer("pad_token_id", config.pad_id);
  writer.integer("decoder_start_token_id", config.decoder_start_id);
  writer.boolean("is_encoder_decoder", true);
  return writer;
}

WeightMap weight_map(const TransformerConfig& /*config*/) { return {.others_same = true}; }

}  // namespace

TranslationFamily qkv_family() { return {{"qkv", parse, serialize, weight_map}, fits}; }

}  // namespace qkv::models
