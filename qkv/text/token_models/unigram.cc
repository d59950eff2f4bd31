#include <algorithm>
#include <limits>

#include "qkv/base/error.h"
#include "qkv/base/per_thread.h"
#include "qkv/base/utf8.h"
#include "qkv/text/token_models/byte_tokens.h"
#include "qkv/text/token_models/byte_trie.h"
#include "qkv/text/token_models/token_models.h"

namespace qkv::text {
namespace {

class Unigram : public TokenModel {
 public:
  Unigram(const ScoredTokens& tokens, const UnigramOptions& options, const std::string& name)
      : unk_(static_cast<int32_t>(options.unk_id)), byte_fallback_(options.byte_fallback) {
    if (options.unk_id < 0 || options.unk_id >= static_cast<int64_t>(tokens.size())) {
      throw DataError(concat(name, ": expected the id of the unknown token among ", tokens.size(),
                             " tokens, found ", options.unk_id));
    }
    std::vector<std::pair<std::string_view, int32_t>> entries;
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& [token, score] : tokens) {
      const auto id = static_cast<int32_t>(scores_.size());
      vocabulary_.add(token, id, name);
      entries.emplace_back(token, id);
      scores_.push_back(score);
      lowest = std::min(lowest, score);
    }
    trie_ = ByteTrie(std::move(entries));
    constexpr double kUnknownPenalty = 10;  // as in SentencePiece
    unknown_score_ = lowest - kUnknownPenalty;
    byte_tokens_ = byte_tokens(vocabulary_);
  }

  void tokenize(std::string_view piece, std::vector<Token>& tokens) const override {
    auto& [best, parts] = per_thread<Scratch>();
    find_best(piece, best);
    // Backtracks from the end, fusing adjacent unknown characters.
    parts.clear();
    for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
      const Step& step = best[end];
      if (step.id == unk_ && !parts.empty() && parts.back().id == unk_ && parts.back().begin == end) {
        parts.back().begin = step.from;
      } else {
        parts.push_back({step.id, step.from, end});
      }
      end = step.from;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->id == unk_) {
        add_unknown(piece.substr(part->begin, part->end - part->begin), *part, tokens);
      } else {
        tokens.push_back(*part);
      }
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  // The best segmentation up to a position: its last token.
  struct Step {
    double score = 0;
    int32_t id = -1;
    uint32_t from = 0;
  };
  // Memory of a call, kept for the thread's next one.
  struct Scratch {
    std::vector<Step> best;
    std::vector<Token> parts;
  };

  // Viterbi search over the tokens that begin at each character.
  void find_best(std::string_view piece, std::vector<Step>& best) const {
    best.assign(piece.size() + 1, {});
    for (size_t at = 0; at < piece.size();) {
      const auto from = static_cast<uint32_t>(at);
      const double so_far = best[at].score;
      next_character(piece, at);
      const size_t character = at - from;
      bool known = false;
      const auto offer = [&](size_t length, int32_t id, double score) {
        Step& step = best[from + length];
        if (step.id < 0 || so_far + score > step.score) step = {so_far + score, id, from};
      };
      trie_.prefixes(piece.substr(from), [&](size_t length, int32_t id) {
        offer(length, id, scores_[static_cast<size_t>(id)]);
        known = known || length == character;
      });
      if (!known) offer(character, unk_, unknown_score_);
    }
  }

  // A run of unknown characters may still equal a token outside the best path, or be spelled as bytes.
  void add_unknown(std::string_view text, const Token& part, std::vector<Token>& tokens) const {
    const int32_t id = vocabulary_.find(text);
    const bool bytes = id < 0 && byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char byte) {
                         return byte_tokens_[static_cast<uint8_t>(byte)] >= 0;
                       });
    if (!bytes) {
      tokens.push_back({id < 0 ? unk_ : id, part.begin, part.end});
      return;
    }
    for (const char byte : text) {
      tokens.push_back({byte_tokens_[static_cast<uint8_t>(byte)], part.begin, part.end});
    }
  }

  Vocabulary vocabulary_;
  ByteTrie trie_;
  std::vector<double> scores_;
  int32_t unk_;
  bool byte_fallback_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_tokens_{};
};

}  // namespace

TokenModelPtr unigram_model(const ScoredTokens& tokens, const UnigramOptions& options,
                            const std::string& name) {
  return std::make_unique<Unigram>(tokens, options, name);
}

}  // namespace qkv::text
