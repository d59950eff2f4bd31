#include "qkv/text/token_table.h"

#include "qkv/base/error.h"

namespace qkv::text {

void TokenTable::add(std::string_view token, int64_t id, const std::string& name) {
  if (id < 0 || id >= kMaxIds) {
    throw DataError(
        concat(name, ": expected ids of 0 to ", kMaxIds - 1, ", found ", id, " for the token '", token, "'"));
  }
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    known_.resize(at + 1);
  }
  if (known_[at] && tokens_[at] != token) {
    throw DataError(concat(name, ": expected an id for one token, found ", id, " for '", tokens_[at],
                           "' and for '", token, "'"));
  }
  count_ += !known_[at];
  tokens_[at] = token;
  known_[at] = true;
  ids_.set(token, static_cast<int32_t>(id));
}

}  // namespace qkv::text
