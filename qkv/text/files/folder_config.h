#pragma once
// Tokenizer settings from tokenizer_config.json, special_tokens_map.json and config.json.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/added_tokens.h"

namespace qkv::text {

// The names of the special tokens, and other settings.
struct FolderConfig {
  std::string tokenizer_class, model_type;
  bool add_prefix_space = false, trim_offsets = true;
  std::optional<bool> do_lower_case, tokenize_chinese_chars, strip_accents, add_bos_token, add_eos_token;
  std::optional<AddedToken> bos, eos, unk, sep, pad, cls, mask;
  std::vector<AddedToken> added_tokens;  // with their ids
  // Special tokens without ids: those that the files name (bos and so on), and "additional_special_tokens".
  std::vector<AddedToken> named, extra;
  // "clean_up_tokenization_spaces", which transformers ignores for byte-pair encoding without a second field.
  bool clean_up_spaces = false, clean_up_byte_pairs = false;
  bool token_types = true;       // model_input_names has token_type_ids; if not, transformers drops them
  std::string language_codes;    // of M2M-100: which languages it has
  std::string source_language;   // "src_lang"
  bool language_at_end = false;  // "legacy_behaviour" of NLLB: the language after </s>
  bool split_by_punct = false;   // of DeBERTa: punctuation marks are words
  int64_t extra_ids = 100;       // T5: the number of tokens "<extra_id_0>" and so on

  // Whether the tokenizer has one of these classes or, if no file names a class, the model one of these
  // types.
  bool is_a(std::initializer_list<std::string_view> classes,
            std::initializer_list<std::string_view> models) const;
  bool is_roberta() const { return is_a({"Roberta", "BartTokenizer"}, {"roberta", "bart"}); }
  bool is_clip() const { return is_a({"CLIP"}, {"clip", "clip_text_model"}); }
  bool is_siglip() const { return is_a({"SiglipTokenizer"}, {"siglip", "siglip_text_model"}); }
  bool is_deberta() const { return is_a({"DebertaV2"}, {"deberta-v2"}); }
  bool is_xlm_roberta() const { return is_a({"XLMRoberta"}, {"xlm-roberta"}); }
  bool is_m2m() const { return is_a({"M2M100"}, {}); }
  // Sources name their language.
  bool has_languages() const { return is_m2m() || is_a({"MBart", "Nllb"}, {"mbart"}); }
};

// Calls a function with each special token and its name in the files.
template <class Config, class Use>
void for_each_special(Config& config, Use use) {
  use("bos_token", config.bos);
  use("eos_token", config.eos);
  use("unk_token", config.unk);
  use("sep_token", config.sep);
  use("pad_token", config.pad);
  use("cls_token", config.cls);
  use("mask_token", config.mask);
}

// The formats that preceded tokenizer.json, by file name.
bool is_byte_level(const std::string& file);
bool is_wordpiece(const std::string& file);

// The settings in a tokenizer_config.json alone; `name` is for messages.
FolderConfig parse_tokenizer_config(std::string_view json, const std::string& name);

// The settings for the tokenizer in `file`. Throws DataError naming the file and the malformed part.
FolderConfig read_folder_config(const std::filesystem::path& file);

}  // namespace qkv::text
