#include "qkv/data/translation_rows.h"

#include "qkv/base/error.h"

namespace qkv::data {

TranslationRows make_rows(const TokenStore& store, std::span<const int64_t> pairs,
                          const text::SpecialIds& special) {
  if (!special.start) throw UsageError("make_rows: expected a start token, found none");
  TranslationRows rows;
  for (const int64_t pair : pairs) {
    rows.source.append(store.source(pair));
    if (special.source_eos) rows.source.ids.push_back(special.eos);
    rows.source.end_sequence();
    rows.decoder_input.ids.push_back(*special.start);
    rows.decoder_input.append(store.target(pair));
    rows.decoder_input.end_sequence();
    rows.labels.append(store.target(pair));
    rows.labels.ids.push_back(special.eos);
    rows.labels.end_sequence();
  }
  return rows;
}

std::vector<int64_t> pair_costs(const TokenStore& store) {
  std::vector<int64_t> costs(static_cast<size_t>(store.pairs()));
  for (int64_t pair = 0; pair < store.pairs(); ++pair)
    costs[static_cast<size_t>(pair)] = pair_cost(store, pair);
  return costs;
}

std::vector<int64_t> target_lengths(const TokenStore& store) {
  std::vector<int64_t> lengths(static_cast<size_t>(store.pairs()));
  for (int64_t pair = 0; pair < store.pairs(); ++pair)
    lengths[static_cast<size_t>(pair)] = store.target_length(pair);
  return lengths;
}

}  // namespace qkv::data
