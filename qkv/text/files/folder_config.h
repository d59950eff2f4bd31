#pragma once
// The settings of a tokenizer in the files beside its own: tokenizer_config.json, special_tokens_map.json,
// config.json.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/added_tokens.h"

namespace qkv::text {

// The names of the special tokens, and other settings of the tokenizer.
struct FolderConfig {
  std::string tokenizer_class, model_type;
  bool add_prefix_space = false, trim_offsets = true;
  std::optional<bool> do_lower_case, tokenize_chinese_chars, strip_accents, add_bos_token, add_eos_token;
  std::optional<AddedToken> bos, eos, unk, sep, pad, cls, mask;
  std::vector<AddedToken> added_tokens;
  int64_t extra_ids = 100;  // of T5: the number of tokens "<extra_id_0>" and so on

  // Whether the tokenizer is of one of these classes or, where no file names a class, of such a model.
  bool is_a(std::initializer_list<std::string_view> classes,
            std::initializer_list<std::string_view> models) const;
  bool is_roberta() const { return is_a({"Roberta"}, {"roberta"}); }
};

// Each special token of a folder by its name in the files.
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

// The files that came before tokenizer.json, by their names.
bool is_byte_level(const std::string& file);
bool is_wordpiece(const std::string& file);

// The settings of the tokenizer in `file`. Throws DataError naming the file and the malformed part.
FolderConfig read_folder_config(const std::filesystem::path& file);

}  // namespace qkv::text
