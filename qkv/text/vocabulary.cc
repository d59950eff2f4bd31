#include "qkv/text/vocabulary.h"

#include "qkv/base/error.h"
#include "qkv/base/json.h"

namespace qkv::text {

Vocabulary::Vocabulary(std::vector<std::string> pieces, const std::string& name)
    : pieces_(std::move(pieces)) {
  ids_.reserve(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto [where, fresh] = ids_.emplace(pieces_[i], static_cast<int32_t>(i));
    if (!fresh) {
      throw DataError(concat(name, ": expected every piece once, found '", pieces_[i], "' with the ids ",
                             where->second, " and ", i));
    }
  }
  const auto special = [&](std::string_view piece) {
    const int32_t id = find(piece);
    if (id < 0) {
      throw DataError(
          concat(name, ": expected the special piece ", piece, ", found none among ", size(), " pieces"));
    }
    return id;
  };
  eos_ = special(kEosPiece);
  unk_ = special(kUnkPiece);
  pad_ = special(kPadPiece);
}

Vocabulary Vocabulary::from_json(std::string_view json, const std::string& name) {
  const JsonValue parsed = parse_json(json, name, {.unique_keys = true});
  if (!parsed.is_object()) parsed.fail("an object of pieces and ids");
  std::vector<std::string> pieces(parsed.size());
  std::vector<bool> taken(parsed.size(), false);
  parsed.members([&](std::string_view piece, const JsonValue& value) {
    const int64_t number = value.is_integer() ? value.integer() : -1;
    const auto id = static_cast<size_t>(number);
    if (number < 0 || id >= pieces.size()) {
      throw DataError(concat(name, ": expected the id of '", piece, "' to be 0 to ", pieces.size() - 1,
                             " (it has ", pieces.size(), " pieces), found ", value.excerpt(),
                             "; a piece is missing or a number wrong"));
    }
    if (taken[id]) {
      throw DataError(concat(name, ": expected an id of its own for every piece, found ", id, " for both '",
                             pieces[id], "' and '", piece, "'"));
    }
    taken[id] = true;
    pieces[id] = piece;
  });
  return Vocabulary(std::move(pieces), name);
}

std::string Vocabulary::to_json() const {
  std::string json = "{\n";
  for (size_t i = 0; i < pieces_.size(); ++i) {
    json += concat("  ", quoted_json(pieces_[i]), ": ", i, i + 1 < pieces_.size() ? ",\n" : "\n");
  }
  return json + "}\n";
}

int32_t Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace qkv::text
