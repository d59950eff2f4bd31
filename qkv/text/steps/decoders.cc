#include "qkv/text/steps/decoders.h"

#include <array>

#include "qkv/base/utf8.h"
#include "qkv/text/steps/byte_letters.h"
#include "qkv/text/token_models/byte_tokens.h"

namespace qkv::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

size_t total_bytes(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void apply(std::vector<std::string>& tokens) const override {
    bool first = true;
    for (std::string& token : tokens) {
      if (!first) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(token.begin(), ' ');
        }
      }
      first = false;
      if (cleanup_) clean(token);
    }
  }
  std::string within(std::string token) const override {
    std::vector<std::string> tokens{{}, std::move(token)};
    apply(tokens);
    return tokens[1];
  }

 private:
  static void clean(std::string& token) {
    token = without_extra_spaces(std::move(token));
    replace_all(token, " do not", " don't");
  }

  std::string prefix_;
  bool cleanup_;
};

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    // An added token may contain other characters; it is plain text.
    for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
    tokens.assign(1, repair_utf8(bytes).text);
  }
  std::string within(std::string token) const override { return bytes_of_letters(token).value_or(token); }
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const MetaspaceOptions& options)
      : mark_(options.replacement), drops_first_(options.prepend != Prepend::never) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], mark_, i == 0 && drops_first_ ? "" : " ");
  }
  std::string within(std::string token) const override {
    replace_all(token, mark_, " ");
    return token;
  }

 private:
  std::string mark_;
  bool drops_first_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void apply(std::vector<std::string>& tokens) const override {
    if (suffix_.empty()) return;
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }
  std::string within(std::string token) const override {
    if (!suffix_.empty()) replace_all(token, suffix_, " ");
    return token;
  }

 private:
  std::string suffix_;
};

class ByteFallbackDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> parts;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_utf8(bytes)) {
        parts.push_back(bytes);
      } else {
        parts.insert(parts.end(), bytes.size(), std::string(kReplacementUtf8));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of_token(token)) {
        bytes += static_cast<char>(*byte);
        continue;
      }
      flush();
      parts.push_back(std::move(token));
    }
    flush();
    tokens = std::move(parts);
  }
  std::string within(std::string token) const override {
    if (const auto byte = byte_of_token(token)) return {static_cast<char>(*byte)};
    return token;
  }
};

class FuseDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, all);
  }
  std::string within(std::string token) const override { return token; }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<const Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Range> matches;
    const size_t most = most_bytes_of(total_bytes(tokens));
    size_t added = 0;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_->find(token, matches);
      added += matches.size() * content_.size();
      require_few_bytes(added, most);
      for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
        token.replace(match->begin, match->size(), content_);
      }
    }
  }
  std::string within(std::string token) const override {
    std::vector<std::string> tokens{std::move(token)};
    apply(tokens);
    return tokens[0];
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string character, int64_t left, int64_t right)
      : character_(std::move(character)), left_(left), right_(right) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < left_ && token.starts_with(character_); ++i) token.erase(0, character_.size());
      for (int64_t i = 0; i < right_ && token.ends_with(character_); ++i) {
        token.resize(token.size() - character_.size());
      }
    }
  }
  // Of the whole text, as the decoders that strip come after one that joins the tokens.
  std::string within(std::string token) const override { return token; }

 private:
  std::string character_;
  int64_t left_, right_;
};

class Sequence : public Decoder {
 public:
  explicit Sequence(std::vector<DecoderPtr> parts) : parts_(std::move(parts)) {}
  void apply(std::vector<std::string>& tokens) const override {
    const size_t most = most_bytes_of(total_bytes(tokens));
    for (const DecoderPtr& part : parts_) {
      part->apply(tokens);
      require_few_bytes(total_bytes(tokens), most);
    }
  }
  std::string within(std::string token) const override {
    for (const DecoderPtr& part : parts_) token = part->within(std::move(token));
    return token;
  }

 private:
  std::vector<DecoderPtr> parts_;
};

}  // namespace

std::string without_extra_spaces(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kRules{{{" .", "."},
                                                                                         {" ?", "?"},
                                                                                         {" !", "!"},
                                                                                         {" ,", ","},
                                                                                         {" ' ", "'"},
                                                                                         {" n't", "n't"},
                                                                                         {" 'm", "'m"},
                                                                                         {" 's", "'s"},
                                                                                         {" 've", "'ve"},
                                                                                         {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
  return text;
}

DecoderPtr wordpiece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
DecoderPtr byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
DecoderPtr metaspace_decoder(const MetaspaceOptions& options) {
  return std::make_unique<MetaspaceDecoder>(options);
}
DecoderPtr bpe_decoder(std::string suffix) { return std::make_unique<BpeDecoder>(std::move(suffix)); }
DecoderPtr byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
DecoderPtr fuse_decoder() { return std::make_unique<FuseDecoder>(); }
DecoderPtr replace_decoder(std::unique_ptr<const Pattern> pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
DecoderPtr strip_decoder(std::string character, int64_t left, int64_t right) {
  return std::make_unique<StripDecoder>(std::move(character), left, right);
}
DecoderPtr decoder_sequence(std::vector<DecoderPtr> parts) {
  return std::make_unique<Sequence>(std::move(parts));
}

}  // namespace qkv::text
