#include "qkv/grammar/grammar.h"

#include <utility>

#include "qkv/base/error.h"

namespace qkv::grammar {

Bytes ranges(std::string_view bounds) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < bounds.size(); i += 2) {
    const auto last = static_cast<unsigned char>(bounds[i + 1]);
    for (unsigned byte = static_cast<unsigned char>(bounds[i]); byte <= last; ++byte) bytes.set(byte);
  }
  return bytes;
}

Symbols literal(std::string_view text) {
  Symbols symbols(text.size());
  for (size_t i = 0; i < text.size(); ++i) symbols[i].bytes.set(static_cast<unsigned char>(text[i]));
  return symbols;
}

void Grammar::add(int32_t rule, Symbols alternative) {
  const size_t symbols = symbols_ + alternative.size() + 1;
  if (symbols > kMostSymbols)
    throw UsageError(concat("grammar: expected at most ", kMostSymbols, " symbols, found more"));
  rules_.at(static_cast<size_t>(rule)).push_back(std::move(alternative));
  symbols_ = symbols;
}

void Grammar::truncate(int32_t rules) {
  const auto first = rules_.begin() + rules;
  for (auto rule = first; rule != rules_.end(); ++rule) {
    for (const Symbols& alternative : *rule) symbols_ -= alternative.size() + 1;
  }
  rules_.erase(first, rules_.end());
}

}  // namespace qkv::grammar
