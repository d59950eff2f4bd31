#pragma once
// Pieces and their ids, both ways: the content of a Marian vocab.json.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace qkv::text {

inline constexpr std::string_view kEosPiece = "</s>", kUnkPiece = "<unk>", kPadPiece = "<pad>";

class Vocabulary {
 public:
  Vocabulary() = default;

  // pieces[i] has id i. `name` (a file, say) is named in errors. Throws DataError if a piece appears twice or
  // one of
  // </s>, <unk>, <pad> is missing.
  Vocabulary(std::vector<std::string> pieces, const std::string& name);

  // From JSON text, an object of piece -> id. Throws DataError naming `name` unless the ids are exactly
  // 0..n-1.
  static Vocabulary from_json(std::string_view json, const std::string& name);
  std::string to_json() const;  // one piece a line, in the order of the ids

  // The id of a piece, or -1.
  int32_t find(std::string_view piece) const;
  const std::vector<std::string>& pieces() const { return pieces_; }
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

  int32_t eos() const { return eos_; }
  int32_t unk() const { return unk_; }
  int32_t pad() const { return pad_; }
  bool special(int32_t id) const { return id == eos_ || id == unk_ || id == pad_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  int32_t eos_ = -1, unk_ = -1, pad_ = -1;
};

}  // namespace qkv::text
