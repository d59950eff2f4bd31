#include "qkv/train/tasks/translation/translation_validation.h"

#include <algorithm>

#include "qkv/data/batches_by_length.h"
#include "qkv/metrics/bleu.h"
#include "qkv/search/transformer.h"
#include "qkv/text/lines.h"
#include "qkv/train/ranks/division.h"

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
                               const EvaluationRequest& request) {
  const std::vector<data::Batch> batches = data::sequential_batches(data::pair_costs(store), batch_tokens);
  double sum = 0, tokens = 0;
  const bool complete = divide(
      *request.ranks, request.stop, std::ssize(batches),
      [&](int64_t batch) {
        const data::TranslationRows rows =
            data::make_rows(store, batches[static_cast<size_t>(batch)].items, special);
        nn::ForwardContext context;
        const nn::Memory memory = model.encode(rows.source.ragged(), context);
        const Variable hidden = model.decode(rows.decoder_input.ragged(), memory, context);
        const CrossEntropyResult result =
            model.logits().cross_entropy(hidden, Tensor::from(rows.labels.ids, {rows.labels.tokens()}), {});
        return pack<double>({result.sums().nll, static_cast<double>(rows.labels.tokens())});
      },
      [&](int64_t, std::string_view result) {
        const std::vector<double> own = unpack<double>(result);
        sum += own[0];
        tokens += own[1];
      });
  if (!complete) return std::nullopt;
  return sum / tokens;
}

std::optional<double> translation_bleu(const models::Transformer& model,
                                       const text::TranslationTokenizer& tokenizer, const ValidationSet& set,
                                       const ValidationBleuOptions& options,
                                       const EvaluationRequest& request) {
  const int64_t all = set.store.pairs();
  const int64_t sentences = options.sentences == 0 ? all : std::min(options.sentences, all);
  std::vector<int64_t> lengths;
  for (int64_t pair = 0; pair < sentences; ++pair) lengths.push_back(set.store.source_length(pair) + 1);

  search::SearchOptions search;
  search.beam = static_cast<int>(options.beam);
  std::vector<std::string> hypotheses(lengths.size());
  const std::vector<std::vector<size_t>> batches = data::batches_by_length(lengths, options.batch_tokens);
  const bool complete = divide(
      *request.ranks, request.stop, std::ssize(batches),
      [&](int64_t number) {
        std::vector<std::vector<int32_t>> sources;
        for (const size_t pair : batches[static_cast<size_t>(number)]) {
          const auto ids = set.store.source(static_cast<int64_t>(pair));
          sources.emplace_back(ids.begin(), ids.end());
          if (model.config().source_eos) sources.back().push_back(tokenizer.eos_id(text::Side::source));
        }
        std::vector<int32_t> found;  // of each, the length and the ids
        for (const search::NBest& best :
             search::search(model, sources, search, {.batch_tokens = options.batch_tokens})) {
          const std::vector<int32_t>& ids = best.front().ids;
          found.push_back(static_cast<int32_t>(ids.size()));
          found.insert(found.end(), ids.begin(), ids.end());
        }
        return pack(found);
      },
      [&](int64_t number, std::string_view result) {
        const std::vector<int32_t> found = unpack<int32_t>(result);
        auto at = found.begin();
        for (const size_t pair : batches[static_cast<size_t>(number)]) {
          const int32_t length = *at++;
          hypotheses[pair] = tokenizer.decode({at, at + length});
          at += length;
        }
      });
  if (!complete) return std::nullopt;
  const std::vector<std::string> references(set.references.begin(), set.references.begin() + sentences);
  return metrics::corpus_bleu(hypotheses, references).score;
}

}  // namespace qkv::train
