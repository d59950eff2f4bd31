// qkv's own format for encoder-decoders that no other family can express: each configuration field and each
// tensor under its own name.

#include "qkv/models/hub/family.h"

namespace qkv::models {
namespace {

void table(const Fields& fields, Described<TransformerConfig>& model) {
  TransformerConfig& config = model.config;
  fields.require("qkv", !fields.reads() || fields.reader()->is_object("qkv"), "an object of fields");
  fields.object("qkv", [&](const Fields& inner) {
    for (auto [name, value] : models::fields(config)) {
      inner(name.c_str(), value, value);
      set_field(config, name, value);
    }
  });
  fields.require("qkv", !config.reads_audio(), "sources of tokens, as whisper's format has those of audio");
  // For programs that only look for common fields.
  fields.derive("vocab_size", config.source_vocabulary);
  fields.derive("d_model", config.d_model);
  fields.derive("eos_token_id", config.eos_id);
  fields.derive("pad_token_id", config.pad_id);
  fields.derive("decoder_start_token_id", config.decoder_start_id);
  fields.derive("is_encoder_decoder", true);
}

WeightMap weight_map(const TransformerConfig& /*config*/) { return {.others_same = true}; }

}  // namespace

TranslationFamily qkv_family() {
  return {.model_type = "qkv",
          .classes = {{"QkvTransformer"}},
          .base = {},
          .table = table,
          .weight_map = weight_map};
}

}  // namespace qkv::models
