#include "qkv/train/tasks/translation/translation_validation.h"

#include <algorithm>

#include "qkv/data/batches_by_length.h"
#include "qkv/metrics/bleu.h"
#include "qkv/search/transformer.h"
#include "qkv/text/lines.h"

namespace qkv::train {

ValidationSet ValidationSet::open(const data::TokenStore& store, const std::filesystem::path& target) {
  ValidationSet set{store, {}};
  text::LineReader reader(target);
  std::string line;
  for (int64_t pair = 0; pair < set.store.pairs();) {
    if (!reader.next(line)) {
      throw DataError(concat(target.string(), ": expected at least ", set.store.line(pair), " lines, found ",
                             reader.lines()));
    }
    if (reader.lines() != set.store.line(pair)) continue;
    set.references.push_back(line);
    ++pair;
  }
  return set;
}

std::optional<double> mean_nll(const models::Transformer& model, const data::TokenStore& store,
                               const text::SpecialIds& special, int64_t batch_tokens,
                               const std::atomic<bool>* stop) {
  double sum = 0;
  int64_t tokens = 0;
  for (const data::Batch& batch : data::sequential_batches(data::pair_costs(store), batch_tokens)) {
    if (stop && *stop) return std::nullopt;
    const data::TranslationRows rows = data::make_rows(store, batch.items, special);
    nn::ForwardContext context;
    const nn::Memory memory = model.encode(rows.source.ragged(), context);
    const Variable hidden = model.decode(rows.decoder_input.ragged(), memory, context);
    sum += model.logits()
               .cross_entropy(hidden, Tensor::from(rows.labels.ids, {rows.labels.tokens()}), {})
               .sums()
               .nll;
    tokens += rows.labels.tokens();
  }
  return sum / static_cast<double>(tokens);
}

std::optional<double> translation_bleu(const models::Transformer& model,
                                       const text::TranslationTokenizer& tokenizer, const ValidationSet& set,
                                       const ValidationBleuOptions& options, const std::atomic<bool>* stop) {
  const int64_t all = set.store.pairs();
  const int64_t sentences = options.sentences == 0 ? all : std::min(options.sentences, all);
  std::vector<int64_t> lengths;
  for (int64_t pair = 0; pair < sentences; ++pair) lengths.push_back(set.store.source_length(pair) + 1);

  search::SearchOptions search;
  search.beam = static_cast<int>(options.beam);
  std::vector<std::string> hypotheses(lengths.size());
  for (const std::vector<size_t>& batch : data::batches_by_length(lengths, options.batch_tokens)) {
    if (stop && *stop) return std::nullopt;
    std::vector<std::vector<int32_t>> sources;
    for (const size_t pair : batch) {
      const auto ids = set.store.source(static_cast<int64_t>(pair));
      sources.emplace_back(ids.begin(), ids.end());
      if (model.config().source_eos) sources.back().push_back(tokenizer.eos_id(text::Side::source));
    }
    const std::vector<search::NBest> found =
        search::search(model, sources, search, {.batch_tokens = options.batch_tokens});
    for (size_t i = 0; i < batch.size(); ++i) hypotheses[batch[i]] = tokenizer.decode(found[i].front().ids);
  }
  const std::vector<std::string> references(set.references.begin(), set.references.begin() + sentences);
  return metrics::corpus_bleu(hypotheses, references).score;
}

}  // namespace qkv::train
