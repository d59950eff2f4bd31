// Selects a folder's tokenizer files; reads the formats that preceded tokenizer.json.

#include <algorithm>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/utf8.h"
#include "qkv/text/files/folder_config.h"
#include "qkv/text/files/marian_files.h"
#include "qkv/text/files/tokenizer_json.h"
#include "qkv/text/steps/unicode.h"
#include "qkv/text/token_models/sentencepiece.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

// The ids of added tokens must match the vocabulary.
void require_ids_of(const Vocabulary& vocabulary, const std::vector<AddedToken>& tokens,
                    const std::string& name) {
  for (const AddedToken& token : tokens) {
    const int32_t known = vocabulary.find(token.content);
    if (token.id >= Vocabulary::kMaxIds || (known >= 0 && known != token.id) ||
        (known < 0 && vocabulary.has(token.id))) {
      throw DataError(concat(name, ": expected the vocabulary's ids for added tokens, found ", token.id,
                             " for '", token.content, "' in tokenizer_config.json or added_tokens.json"));
    }
  }
}

// Adds a token to those that are matched in text, unless it is one already. A token that is not in the
// vocabulary gets the next id, as in transformers.
void add_token(AddedToken token, const Vocabulary& vocabulary, std::vector<AddedToken>& tokens) {
  if (std::ranges::count(tokens, token.content, &AddedToken::content) > 0) return;
  token.id = vocabulary.find(token.content);
  if (token.id < 0) {
    token.id = static_cast<int32_t>(vocabulary.size());
    for (const AddedToken& other : tokens) token.id = std::max(token.id, other.id + 1);
  }
  tokens.push_back(std::move(token));
}

// Special tokens are matched in text.
std::vector<AddedToken> special_tokens(const FolderConfig& config, const Vocabulary& vocabulary,
                                       const std::string& name) {
  require_ids_of(vocabulary, config.added_tokens, name);
  std::vector<AddedToken> tokens = config.added_tokens;
  for_each_special(config, [&](const char*, const std::optional<AddedToken>& token) {
    if (!token) return;
    add_token(*token, vocabulary, tokens);
    std::ranges::find(tokens, token->content, &AddedToken::content)->special = true;
  });
  for (const AddedToken& token : config.extra) add_token(token, vocabulary, tokens);
  return tokens;
}

int32_t id_among(const std::vector<AddedToken>& tokens, const std::optional<AddedToken>& wanted) {
  return std::ranges::find(tokens, wanted->content, &AddedToken::content)->id;
}

// Adds <s> before each text and </s> after it, if given.
void put_ends(PostProcessing& post, std::optional<int32_t> bos, std::optional<int32_t> eos,
              int32_t second_type) {
  const auto around = [&](int text, int32_t type_id) {
    std::vector<PostProcessing::Part> parts;
    if (bos) parts.push_back({-1, {*bos}, type_id});
    parts.push_back({text, {}, type_id});
    if (eos) parts.push_back({-1, {*eos}, type_id});
    return parts;
  };
  post.single = post.pair = around(0, 0);
  const std::vector<PostProcessing::Part> second = around(1, second_type);
  post.pair.insert(post.pair.end(), second.begin(), second.end());
}

// <s> before a text and two </s> between texts.
void put_roberta_ends(PostProcessing& post, const FolderConfig& config,
                      const std::vector<AddedToken>& tokens) {
  const std::vector<int32_t> cls{id_among(tokens, config.cls)}, sep{id_among(tokens, config.sep)};
  post.single = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}};
  post.pair = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}, {-1, sep, 0}, {1, {}, 0}, {-1, sep, 0}};
}

// [CLS] before a text and [SEP] after each.
void put_bert_ends(PostProcessing& post, const FolderConfig& config, const std::vector<AddedToken>& tokens) {
  const std::vector<int32_t> cls{id_among(tokens, config.cls)}, sep{id_among(tokens, config.sep)};
  post.single = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}};
  post.pair = {{-1, cls, 0}, {0, {}, 0}, {-1, sep, 0}, {1, {}, 1}, {-1, sep, 1}};
}

// BERT's normalizer with the settings of tokenizer_config.json, which take precedence over tokenizer.json.
NormalizerPtr bert_normalizer_of(const FolderConfig& config, BertNormalizerOptions options) {
  options.lowercase = config.do_lower_case.value_or(options.lowercase);
  options.handle_chinese_chars = config.tokenize_chinese_chars.value_or(options.handle_chinese_chars);
  if (config.strip_accents) options.strip_accents = config.strip_accents;
  return bert_normalizer(options);
}

// Unchanged if it is not UTF-8, which Vocabulary::add() refuses.
std::string_view without_trailing_space(std::string_view text) {
  if (!valid_utf8(text)) return text;
  for (size_t end = text.size(); end > 0;) {
    size_t begin = previous_character(text, end);
    end = begin;
    if (!is_white_space(next_character(text, begin))) return text.substr(0, begin);
  }
  return {};
}

// BERT's vocab.txt: one token per line, in order of ids. White space at the end of a line is not part of it,
// as for PyPI's tokenizers.
TokenizerParts read_wordpiece(const fs::path& path, const FolderConfig& config) {
  const std::string name = path.string(), content = read_file(path);
  Vocabulary vocabulary;
  int64_t line = 0;
  for (size_t at = 0; at < content.size(); ++line) {
    const size_t end = std::min(content.find('\n', at), content.size());
    vocabulary.add(without_trailing_space(std::string_view(content).substr(at, end - at)), line, name);
    at = end + 1;
  }
  TokenizerParts parts;
  parts.added_tokens = special_tokens(config, vocabulary, name);
  parts.normalizer = bert_normalizer_of(config, {});
  parts.pre_tokenizer = bert_pre_tokenizer();
  parts.model = wordpiece_model(std::move(vocabulary), {.unk_token = config.unk->content}, name);
  put_bert_ends(parts.post_processing, config, parts.added_tokens);
  parts.decoder = wordpiece_decoder("##", /*cleanup=*/true);
  return parts;
}

Merges read_merges(const fs::path& path) {
  const std::string name = path.string(), content = read_file(path);
  Merges merges;
  int64_t number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    std::string_view line = std::string_view(content).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      throw DataError(
          concat(name, ":", number, ": expected two tokens with a space between them, found '", line, "'"));
    }
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

constexpr const char* kSteps = "tokenizer";  // for messages about patterns, which are right

// CLIP's byte pairs are of lower case, and of words that end in </w>; letters, digits and other characters
// are words of their own.
void set_clip(TokenizerParts& parts) {
  std::vector<NormalizerPtr> steps;
  steps.push_back(unicode_normalizer(UnicodeForm::nfc));
  steps.push_back(replace_normalizer(regex_pattern("\\s+", kSteps), " "));
  steps.push_back(lowercase_normalizer());
  parts.normalizer = normalizer_sequence(std::move(steps));
  std::vector<PreTokenizerPtr> splits;
  splits.push_back(pattern_split(
      regex_pattern(
          R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
          kSteps),
      SplitBehavior::removed, /*inverted=*/true));
  splits.push_back(byte_level_pre_tokenizer({.add_prefix_space = false, .use_regex = true}));
  parts.pre_tokenizer = pre_tokenizer_sequence(std::move(splits));
}

// What SigLIP reads of a text: words in lower case, without ASCII's punctuation, with a space between two.
// White space before the first is a piece, as it follows SentencePiece's sign for the beginning of a word.
NormalizerPtr siglip_normalizer(bool lower) {
  std::vector<NormalizerPtr> steps;
  constexpr const char* kWordBegin = "\u2581";
  steps.push_back(replace_normalizer(literal_pattern(kWordBegin), " "));
  if (lower) steps.push_back(lowercase_normalizer());
  steps.push_back(replace_normalizer(regex_pattern(R"([!-/:-@\[-`{-~])", kSteps), ""));
  steps.push_back(replace_normalizer(regex_pattern("[\\s\\x1c-\\x1f]+", kSteps), " "));
  steps.push_back(strip_normalizer(/*left=*/false, /*right=*/true));
  steps.push_back(replace_normalizer(regex_pattern("\\A +", kSteps), kWordBegin));
  return normalizer_sequence(std::move(steps));
}

// vocab.json and merges.txt of GPT-2, of RoBERTa, which adds <s> and </s> around a text, or of CLIP.
TokenizerParts read_byte_level_bpe(const fs::path& vocabulary_path, const fs::path& merges_path,
                                   const FolderConfig& config) {
  const std::string name = vocabulary_path.string();
  Vocabulary vocabulary = Vocabulary::from_json(parse_json(read_file(vocabulary_path), name));
  const bool roberta = config.is_roberta(), clip = config.is_clip();
  TokenizerParts parts;
  parts.added_tokens = special_tokens(config, vocabulary, name);
  if (roberta) {
    put_roberta_ends(parts.post_processing, config, parts.added_tokens);
    parts.post_processing.trim_offsets = config.trim_offsets;
    parts.post_processing.add_prefix_space = config.add_prefix_space;
  } else {
    const auto end = [&](bool wanted, const std::optional<AddedToken>& token) {
      return wanted ? std::optional(id_among(parts.added_tokens, token)) : std::nullopt;
    };
    put_ends(parts.post_processing, end(config.add_bos_token.value_or(clip), config.bos),
             end(config.add_eos_token.value_or(clip), config.eos), clip ? 0 : 1);
  }
  parts.byte_pairs = true;
  BpeOptions options{.bytes = !clip && spells_all_bytes(vocabulary)};
  if (clip) {
    set_clip(parts);
    options.unk_token = config.unk->content;
    options.end_of_word_suffix = "</w>";
  } else {
    parts.pre_tokenizer = byte_level_pre_tokenizer(
        {.add_prefix_space = config.add_prefix_space, .spell_bytes = !options.bytes});
  }
  parts.model = bpe_model(std::move(vocabulary), read_merges(merges_path), options, merges_path.string());
  parts.decoder = byte_level_decoder();
  return parts;
}

// T5's sentinels, which mark omitted spans. Their ids follow the model's pieces, in descending order of
// names. tokenizer_config.json may list them too.
void add_extra_ids(std::vector<AddedToken>& tokens, int64_t pieces, int64_t count) {
  std::set<std::string> listed;
  for (const AddedToken& token : tokens) listed.insert(token.content);
  for (int64_t k = 0; k < count; ++k) {
    std::string content = concat("<extra_id_", k, ">");
    if (listed.contains(content)) continue;
    const auto id = static_cast<int32_t>(pieces + count - 1 - k);
    tokens.push_back({.content = std::move(content), .id = id, .special = true});
  }
}

constexpr const char* kConversion =
    "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes a tokenizer.json, "
    "which is read for every class";

// A SentencePiece model. LLaMA adds <s> before a text, T5 and SigLIP add </s> after it.
TokenizerParts read_sentencepiece_file(const fs::path& path, const FolderConfig& config) {
  if (config.is_a({"Pegasus"}, {"pegasus"})) {
    throw DataError(concat(path.string(), ": expected a tokenizer.json beside the pieces of Pegasus, which ",
                           "have other numbers, found none; ", kConversion));
  }
  const auto model = std::make_shared<SentencePieceModel>(read_file(path), path.string());
  TokenizerParts parts;
  parts.special_tokens = model->special_tokens();
  for (int32_t id = 0; id < model->size(); ++id) {
    if (model->is_control(id)) parts.symbols.push_back(id);
  }
  parts.model = sentencepiece_model(model);
  parts.decoder = sentencepiece_decoder(model, /*marian=*/false);
  parts.added_tokens = config.added_tokens;
  const bool t5 = config.is_a({"T5"}, {"t5"}), siglip = config.is_siglip();
  parts.byte_pairs = !t5 && !siglip;
  if (siglip) parts.normalizer = siglip_normalizer(config.do_lower_case.value_or(true));
  if (t5) add_extra_ids(parts.added_tokens, parts.model->vocabulary().size(), config.extra_ids);
  require_ids_of(parts.model->vocabulary(), parts.added_tokens, path.string());
  // Symbols of the model are not matched in text.
  for (const auto* tokens : {&config.named, &config.extra}) {
    for (const AddedToken& token : *tokens) {
      if (parts.model->vocabulary().find(token.content) < 0)
        add_token(token, parts.model->vocabulary(), parts.added_tokens);
    }
  }
  put_ends(parts.post_processing,
           config.add_bos_token.value_or(config.is_a({"Llama"}, {"llama"})) ? parts.special_tokens.bos
                                                                            : std::nullopt,
           config.add_eos_token.value_or(t5 || siglip) ? parts.special_tokens.eos : std::nullopt,
           t5 || siglip ? 0 : 1);
  return parts;
}

// spm.model of DeBERTa V2 and V3. The special tokens are pieces of it, but for [MASK], which follows them.
TokenizerParts read_deberta(const fs::path& path, const FolderConfig& config) {
  const std::string name = path.string();
  if (!config.is_deberta()) {
    throw DataError(concat(
        name, ": expected \"DebertaV2Tokenizer\" as \"tokenizer_class\" in ",
        "tokenizer_config.json, or \"deberta-v2\" as \"model_type\" in config.json, found \"",
        config.tokenizer_class.empty() ? config.model_type : config.tokenizer_class, "\"; ", kConversion));
  }
  if (config.split_by_punct)
    throw DataError(concat((path.parent_path() / "tokenizer_config.json").string(),
                           ": split_by_punct: expected false, found true; ", kConversion));
  const auto model = std::make_shared<SentencePieceModel>(read_file(path), name);
  TokenizerParts parts;
  if (config.do_lower_case.value_or(false)) parts.normalizer = lowercase_normalizer();
  parts.special_tokens = model->special_tokens();
  parts.model = sentencepiece_model(model);
  for (const auto* token : {&config.cls, &config.sep, &config.unk}) {
    if (parts.model->vocabulary().find((*token)->content) < 0)
      throw DataError(
          concat(name, ": expected DeBERTa's special tokens among its pieces, found no ", (*token)->content));
  }
  parts.decoder = sentencepiece_decoder(model, /*marian=*/false);
  parts.added_tokens = special_tokens(config, parts.model->vocabulary(), name);
  for (int32_t id = 0; id < model->size(); ++id) {
    if (model->is_control(id)) parts.symbols.push_back(id);
  }
  put_bert_ends(parts.post_processing, config, parts.added_tokens);
  return parts;
}

// fairseq's symbols, the model's pieces without its first three, languages (mBART, NLLB), and <mask>.
std::shared_ptr<const Vocabulary> fairseq_vocabulary(const SentencePieceModel& model,
                                                     const FolderConfig& config, const std::string& name) {
  constexpr int32_t kOwnSymbols = 3;  // <unk>, <s> and </s>
  for (int32_t id = 0; id < kOwnSymbols; ++id) {
    if (id < model.size() && !model.in_text(id)) continue;
    throw DataError(concat(name, ": expected <unk>, <s> and </s> as pieces 0 to 2, found ",
                           id < model.size() ? model.piece(id) : "no piece", " as piece ", id));
  }
  auto vocabulary = std::make_shared<Vocabulary>();
  const auto append = [&](std::string_view token) { vocabulary->add(token, vocabulary->size(), name); };
  for (const auto* token : {&config.bos, &config.pad, &config.eos, &config.unk}) append((*token)->content);
  for (int32_t id = kOwnSymbols; id < model.size(); ++id) append(model.piece(id));
  if (config.has_languages()) {
    if (config.extra.empty())
      throw DataError(concat(name, ": expected the languages as \"additional_special_tokens\" in ",
                             "special_tokens_map.json, found none"));
    for (const AddedToken& token : config.extra) append(token.content);
  }
  append(config.mask->content);
  return vocabulary;
}

// sentencepiece.bpe.model of XLM-R, mBART and NLLB, and of M2M-100 with a vocab.json. Other classes number
// the pieces of such a file differently.
TokenizerParts read_fairseq(const fs::path& path, const FolderConfig& config) {
  const std::string name = path.string();
  if (!config.is_xlm_roberta() && !config.has_languages()) {
    throw DataError(concat(name,
                           ": expected \"XLMRobertaTokenizer\", \"MBart50Tokenizer\", \"MBartTokenizer\", ",
                           "\"NllbTokenizer\" or \"M2M100Tokenizer\" as \"tokenizer_class\" in ",
                           "tokenizer_config.json, whose numbering of these pieces is known here, found \"",
                           config.tokenizer_class, "\"; ", kConversion));
  }
  const auto model = std::make_shared<SentencePieceModel>(read_file(path), name);
  std::shared_ptr<const Vocabulary> vocabulary;
  if (config.is_m2m()) {
    const fs::path pieces = path.parent_path() / "vocab.json";
    vocabulary =
        std::make_shared<Vocabulary>(Vocabulary::from_json(parse_json(read_file(pieces), pieces.string())));
  } else {
    vocabulary = fairseq_vocabulary(*model, config, name);
  }

  TokenizerParts parts;
  parts.added_tokens = special_tokens(config, *vocabulary, name);
  put_roberta_ends(parts.post_processing, config, parts.added_tokens);
  for (const AddedToken& token : parts.added_tokens)
    if (vocabulary->has(token.id)) parts.symbols.push_back(token.id);
  parts.model = numbered_pieces_model(
      model, vocabulary,
      {.unknown = vocabulary->require(config.unk->content, name), .symbols = parts.symbols}, name);
  parts.decoder = sentencepiece_decoder(model, /*marian=*/false);
  return parts;
}

constexpr const char *kSentencePieceBpe = "sentencepiece.bpe.model", *kDeberta = "spm.model";
constexpr const char* kKnown =
    "tokenizer.json, vocab.txt, vocab.json beside merges.txt or source.spm, tokenizer.model, spiece.model, "
    "sentencepiece.bpe.model or spm.model";

TokenizerParts read_json(std::string_view json, const std::string& name, const FolderConfig& config) {
  TokenizerParts parts = parse_tokenizer_json(json, name);
  for (const auto* tokens : {&config.added_tokens, &config.named, &config.extra}) {
    for (const AddedToken& token : *tokens) add_token(token, parts.model->vocabulary(), parts.added_tokens);
  }
  if (parts.bert) parts.normalizer = bert_normalizer_of(config, *parts.bert);
  return parts;
}

TokenizerParts read_parts(const fs::path& path, const FolderConfig& config) {
  const std::string file = path.filename().string();
  if (is_byte_level(file)) {
    return read_byte_level_bpe(path.parent_path() / "vocab.json", path.parent_path() / "merges.txt", config);
  }
  if (file.ends_with(".json")) return read_json(read_file(path), path.string(), config);
  if (is_wordpiece(file)) return read_wordpiece(path, config);
  if (file == "source.spm") {
    return read_marian_source(path);
  }
  if (file == kSentencePieceBpe) return read_fairseq(path, config);
  if (file == kDeberta) return read_deberta(path, config);
  if (file.ends_with(".model")) return read_sentencepiece_file(path, config);
  throw DataError(concat(path.string(), ": expected a file named ", kKnown, ", found another name"));
}

fs::path find_file(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "source.spm", "vocab.json", "tokenizer.model",
                           "spiece.model", kSentencePieceBpe, kDeberta}) {
    // M2M-100 has a vocab.json of SentencePiece's pieces.
    const bool pieces = fs::exists(folder / kSentencePieceBpe) && !fs::exists(folder / "merges.txt");
    if (fs::exists(folder / name) && !(pieces && is_byte_level(name))) return folder / name;
  }
  throw IoError(concat(folder.string(), ": expected a tokenizer (", kKnown, "), found none of these files"));
}

}  // namespace

namespace {

// What the settings change of a tokenizer that is read.
Tokenizer completed(TokenizerParts parts, const FolderConfig& config) {
  parts.clean_up_spaces = parts.byte_pairs ? config.clean_up_byte_pairs : config.clean_up_spaces;
  if (!config.token_types) {
    for (auto* const template_parts : {&parts.post_processing.single, &parts.post_processing.pair}) {
      for (PostProcessing::Part& part : *template_parts) part.type_id = 0;
    }
  }
  const auto id_of = [&](const std::optional<AddedToken>& wanted) -> std::optional<int32_t> {
    if (!wanted) return std::nullopt;
    for (const AddedToken& token : parts.added_tokens) {
      if (token.content == wanted->content) return token.id;
    }
    const int32_t id = parts.model->vocabulary().find(wanted->content);
    return id < 0 ? std::nullopt : std::optional(id);
  };
  const auto use = [&](std::optional<int32_t>& token, const std::optional<AddedToken>& wanted) {
    if (const auto id = id_of(wanted)) token = id;
  };
  SpecialTokens& special = parts.special_tokens;
  use(special.bos, config.bos);
  use(special.eos, config.eos);
  use(special.unk, config.unk);
  use(special.sep, config.sep);
  use(special.pad, config.pad);
  use(special.cls, config.cls);
  use(special.mask, config.mask);
  return Tokenizer(std::move(parts));
}

Tokenizer load_tokenizer(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? find_file(path) : path;
  const FolderConfig config = read_folder_config(file);
  return completed(read_parts(file, config), config);
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view settings, const std::string& name) {
  const FolderConfig config = parse_tokenizer_config(settings, name);
  return completed(read_json(json, name, config), config);
}

Tokenizer Tokenizer::load(const fs::path& path) {
  return with_io_errors([&] { return load_tokenizer(path); });
}

}  // namespace qkv::text
