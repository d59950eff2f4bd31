#include "qkv/text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/steps/byte_letters.h"
#include "qkv/text/steps/unicode.h"
#include "qkv/text/token_models/word_cache.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

// White space at the ends of a token, in characters, plain or spelled as a letter.
struct Margins {
  uint32_t left = 0, right = 0;
};

Margins margins_of(std::string_view token) {
  static const std::string_view kSpace = letter_of_byte(' ');
  const auto blank = [&](std::string_view character) {
    size_t at = 0;
    return character == kSpace || is_white_space(next_character(character, at));
  };
  Margins margins;
  for (size_t at = 0; at < token.size(); ++margins.left) {
    const size_t begin = at;
    next_character(token, at);
    if (!blank(token.substr(begin, at - begin))) break;
  }
  for (size_t end = token.size(); end > 0; ++margins.right) {
    const size_t begin = previous_character(token, end);
    if (!blank(token.substr(begin, end - begin))) break;
    end = begin;
  }
  return margins;
}

// The tokens of one text with their byte ranges.
struct TextTokens {
  std::vector<int32_t> ids;
  std::vector<Range> offsets;
  std::vector<int32_t> words;    // the piece of each
  std::vector<Margins> margins;  // if offsets are trimmed
  int32_t pieces = 0;            // number of pieces so far

  size_t size() const { return ids.size(); }

  void truncate(size_t length, bool from_left) {
    const auto cut = [&](auto& list) {
      if (list.size() <= length) return;
      if (from_left) list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(length));
      list.resize(length);
    };
    cut(ids);
    cut(offsets);
    cut(words);
    cut(margins);
  }
};

// Moves a position by a number of characters, up to the end of the text.
size_t step(std::string_view text, size_t at, uint32_t characters) {
  for (; characters > 0 && at < text.size(); --characters) next_character(text, at);
  return at;
}

std::optional<size_t> step_back(std::string_view text, size_t at, uint32_t characters) {
  for (; characters > 0; --characters) {
    if (at == 0) return std::nullopt;
    at = previous_character(text, at);
  }
  return at;
}

void trim(TextTokens& tokens, std::string_view text, bool add_prefix_space) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    auto [left, right] = tokens.margins[i];
    size_t begin = tokens.offsets[i].begin, end = tokens.offsets[i].end;
    // A single space at the beginning of the text may be the prepended one.
    if ((i == 0 || begin == 0) && add_prefix_space && left == 1) left = 0;
    begin = std::min(step(text, begin, left), end);
    if (const auto before = step_back(text, end, right)) end = std::max(*before, begin);
    tokens.offsets[i] = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }
}

void truncate(TextTokens& first, TextTokens* second, const Truncation& options, int64_t added) {
  if (options.max_length < added) {
    throw UsageError(concat("max_length: expected at least ", added, ", the tokens put around a text, found ",
                            options.max_length));
  }
  const auto most = static_cast<size_t>(options.max_length - added);
  const size_t total = first.size() + (second ? second->size() : 0);
  if (total <= most) return;
  const size_t surplus = total - most;
  if (options.strategy == TruncationStrategy::longest_first) {
    if (!second) return first.truncate(most, options.from_left);
    // The shorter text is kept whole if it takes less than half.
    const size_t shorter = std::min(first.size(), second->size());
    const size_t small = std::min(shorter, most / 2), large = most - small;
    const bool first_is_longer = first.size() > second->size();
    first.truncate(first_is_longer ? large : small, options.from_left);
    second->truncate(first_is_longer ? small : large, options.from_left);
    return;
  }
  TextTokens* const target = options.strategy == TruncationStrategy::only_first ? &first : second;
  const char* const which = options.strategy == TruncationStrategy::only_first ? "first" : "second";
  if (!target || target->size() <= surplus) {
    throw UsageError(concat("truncation: expected a ", which, " text of more than ", surplus,
                            " tokens, the number to remove, found ", target ? target->size() : 0));
  }
  target->truncate(target->size() - surplus, options.from_left);
}

void require_id(const char* of, int64_t id) {
  if (id >= 0 && id < Vocabulary::kMaxIds) return;
  throw UsageError(
      concat("tokenizer: ", of, ": expected ids from 0 to ", Vocabulary::kMaxIds - 1, ", found ", id));
}

// Invariants that the readers of files have checked.
void require_consistent(const TokenizerParts& parts) {
  if (!parts.model) throw UsageError("tokenizer: expected a model, found none");
  for (const AddedToken& token : parts.added_tokens) require_id("added tokens", token.id);
  for (const int32_t id : parts.symbols) {
    if (!parts.model->vocabulary().has(id))
      throw UsageError(concat("tokenizer: symbols: expected ids of the vocabulary, found ", id));
  }
  const PostProcessing& post = parts.post_processing;
  for (const auto& [layout, texts] : {std::pair(&post.single, 1), std::pair(&post.pair, 2)}) {
    for (const PostProcessing::Part& part : *layout) {
      if (part.text < -1 || part.text >= texts)
        throw UsageError(
            concat("tokenizer: post-processing: expected one of ", texts, " texts, found text ", part.text));
      for (const int32_t id : part.ids) require_id("post-processing", id);
    }
  }
}

}  // namespace

struct Tokenizer::State {
  TokenizerParts parts;
  AddedTokens added;
  StringIndex added_ids;
  std::vector<std::string> tokens;  // by id; added ones included
  std::vector<uint8_t> known, special;
  std::vector<Margins> margins;  // of each token, if offsets are trimmed
  mutable WordCachePool caches;

  explicit State(TokenizerParts given)
      : parts(std::move(given)), added(std::move(parts.added_tokens), parts.normalizer.get()) {
    const Vocabulary& vocabulary = parts.model->vocabulary();
    const auto resize = [&](size_t size) {
      if (size <= tokens.size()) return;
      tokens.resize(size);
      known.resize(size);
      special.resize(size);
    };
    resize(static_cast<size_t>(vocabulary.size()));
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (!vocabulary.has(id)) continue;
      tokens[static_cast<size_t>(id)] = vocabulary.token(id);
      known[static_cast<size_t>(id)] = 1;
    }
    for (size_t i = 0; i < added.tokens().size(); ++i) {
      const AddedToken& token = added.tokens()[i];
      const auto id = static_cast<size_t>(token.id);
      resize(id + 1);
      tokens[id] = added.spelling(i);
      known[id] = 1;
      special[id] = static_cast<uint8_t>(token.special);
      added_ids.set(token.content, token.id);
    }
    for (const int32_t id : parts.symbols) special[static_cast<size_t>(id)] = 1;
    if (parts.post_processing.trim_offsets) {
      for (const std::string& token : tokens) margins.push_back(margins_of(token));
    }
  }

  void add_token(int32_t id, Range offsets, TextTokens& result, const Margins* own = nullptr) const {
    result.ids.push_back(id);
    result.offsets.push_back(offsets);
    result.words.push_back(result.pieces);
    if (!margins.empty()) result.margins.push_back(own ? *own : margins[static_cast<size_t>(id)]);
  }

  void add_found(const AddedTokens::Part& part, const NormalizedString& text, TextTokens& result) const {
    const Margins own = margins_of(std::string_view(text.text()).substr(part.range.begin, part.range.size()));
    add_token(part.id, text.source(part.range), result, &own);
    ++result.pieces;
  }

  // Splits text between added tokens into pieces and tokenizes each.
  void add_pieces(NormalizedString text, WordCache& cache, TextTokens& result) const {
    const auto size = static_cast<uint32_t>(text.text().size());
    Pieces pieces{std::move(text), {{0, size}}};
    if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces);
    const std::string_view all = pieces.text.text();
    for (const Range piece : pieces.ranges) {
      for (const Token& token : cache.tokens(all.substr(piece.begin, piece.size()), *parts.model)) {
        add_token(token.id, pieces.text.source({piece.begin + token.begin, piece.begin + token.end}), result);
      }
      ++result.pieces;
    }
  }

  // The tokens of a valid UTF-8 text, without special tokens around it.
  TextTokens tokenize(std::string_view text, WordCache& cache) const {
    TextTokens result;
    std::vector<AddedTokens::Part> given, normalized;
    added.find(text, /*normalized=*/false, given);
    for (const AddedTokens::Part& part : given) {
      NormalizedString aligned(text.substr(part.range.begin, part.range.size()), part.range.begin);
      if (part.id >= 0) {
        add_found({{0, part.range.size()}, part.id}, aligned, result);
        continue;
      }
      if (parts.normalizer) parts.normalizer->apply(aligned);
      normalized.clear();
      added.find(aligned.text(), /*normalized=*/true, normalized);
      if (normalized.size() == 1 && normalized[0].id < 0) {
        add_pieces(std::move(aligned), cache, result);
        continue;
      }
      for (const AddedTokens::Part& inner : normalized) {
        if (inner.id >= 0) {
          add_found(inner, aligned, result);
        } else {
          add_pieces(aligned.slice(inner.range), cache, result);
        }
      }
    }
    return result;
  }

  // One text or a pair before special tokens are put around it.
  struct Given {
    std::vector<TextTokens> tokens;
    std::vector<std::optional<RepairedText>> repaired;
    std::vector<std::string_view> valid;
  };

  Given tokenized(std::span<const std::string_view> texts) const {
    Given given{.tokens = {},
                .repaired = std::vector<std::optional<RepairedText>>(texts.size()),
                .valid = {texts.begin(), texts.end()}};
    const WordCachePool::Lease cache = caches.lease();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() >= size_t{std::numeric_limits<int32_t>::max()}) {
        throw UsageError(concat("expected a text of less than 2 GiB, found ", texts[i].size(), " bytes"));
      }
      if (!valid_utf8(texts[i])) {
        given.repaired[i] = repair_utf8(texts[i]);
        given.valid[i] = given.repaired[i]->text;
      }
      given.tokens.push_back(tokenize(given.valid[i], *cache));
    }
    return given;
  }

  const std::vector<PostProcessing::Part>& layout(const Given& given) const {
    return given.tokens.size() == 1 ? parts.post_processing.single : parts.post_processing.pair;
  }

  void trim_offsets(Given& given) const {
    const PostProcessing& post = parts.post_processing;
    if (!post.trim_offsets) return;
    for (size_t i = 0; i < given.tokens.size(); ++i)
      trim(given.tokens[i], given.valid[i], post.add_prefix_space);
  }

  // Of the last text, the tokens of the range; of another one, all.
  Encoding assembled(const Given& given, bool special_tokens, size_t begin, size_t end) const {
    Encoding result;
    const auto add = [&](int32_t id, ByteRange offsets, int32_t type_id, int text, int32_t word) {
      result.ids.push_back(id);
      result.offsets.push_back(offsets);
      result.type_ids.push_back(type_id);
      result.special_mask.push_back(static_cast<uint8_t>(text < 0));
      result.text_index.push_back(static_cast<int8_t>(text));
      result.word_index.push_back(word);
    };
    for (const PostProcessing::Part& part : layout(given)) {
      if (part.text < 0) {
        if (!special_tokens) continue;
        for (const int32_t id : part.ids) add(id, {}, part.type_id, -1, -1);
        continue;
      }
      const auto at = static_cast<size_t>(part.text);
      const TextTokens& text = given.tokens[at];
      const bool last = at + 1 == given.tokens.size();
      for (size_t i = last ? begin : 0; i < (last ? end : text.size()); ++i) {
        ByteRange offsets{text.offsets[i].begin, text.offsets[i].end};
        if (const auto& repaired = given.repaired[at])
          offsets = {repaired->sources[offsets.begin], repaired->sources[offsets.end]};
        add(text.ids[i], offsets, part.type_id, part.text, text.words[i]);
      }
    }
    return result;
  }

  Encoding encode(std::span<const std::string_view> texts, const EncodeOptions& options) const {
    Given given = tokenized(texts);
    if (options.truncation) {
      truncate(given.tokens[0], texts.size() > 1 ? &given.tokens[1] : nullptr, *options.truncation,
               options.special_tokens ? PostProcessing::added(layout(given)) : 0);
    }
    trim_offsets(given);
    return assembled(given, options.special_tokens, 0, given.tokens.back().size());
  }

  std::vector<EncodedWindow> encode_windows(std::span<const std::string_view> pair,
                                            const Windows& windows) const {
    if (windows.shared < 0)
      throw UsageError(concat("windows: shared: expected 0 or more, found ", windows.shared));
    Given given = tokenized(pair);
    trim_offsets(given);
    const int64_t first = std::ssize(given.tokens[0].ids), second = std::ssize(given.tokens[1].ids);
    const int64_t around = first + PostProcessing::added(layout(given)), room = windows.max_length - around;
    std::vector<EncodedWindow> result;
    if (room < 1) return result;
    const int64_t step = room - std::min(windows.shared, room / 2);
    const int64_t count = second > room ? 1 + (second - room + step - 1) / step : 1;
    if (count > Windows::kMaxTokens / windows.max_length + 1) {
      throw UsageError(concat("windows: expected at most ", Windows::kMaxTokens, " tokens in all, found ",
                              count, " windows of ", windows.max_length, " tokens, ", around,
                              " of them not the text's"));
    }
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = static_cast<size_t>(i * step);
      const auto end = static_cast<size_t>(std::min(i * step + room, second));
      result.push_back({.encoding = assembled(given, /*special_tokens=*/true, begin, end), .begin = begin});
    }
    return result;
  }
};

Tokenizer::Tokenizer(TokenizerParts parts) {
  require_consistent(parts);
  state_ = std::make_shared<const State>(std::move(parts));
}

const Tokenizer::State& Tokenizer::state() const {
  if (!state_) throw UsageError("tokenizer: expected one, found one that was moved from");
  return *state_;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return state().encode({&text, 1}, options);
}

Encoding Tokenizer::encode(std::string_view first, std::string_view second,
                           const EncodeOptions& options) const {
  const std::string_view both[] = {first, second};
  return state().encode(both, options);
}

std::vector<EncodedWindow> Tokenizer::encode_windows(std::string_view first, std::string_view second,
                                                     const Windows& windows) const {
  const std::string_view both[] = {first, second};
  return state().encode_windows(both, windows);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string text = decode_as_is(ids, options);
  return cleans_up() ? without_extra_spaces(std::move(text)) : text;
}

bool Tokenizer::cleans_up() const { return state().parts.clean_up_spaces; }

std::string Tokenizer::decode_as_is(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    if (options.skip_special_tokens && is_special(id)) continue;
    if (const auto spelled = token(id)) tokens.emplace_back(*spelled);
  }
  if (state().parts.decoder) state().parts.decoder->apply(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !state().parts.decoder) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::optional<std::string> Tokenizer::bytes(int32_t id) const {
  const auto spelled = token(id);
  if (!spelled || id == special_tokens().unk) return {};
  const DecoderPtr& decoder = state().parts.decoder;
  return decoder ? decoder->within(std::string(*spelled)) : concat(" ", *spelled);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  int32_t id = state().added_ids.find(token);
  if (id < 0) id = state().parts.model->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Tokenizer::token(int32_t id) const {
  if (id < 0 || id >= size() || !state().known[static_cast<size_t>(id)]) return std::nullopt;
  return state().tokens[static_cast<size_t>(id)];
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < size() && state().special[static_cast<size_t>(id)] != 0;
}

Around Tokenizer::around() const {
  Around result;
  std::vector<int32_t>* side = &result.before;
  for (const PostProcessing::Part& part : state().parts.post_processing.single) {
    if (part.text >= 0) side = &result.after;
    side->insert(side->end(), part.ids.begin(), part.ids.end());
  }
  return result;
}

const SpecialTokens& Tokenizer::special_tokens() const { return state().parts.special_tokens; }
int64_t Tokenizer::size() const { return static_cast<int64_t>(state().tokens.size()); }

}  // namespace qkv::text
