#pragma once
// What an encoder says about texts: words that are missing, labels, vectors.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/hub/load_options.h"
#include "qkv/models/text_encoder.h"
#include "qkv/pipelines/results.h"
#include "qkv/pipelines/text_attention.h"
#include "qkv/text/tokenizer.h"

namespace qkv::pipelines {

// How a text becomes a vector.
struct TextEmbedOptions {
  EmbedOptions vector = {};
  // What is read of a text, in tokens with those that are put around it; the rest is left out. Nothing: all,
  // and a text of more than the model can read is an error.
  std::optional<int64_t> max_length = {};
  std::string prompt = {};  // put before each text
};

// One token of a text, and what it is.
struct TaggedToken {
  size_t begin = 0, end = 0;  // its bytes in the text
  LabelProbability label;     // the likeliest
};

struct TaggedText {
  std::vector<TaggedToken> tokens;  // those that stand for text
  std::string error;
};

struct MaskPrediction {
  int32_t id = 0;
  std::string token;  // as the vocabulary spells it
  float probability = 0;
  std::string text;  // with the token in the mask's place
};

struct FilledText {
  std::vector<std::vector<MaskPrediction>> masks;  // of each mask in the text, the likeliest first
  std::string error;                               // also where there is no mask
};

// An encoder and its tokenizer. Const: any number of threads may use one. Texts are batched by length; a
// result does not depend on the other texts.
class TextEncoderPipeline {
 public:
  // Throws what models::load_text_encoder() and text::Tokenizer::load() throw, and DataError for a tokenizer
  // with more tokens than the model has.
  explicit TextEncoderPipeline(const std::filesystem::path& folder, const models::LoadOptions& options = {},
                               int64_t batch_tokens = 4096);

  const models::TextEncoder& model() const { return *model_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

  // How sentence-transformers makes vectors with this folder, where it has files that say so (modules.json
  // and those that it names); what TextEmbedOptions begins with where it has none. Throws DataError naming
  // the file and the module or field that asks for something that is not here.
  TextEmbedOptions embed_options() const;

  // These throw UsageError where the model has no such head.
  std::vector<Embedded> embed(std::span<const std::string> texts, const TextEmbedOptions& options = {}) const;
  // A tab in a text parts it in two that are judged together, where `pairs` is set.
  std::vector<Classified> classify(std::span<const std::string> texts, bool pairs = false) const;
  std::vector<TaggedText> tag(std::span<const std::string> texts) const;
  // `count` guesses for each mask. The mask is spelled as the vocabulary does: "[MASK]", "<mask>".
  std::vector<FilledText> fill_masks(std::span<const std::string> texts, int64_t count = 5) const;

  // What the model attends to in a text. Throws DataError for one that is not UTF-8, is too long or has no
  // tokens.
  TextAttention attention(const std::string& text) const;

 private:
  struct Read {
    text::Encoding encoding;
    std::string error;
  };
  std::vector<Read> read(std::span<const std::string> texts, bool pairs = false,
                         const text::EncodeOptions& options = {}) const;
  // use(text's number, its hidden states [tokens, d_model]) for each text without an error.
  template <class Use>
  void run(std::span<const Read> texts, const Use& use) const;

  std::filesystem::path folder_;
  std::unique_ptr<const models::TextEncoder> model_;
  text::Tokenizer tokenizer_;
  int64_t batch_tokens_;
};

}  // namespace qkv::pipelines
