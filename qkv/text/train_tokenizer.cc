#include "qkv/text/train_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "qkv/base/error.h"
#include "qkv/base/stop.h"
#include "qkv/base/utf8.h"
#include "qkv/text/steps/byte_letters.h"
#include "qkv/text/steps/normalizers.h"
#include "qkv/text/steps/pre_tokenizers.h"
#include "qkv/text/training/pair_merges.h"
#include "qkv/text/training/tokenizer_writer.h"
#include "qkv/text/training/unigram_training.h"
#include "qkv/text/training/word_counts.h"

namespace qkv::text {
namespace {

constexpr int64_t kMaxTokens = 1'000'000;
constexpr const char* kContinues = "##";

void validate(const TokenizerTraining& training) {
  if (training.inputs.empty())
    throw UsageError("tokenizer training: expected at least one text file, found none");
  if (training.vocab_size < 1 || training.vocab_size > kMaxTokens) {
    throw UsageError(concat("vocab_size: expected 1 to ", kMaxTokens, ", found ", training.vocab_size));
  }
  if (training.min_frequency < 0) {
    throw UsageError(concat("min_frequency: expected at least 0, found ", training.min_frequency));
  }
  if (training.limit_alphabet < 0) {
    throw UsageError(concat("limit_alphabet: expected at least 0, found ", training.limit_alphabet));
  }
  if (training.vocab_lines < 0) {
    throw UsageError(concat("vocab_lines: expected at least 0, found ", training.vocab_lines));
  }
}

void require_size(const TokenizerTraining& training, size_t least, const char* what) {
  if (training.vocab_size >= static_cast<int64_t>(least)) return;
  throw UsageError(
      concat("vocab_size: expected at least ", least, ", ", what, ", found ", training.vocab_size));
}

// The characters of the words, in order of code points; if there is a limit, the most frequent ones.
std::vector<char32_t> alphabet_of(const std::vector<CountedWord>& words, int64_t limit) {
  std::unordered_map<char32_t, int64_t> counts;
  for (const auto& [word, count] : words) {
    for (size_t at = 0; at < word.size();) counts[next_character(word, at)] += count;
  }
  std::vector<std::pair<int64_t, char32_t>> frequent;
  for (const auto& [character, count] : counts) frequent.emplace_back(-count, character);
  std::ranges::sort(frequent);
  if (limit > 0 && std::ssize(frequent) > limit) frequent.resize(static_cast<size_t>(limit));
  std::vector<char32_t> alphabet;
  for (const auto& [count, character] : frequent) alphabet.push_back(character);
  std::ranges::sort(alphabet);
  return alphabet;
}

// Spells words as characters; one within a word has a token of its own, ##a, numbered as they occur in the
// words, which are sorted. Characters outside the alphabet are left out, as PyPI's trainer does.
SpelledWords spell_characters(const std::vector<CountedWord>& words, const std::vector<char32_t>& alphabet,
                              std::vector<std::string>& tokens) {
  struct Ids {
    uint32_t first = 0, continuing = 0;  // 0: none yet; it is the id of [PAD]
  };
  std::unordered_map<char32_t, Ids> ids;
  for (const char32_t character : alphabet) {
    ids[character].first = static_cast<uint32_t>(tokens.size());
    tokens.push_back(to_utf8(character));
  }
  SpelledWords spelled;
  for (const auto& [word, count] : words) {
    for (size_t at = 0; at < word.size();) {
      const bool first = at == 0;
      const char32_t character = next_character(word, at);
      const auto known = ids.find(character);
      if (known == ids.end()) continue;
      uint32_t& continuing = known->second.continuing;
      if (!first && continuing == 0) {
        continuing = static_cast<uint32_t>(tokens.size());
        tokens.push_back(kContinues + to_utf8(character));
      }
      spelled.symbols.push_back(first ? known->second.first : continuing);
    }
    spelled.ends.push_back(spelled.symbols.size());
    spelled.counts.push_back(count);
  }
  return spelled;
}

// Spells words as bytes, whose tokens are in order of their letters.
SpelledWords spell_bytes(const std::vector<CountedWord>& words, std::vector<std::string>& tokens) {
  std::array<std::pair<std::string_view, uint8_t>, 256> letters;
  for (size_t byte = 0; byte < letters.size(); ++byte) {
    letters[byte] = {letter_of_byte(static_cast<uint8_t>(byte)), static_cast<uint8_t>(byte)};
  }
  std::ranges::sort(letters);  // UTF-8 sorts by code points
  std::array<uint32_t, 256> ids{};
  for (const auto& [letter, byte] : letters) {
    ids[byte] = static_cast<uint32_t>(tokens.size());
    tokens.emplace_back(letter);
  }
  SpelledWords spelled;
  for (const auto& [word, count] : words) {
    for (const char byte : word) spelled.symbols.push_back(ids[static_cast<uint8_t>(byte)]);
    spelled.ends.push_back(spelled.symbols.size());
    spelled.counts.push_back(count);
  }
  return spelled;
}

class Trainer {
 public:
  Trainer(const TokenizerTraining& training, const std::atomic<bool>* stop, const TokenizerObserver& observer)
      : training_(training), stop_(stop), observer_(observer) {}

  std::string train() {
    std::string json = of_kind();
    progress_.stage = TokenizerProgress::Stage::done;
    if (observer_) observer_(progress_);
    return json;
  }

 private:
  std::string of_kind() {
    switch (training_.kind) {
      case TokenizerKind::wordpiece:
        return wordpiece();
      case TokenizerKind::bpe:
        return bpe();
      case TokenizerKind::unigram:
        return unigram();
      case TokenizerKind::chars:
        break;
    }
    return characters();
  }

  std::string wordpiece() {
    std::vector<std::string> tokens = kBertTokens;
    SpelledWords spelled;
    {
      const NormalizerPtr normalizer =
          bert_normalizer({.strip_accents = {}, .lowercase = training_.lowercase});
      const auto words = count(normalizer.get(), *bert_pre_tokenizer());
      const auto alphabet = alphabet_of(words, training_.limit_alphabet);
      progress_.characters = std::ssize(alphabet);
      spelled = spell_characters(words, alphabet, tokens);
    }
    require_size(training_, tokens.size(),
                 "special tokens and one or two tokens for each character of this text (or a lower "
                 "limit_alphabet)");
    merge(std::move(spelled), tokens, kContinues);
    return wordpiece_json(tokens, training_.lowercase);
  }

  std::string bpe() {
    std::vector<std::string> tokens{kEndOfText};
    SpelledWords spelled;
    {
      const auto splitter = byte_level_pre_tokenizer({.add_prefix_space = false, .spell_bytes = false});
      spelled = spell_bytes(count(nullptr, *splitter), tokens);
    }
    const MergedPairs merges = merge(std::move(spelled), tokens, "");
    return byte_level_bpe_json(tokens, merges);
  }

  std::string characters() {
    std::vector<std::string> tokens{kUnknown};
    for (const char32_t character : distinct_characters(training_, progress_, observer_, stop_)) {
      tokens.push_back(to_utf8(character));
    }
    progress_.tokens = std::ssize(tokens);
    return characters_json(tokens);
  }

  std::string unigram() {
    progress_.stage = TokenizerProgress::Stage::unigram;
    if (observer_) observer_(progress_);
    return train_unigram(training_, progress_, stop_);
  }

  std::vector<CountedWord> count(const Normalizer* normalizer, const PreTokenizer& pre_tokenizer) {
    return count_words(training_, normalizer, pre_tokenizer, progress_, observer_, stop_);
  }

  MergedPairs merge(SpelledWords spelled, std::vector<std::string>& tokens, const char* prefix) {
    return merge_pairs(
        std::move(spelled), tokens,
        {.vocab_size = training_.vocab_size, .min_frequency = training_.min_frequency, .prefix = prefix},
        progress_, observer_, stop_);
  }

  const TokenizerTraining& training_;
  const std::atomic<bool>* stop_;
  const TokenizerObserver& observer_;
  TokenizerProgress progress_;
};

}  // namespace

std::string train_tokenizer(const TokenizerTraining& options, const std::atomic<bool>* stop,
                            const TokenizerObserver& observer) {
  validate(options);
  if (options.kind == TokenizerKind::bpe) {  // known before the text is read
    require_size(options, 257, "<|endoftext|> and 256 bytes");
  }
  throw_if_stopped(stop);
  return Trainer(options, stop, observer).train();
}

std::string trained_tokenizer_config(const TokenizerTraining& options) {
  nlohmann::ordered_json config;
  switch (options.kind) {
    case TokenizerKind::wordpiece:
      config = {{"tokenizer_class", "BertTokenizer"},
                {"do_lower_case", options.lowercase},
                {"tokenize_chinese_chars", true},
                {"strip_accents", nullptr},
                {"pad_token", "[PAD]"},
                {"unk_token", "[UNK]"},
                {"cls_token", "[CLS]"},
                {"sep_token", "[SEP]"},
                {"mask_token", "[MASK]"}};
      break;
    case TokenizerKind::bpe:
      config = {{"tokenizer_class", "GPT2Tokenizer"},
                {"add_prefix_space", false},
                {"bos_token", kEndOfText},
                {"eos_token", kEndOfText},
                {"unk_token", kEndOfText}};
      break;
    case TokenizerKind::unigram:
      config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                {"unk_token", kUnknown},
                {"eos_token", "</s>"},
                {"pad_token", "<pad>"}};
      break;
    case TokenizerKind::chars:
      config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"unk_token", kUnknown}};
      break;
  }
  config["clean_up_tokenization_spaces"] =
      false;  // a decoded text stays as tokenizer.json's decoder gives it
  return config.dump(2) + "\n";
}

}  // namespace qkv::text
