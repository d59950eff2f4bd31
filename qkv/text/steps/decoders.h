#pragma once
// From tokens back to text: the decoders of a tokenizer.json.

#include <memory>
#include <string>
#include <vector>

#include "qkv/text/steps/pattern.h"
#include "qkv/text/steps/pre_tokenizers.h"

namespace qkv::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Changes tokens into parts of text, which are then laid end to end.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

using DecoderPtr = std::unique_ptr<const Decoder>;

// Spaces before tokens that begin a word; cleanup removes those before punctuation and contractions.
DecoderPtr wordpiece_decoder(std::string prefix, bool cleanup);
DecoderPtr byte_level_decoder();
DecoderPtr metaspace_decoder(const MetaspaceOptions& options);
// The suffix that ends a word becomes a space; at the end of the text it is removed.
DecoderPtr bpe_decoder(std::string suffix);
DecoderPtr byte_fallback_decoder();  // runs of <0x..> that are UTF-8 become its characters
DecoderPtr fuse_decoder();           // joins all parts
DecoderPtr replace_decoder(std::unique_ptr<const Pattern> pattern, std::string content);
// Removes a character from the ends of each part, at most `left` and `right` times.
DecoderPtr strip_decoder(std::string character, int64_t left, int64_t right);
DecoderPtr decoder_sequence(std::vector<DecoderPtr> parts);

}  // namespace qkv::text
