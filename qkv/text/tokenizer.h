#pragma once
// Converts text to token ids and back, configured by a Hugging Face folder: tokenizer.json, or the older
// files (a WordPiece vocab.txt, a byte-level BPE's vocab.json and merges.txt, a SentencePiece model). Ids
// equal those of PyPI's `tokenizers`. For a Marian folder this is the source side; TranslationTokenizer has
// both.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

// Byte range [begin, end) of an input text; always whole characters.
struct ByteRange {
  size_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The tokens of a text or a pair of texts. All lists have the length of `ids`.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<ByteRange> offsets;     // byte range in the text; {0, 0} for special tokens around it
  std::vector<int32_t> type_ids;      // BERT's segment ids
  std::vector<uint8_t> special_mask;  // 1: special token around the text ([CLS], </s>), 0: text
  std::vector<int8_t> text_index;     // 0: first text, 1: second text, -1: special token
  std::vector<int32_t> word_index;    // the pre-tokenizer's piece of the text; -1: special token

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
  bool special_tokens = true;            // add [CLS], </s> etc. around the text
  std::optional<Truncation> truncation;  // unset: no truncation
};

// How a second text that is too long is read in parts, each with the whole first text.
struct Windows {
  static constexpr int64_t kMaxTokens = 1 << 21;  // of all parts together

  int64_t max_length = 0;  // of a part, in tokens, first text and special tokens included
  int64_t shared = 0;      // tokens of the second text in a part and the next one; at most half of a part's
};

// A part of a pair.
struct EncodedWindow {
  Encoding encoding;
  size_t begin = 0;  // its first token of the second text, counted in that text
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

// The ids of special tokens, as named in tokenizer_config.json and special_tokens_map.json.
struct SpecialTokens {
  std::optional<int32_t> bos, eos, unk, sep, pad, cls, mask;
};

// Special tokens before and after a text.
struct Around {
  std::vector<int32_t> before = {}, after = {};
};

// The ids that begin and end a decoder's output.
struct SpecialIds {
  static constexpr int32_t kNone = -1;

  // The start token, which is not part of the output. None: the output continues the last source token, as in
  // decoder-only models, whose sources are prompts.
  std::optional<int32_t> start = 0;
  int32_t eos = 0;         // ends an output; kNone (prompts only): outputs end at their limit
  bool source_eos = true;  // it also ends a source of an encoder-decoder
};

struct TokenizerParts;  // tokenizer_parts.h

// Immutable and cheap to copy; safe to use from several threads. A moved-from tokenizer throws UsageError.
class Tokenizer {
 public:
  // Reads a folder (tokenizer.json; else vocab.txt; else vocab.json and merges.txt; else tokenizer.model,
  // spiece.model, sentencepiece.bpe.model or spm.model) or one such file. Throws IoError for a missing file,
  // DataError naming the file and the part that is malformed, inconsistent or unsupported.
  static Tokenizer load(const std::filesystem::path& path);

  // Parses a tokenizer.json; `name` is used in errors. Its `truncation` and `padding`, settings of the
  // program that wrote the file, are ignored: truncation is the caller's choice, and nothing is padded.
  static Tokenizer from_json(std::string_view json, const std::string& name);
  // Likewise with a tokenizer_config.json, which names the special tokens.
  static Tokenizer from_json(std::string_view json, std::string_view settings, const std::string& name);

  // Throws UsageError for parts without a model, and for ids and texts that do not exist.
  explicit Tokenizer(TokenizerParts parts);

  // Tokenizes a text, or a pair (such as a question and a paragraph). Invalid UTF-8 is read as U+FFFD. Throws
  // UsageError for a text of 2 GiB or more, and if truncation would have to remove more tokens than there
  // are.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;
  // The pair in parts of at most max_length tokens, of which the last reaches the end of the second text.
  // None if the first text leaves no room for a token of the second. Throws UsageError as encode() does, for
  // a negative `shared`, and for more tokens than kMaxTokens in all parts.
  std::vector<EncodedWindow> encode_windows(std::string_view first, std::string_view second,
                                            const Windows& windows) const;

  // Converts ids to text. Ids without a token are skipped (a model may have more rows than tokens). Invalid
  // UTF-8 becomes U+FFFD. With "clean_up_tokenization_spaces" in tokenizer_config.json, spaces before
  // punctuation and contractions are removed, except for byte-pair encoding, as in transformers.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The id of a token as spelled in the vocabulary ("Ġhouse", "##ing", "[MASK]").
  std::optional<int32_t> id_of(std::string_view token) const;
  // The vocabulary's spelling of an id; nothing for an id without a token.
  std::optional<std::string_view> token(int32_t id) const;
  // The bytes that the id adds to a text between other tokens: decode() of a text's ids, in which its first
  // token may lose a space, is their concatenation with U+FFFD for invalid UTF-8. Nothing for an id without a
  // token, and for the unknown token, which stands for any text.
  std::optional<std::string> bytes(int32_t id) const;
  // Whether decoding without special tokens skips the id.
  bool is_special(int32_t id) const;

  const SpecialTokens& special_tokens() const;
  Around around() const;  // a single text
  int64_t size() const;   // largest id + 1

 private:
  friend class StreamDecoder;
  struct State;
  const State& state() const;  // throws UsageError for a moved-from tokenizer
  std::string decode_as_is(std::span<const int32_t> ids, const DecodeOptions& options) const;
  bool cleans_up() const;

  std::shared_ptr<const State> state_;
};

// Decodes tokens that arrive one by one, for streaming, in parts that never split a character. The
// concatenated parts equal decode() of all ids, except where consecutive byte tokens (<0xE4>) are invalid
// UTF-8: decode() returns U+FFFD for each of them, even for those output as characters.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  // The text that is final; empty while a character or word is incomplete.
  std::string add(int32_t id);
  // Continues after these tokens, whose text is known.
  void skip(std::span<const int32_t> ids);
  // The remaining text, with U+FFFD for incomplete characters. Resets the decoder.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::vector<int32_t> ids_;  // the last ids: some already shown, and those not shown yet
  size_t shown_ids_ = 0;      // how many of them are shown
  std::string shown_;         // their text
  std::string held_;          // text whose spaces later text may remove
};

}  // namespace qkv::text
