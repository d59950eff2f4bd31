#include "qkv/base/error.h"
#include "qkv/base/utf8.h"
#include "qkv/text/token_models/byte_trie.h"
#include "qkv/text/token_models/token_models.h"

namespace qkv::text {
namespace {

int32_t require_token(const Vocabulary& vocabulary, const std::string& token, const std::string& name) {
  const int32_t id = vocabulary.find(token);
  if (id < 0) {
    throw DataError(concat(name, ": expected the unknown token '", token, "' in the vocabulary, found ",
                           vocabulary.count(), " other tokens"));
  }
  return id;
}

ByteTrie trie_of(const Vocabulary& vocabulary, std::string_view prefix) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string_view token = vocabulary.token(id);
    // Of tokens with the same spelling, only the one that the vocabulary finds.
    if (token.starts_with(prefix) && vocabulary.find(token) == id) {
      entries.emplace_back(token.substr(prefix.size()), id);
    }
  }
  return ByteTrie(std::move(entries));
}

class WordPiece : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, const WordPieceOptions& options, const std::string& name)
      : vocabulary_(std::move(vocabulary)),
        unk_(require_token(vocabulary_, options.unk_token, name)),
        longest_word_(options.max_input_chars_per_word),
        beginnings_(trie_of(vocabulary_, "")),
        continuations_(trie_of(vocabulary_, options.continuing_subword_prefix)) {}

  void tokenize(std::string_view piece, std::vector<Token>& tokens) const override {
    const size_t before = tokens.size();
    const auto length = static_cast<uint32_t>(piece.size());
    uint32_t at = 0;
    if (static_cast<int64_t>(count_characters(piece)) <= longest_word_) {
      while (at < length) {
        const ByteTrie& trie = at == 0 ? beginnings_ : continuations_;
        const auto [bytes, id] = trie.longest_prefix(piece.substr(at));
        if (id < 0) break;
        tokens.push_back({id, at, at + static_cast<uint32_t>(bytes)});
        at += static_cast<uint32_t>(bytes);
      }
    }
    if (at == length) return;
    tokens.resize(before);
    tokens.push_back({unk_, 0, length});
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  int32_t unk_;
  int64_t longest_word_;
  ByteTrie beginnings_, continuations_;
};

class WordLevel : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unk_token, const std::string& name)
      : vocabulary_(std::move(vocabulary)), unk_(require_token(vocabulary_, unk_token, name)) {}

  void tokenize(std::string_view piece, std::vector<Token>& tokens) const override {
    const int32_t id = vocabulary_.find(piece);
    tokens.push_back({id < 0 ? unk_ : id, 0, static_cast<uint32_t>(piece.size())});
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  int32_t unk_;
};

}  // namespace

TokenModelPtr wordpiece_model(Vocabulary vocabulary, const WordPieceOptions& options,
                              const std::string& name) {
  return std::make_unique<WordPiece>(std::move(vocabulary), options, name);
}

TokenModelPtr word_level_model(Vocabulary vocabulary, const std::string& unk_token, const std::string& name) {
  return std::make_unique<WordLevel>(std::move(vocabulary), unk_token, name);
}

}  // namespace qkv::text
