#include "qkv/text/files/folder_config.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/json.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

// Reads the matching options of a token, which have the same names in all these files.
void read_finding(const JsonValue& part, AddedToken& token) {
  token.content = part["content"].string();
  token.single_word = part.boolean_or("single_word", false);
  token.lstrip = part.boolean_or("lstrip", false);
  token.rstrip = part.boolean_or("rstrip", false);
}

// "[SEP]", or an object with that content.
AddedToken special_token(const JsonValue& part) {
  AddedToken token;
  token.special = true;
  part.is_object() ? read_finding(part, token) : void(token.content = part.string());
  return token;
}

void read_special_tokens(const JsonValue& root, FolderConfig& config) {
  for_each_special(config, [&](const char* key, std::optional<AddedToken>& token) {
    if (const auto part = root.find(key)) token = special_token(*part);
  });
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    const auto list = root.find(key);
    if (!list || !config.extra.empty()) continue;
    const auto add = [&](const JsonValue& part) { config.extra.push_back(special_token(part)); };
    if (list->is_object()) {
      list->members([&](std::string_view, const JsonValue& part) { add(part); });
    } else {
      for (const JsonValue& part : list->items()) add(part);
    }
  }
}

// Ids by token. Those that tokenizer_config.json lists are special.
void read_added_tokens(const JsonValue& root, FolderConfig& config) {
  root.members([&](std::string_view content, const JsonValue& id) {
    AddedToken token{.content = std::string(content), .id = static_cast<int32_t>(id.integer(0, INT32_MAX))};
    const auto is_it = [&](const AddedToken& other) { return other.content == content; };
    token.special = std::ranges::any_of(config.extra, is_it);
    for_each_special(config, [&](const char*, const std::optional<AddedToken>& named) {
      token.special = token.special || (named && is_it(*named));
    });
    token.normalized = !token.special;
    config.added_tokens.push_back(std::move(token));
  });
}

int64_t id_from_key(std::string_view key, const JsonValue& part) {
  const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == key.npos;
  if (!digits) part.fail("an id as its name");
  return std::stoll(std::string(key));
}

void read_tokenizer_config(const JsonValue& root, FolderConfig& config) {
  config.tokenizer_class = root.string_or("tokenizer_class", "");
  config.add_prefix_space = root.boolean_or("add_prefix_space", config.add_prefix_space);
  config.trim_offsets = root.boolean_or("trim_offsets", config.trim_offsets);
  for (const auto& [key, flag] : {std::pair{"do_lower_case", &config.do_lower_case},
                                  {"tokenize_chinese_chars", &config.tokenize_chinese_chars},
                                  {"strip_accents", &config.strip_accents},
                                  {"add_bos_token", &config.add_bos_token},
                                  {"add_eos_token", &config.add_eos_token}}) {
    if (const auto part = root.find(key)) *flag = part->boolean();
  }
  if (const auto names = root.find("model_input_names")) {
    config.token_types = std::ranges::any_of(
        names->items(), [](const JsonValue& name) { return name.string() == "token_type_ids"; });
  }
  const bool byte_pairs_too =
      root.boolean_or("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false);
  config.clean_up_spaces = root.boolean_or("clean_up_tokenization_spaces", false);
  config.clean_up_byte_pairs = config.clean_up_spaces && byte_pairs_too;
  config.language_codes = root.string_or("language_codes", "");
  config.source_language = root.string_or("src_lang", "");
  config.language_at_end = root.boolean_or("legacy_behaviour", false);
  config.split_by_punct = root.boolean_or("split_by_punct", false);
  if (const auto extra = root.find("extra_ids")) {
    config.extra_ids = extra->integer(0, 10000);
  }
  read_special_tokens(root, config);
  if (const auto added = root.find("added_tokens_decoder")) {
    added->members([&](std::string_view key, const JsonValue& part) {
      AddedToken token;
      token.id = static_cast<int32_t>(id_from_key(key, part));
      read_finding(part, token);
      token.special = part.boolean_or("special", false);
      token.normalized = part.boolean_or("normalized", !token.special);
      config.added_tokens.push_back(std::move(token));
    });
  }
}

// transformers 5 writes no list of M2M-100's languages: those of the class, in the order of ids.
void name_m2m_languages(FolderConfig& config) {
  std::istringstream codes(
      config.language_codes == "wmt21"
          ? "en ha is ja cs ru zh de"
          : "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha "
            "he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my "
            "ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz "
            "vi wo xh yi yo zh zu");
  for (std::string code; codes >> code;)
    config.extra.push_back({.content = concat("__", code, "__"), .special = true});
}

void take_named(FolderConfig& config) {
  for_each_special(config, [&](const char*, const std::optional<AddedToken>& token) {
    if (token) config.named.push_back(*token);
  });
}

// Names missing from the files default to those of the tokenizer class, which the names of the older files
// imply.
void name_usual_tokens(const std::string& file, FolderConfig& config) {
  const auto otherwise = [](std::optional<AddedToken>& token, const char* usual) {
    if (!token) token = {.content = usual, .special = true};
  };
  const bool bert = config.is_a({"Bert", "DistilBert"}, {"bert", "distilbert"});
  const bool gpt2 = config.is_a({"GPT2"}, {"gpt2"});
  if (is_wordpiece(file) || (bert && !is_byte_level(file)) || config.is_deberta()) {
    otherwise(config.unk, "[UNK]");
    otherwise(config.sep, "[SEP]");
    otherwise(config.pad, "[PAD]");
    otherwise(config.cls, "[CLS]");
    otherwise(config.mask, "[MASK]");
  } else if (config.is_roberta() || config.is_xlm_roberta() || config.has_languages()) {
    otherwise(config.bos, "<s>");
    otherwise(config.eos, "</s>");
    otherwise(config.sep, "</s>");
    otherwise(config.cls, "<s>");
    otherwise(config.unk, "<unk>");
    otherwise(config.pad, "<pad>");
    if (!config.is_m2m()) otherwise(config.mask, "<mask>");
    if (config.is_m2m() && config.extra.empty()) name_m2m_languages(config);
  } else if (config.is_clip()) {
    otherwise(config.bos, "<|startoftext|>");
    for (std::optional<AddedToken>* token : {&config.eos, &config.unk, &config.pad})
      otherwise(*token, "<|endoftext|>");
  } else if (config.is_siglip()) {
    otherwise(config.eos, "</s>");
    otherwise(config.pad, "</s>");
    otherwise(config.unk, "<unk>");
  } else if (is_byte_level(file) || gpt2) {
    for (std::optional<AddedToken>* token : {&config.bos, &config.eos, &config.unk})
      otherwise(*token, "<|endoftext|>");
  }
}

}  // namespace

bool FolderConfig::is_a(std::initializer_list<std::string_view> classes,
                        std::initializer_list<std::string_view> models) const {
  if (tokenizer_class.empty()) return std::ranges::count(models, model_type) > 0;
  return std::ranges::any_of(classes, [&](auto name) { return tokenizer_class.starts_with(name); });
}

bool is_byte_level(const std::string& file) { return file == "vocab.json" || file == "merges.txt"; }

bool is_wordpiece(const std::string& file) { return file.ends_with(".txt") && !is_byte_level(file); }

FolderConfig parse_tokenizer_config(std::string_view json, const std::string& name) {
  FolderConfig config;
  read_tokenizer_config(parse_json(json, name), config);
  take_named(config);
  return config;
}

FolderConfig read_folder_config(const fs::path& file) {
  FolderConfig config;
  const fs::path folder = file.parent_path();
  const auto read = [&](const char* name, auto use) {
    const fs::path path = folder / name;
    if (!fs::exists(path)) return;
    const JsonValue root = parse_json(read_file(path), path.string());
    use(root);
  };
  bool lists_added = false;
  read("tokenizer_config.json", [&](const JsonValue& root) {
    read_tokenizer_config(root, config);
    lists_added = root.has("added_tokens_decoder");
  });
  if (!lists_added) {  // as before transformers 4.34
    const std::vector<AddedToken> extra = config.extra;
    read("special_tokens_map.json", [&](const JsonValue& root) { read_special_tokens(root, config); });
    read("added_tokens.json", [&](const JsonValue& root) {
      std::vector<AddedToken> all = std::exchange(config.extra, extra);
      read_added_tokens(root, config);
      config.extra = std::move(all);
    });
  }
  read("config.json", [&](const JsonValue& root) { config.model_type = root.string_or("model_type", ""); });
  // A folder with int8 weights; the tokenizer is that of the original family.
  constexpr std::string_view kOwn = "qkv-";
  if (config.model_type.starts_with(kOwn)) config.model_type.erase(0, kOwn.size());
  take_named(config);
  name_usual_tokens(file.filename().string(), config);
  return config;
}

}  // namespace qkv::text
