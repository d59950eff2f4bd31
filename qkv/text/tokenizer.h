#pragma once
// Text to token ids and back, as a Hugging Face folder says: tokenizer.json, or the older files (a WordPiece
// vocab.txt, a byte-level BPE's vocab.json and merges.txt, a SentencePiece model), with the ids that PyPI's
// `tokenizers` gives. Of a Marian folder this is the source side; TranslationTokenizer has both.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// Bytes [begin, end) of a text that was given; never half a character.
struct ByteRange {
  size_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The tokens of a text, or of two. All lists are as long as `ids`.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<ByteRange>
      offsets;  // which bytes of its text a token stands for; {0, 0} for what was put around
  std::vector<int32_t> type_ids;  // BERT's segments
  std::vector<uint8_t>
      special_mask;  // 1: the token was put around the text ([CLS], </s>), 0: it stands for text
  std::vector<int8_t> text_index;  // 0: of the first text, 1: of the second, -1: put around them

  size_t size() const { return ids.size(); }
};

// Where surplus tokens are removed.
enum class TruncationStrategy {
  longest_first,  // from the longer of the two texts
  only_first,     // from the first text
  only_second,    // from the second
};

struct Truncation {
  int64_t max_length = 0;  // in tokens, special tokens included
  TruncationStrategy strategy = TruncationStrategy::longest_first;
  bool from_left = false;  // remove the beginning of a text instead of its end
};

struct EncodeOptions {
  bool special_tokens = true;            // put [CLS], </s> and the like around the text
  std::optional<Truncation> truncation;  // without: all tokens, however many
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

// The ids of the special tokens, as tokenizer_config.json and special_tokens_map.json name them.
struct SpecialTokens {
  std::optional<int32_t> bos, eos, unk, sep, pad, cls, mask;
};

struct TokenizerParts;  // tokenizer_parts.h

// Immutable and cheap to copy; all member functions may be called from several threads at once.
class Tokenizer {
 public:
  // Reads a folder (tokenizer.json; else vocab.txt; else vocab.json and merges.txt; else tokenizer.model or
  // spiece.model) or one such file. Throws IoError for a missing file, and DataError naming the file and the
  // part of it for what is malformed, contradicts itself or is not supported.
  static Tokenizer load(const std::filesystem::path& path);

  // The content of a tokenizer.json; `name` is named in errors. Its `truncation` and `padding` are not
  // applied: they are settings of the program that wrote the file. The caller gives its own truncation;
  // nothing is padded.
  static Tokenizer from_json(std::string_view json, const std::string& name);

  explicit Tokenizer(TokenizerParts parts);

  // The tokens of a text, or of two that belong together (a question and a paragraph). What is not UTF-8
  // counts as U+FFFD. Throws UsageError for a text of 2 GiB or more, and where truncation would have to leave
  // out more than there is.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;

  // The text of tokens. An id without a token adds nothing (a model may have more rows than there are
  // tokens). Bytes that are no character become U+FFFD.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The id of a token as the vocabulary spells it ("Ġhouse", "##ing", "[MASK]").
  std::optional<int32_t> id_of(std::string_view token) const;
  // How the vocabulary spells an id; nothing for an id that has no token.
  std::optional<std::string_view> token(int32_t id) const;
  // Whether decoding without special tokens omits the id.
  bool is_special(int32_t id) const;

  const SpecialTokens& special_tokens() const;
  int64_t size() const;  // one more than the largest id

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// The text of tokens that arrive one by one, in parts that never end within a character: for showing a text
// while it is generated. The parts concatenated are decode() of all ids, except where successive byte tokens
// (<0xE4>) are no UTF-8: decode() gives U+FFFD for each of them, also for those already shown as characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  // The text that is certain now; empty while a character or a word lacks its end.
  std::string add(int32_t id);
  // The remaining text, incomplete characters as U+FFFD. Resets the decoder.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::vector<int32_t> ids_;  // from a little before what has not been shown
  size_t shown_ids_ = 0;      // of those, how many
  std::string shown_;         // the text of those
};

}  // namespace qkv::text
