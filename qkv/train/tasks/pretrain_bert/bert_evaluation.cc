#include "qkv/train/tasks/pretrain_bert/bert_evaluation.h"

#include <algorithm>
#include <utility>

#include "qkv/base/parallel.h"
#include "qkv/data/batches.h"
#include "qkv/ops/embedding.h"
#include "qkv/ops/general/losses.h"
#include "qkv/train/ranks/division.h"

namespace qkv::train {
namespace {

constexpr uint64_t kSeed = 1;           // of segments and masks
constexpr int64_t kRowsOfLogits = 512;  // held at a time: bounds memory for large vocabularies

struct Sums {
  double loss = 0;
  int64_t right = 0, count = 0;
};

// Predictions of a batch.
struct Predictions {
  std::vector<float> losses;
  double right = 0;  // their number
};

// Adds those by logits [rows, classes].
void add(const Variable& logits, std::span<const int32_t> labels, Predictions& all) {
  const auto rows = std::ssize(labels);
  const Tensor losses =
      to_host(cross_entropy(logits, Tensor::from(labels, {rows}), {.reduction = Reduction::none}).value());
  all.losses.insert(all.losses.end(), losses.values().begin(), losses.values().end());
  const Tensor host = to_host(logits.value());
  const int64_t classes = host.cols();
  const std::span<const float> values = host.values();
  std::vector<uint8_t> right(labels.size());
  parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto own = values.subspan(static_cast<size_t>(row * classes), static_cast<size_t>(classes));
      const auto best = std::ranges::max_element(own) - own.begin();
      right[static_cast<size_t>(row)] = best == labels[static_cast<size_t>(row)] ? 1 : 0;
    }
  });
  all.right += static_cast<double>(std::ranges::count(right, 1));
}

double mean(double sum, int64_t count) { return count == 0 ? 0 : sum / static_cast<double>(count); }

}  // namespace

std::optional<PretrainingScores> evaluate_pretraining(
    const models::TextEncoder& model, const data::SentenceDocuments& documents,
    const data::SegmentOptions& segments, const data::MaskingVocabulary& vocabulary,
    const data::MaskingOptions& masking, int64_t batch_tokens, const EvaluationRequest& request) {
  const std::vector<data::Segments> all = data::make_segments(documents, segments, kSeed, 0);
  Sums masked, pairs;
  const std::vector<data::Batch> batches =
      data::sequential_batches(data::segment_costs(all, segments), batch_tokens);
  // The masked tokens' count and right ones, the same of pairs, and the losses of both.
  const auto score = [&](int64_t number) {
    const data::Batch& batch = batches[static_cast<size_t>(number)];
    Predictions tokens, next;
    data::SegmentBatch own{
        .epoch = 0, .items = batch.items, .segments = {}, .cost = batch.cost, .pairs = segments.pairs};
    for (const int64_t item : batch.items) own.segments.push_back(all[static_cast<size_t>(item)]);
    const data::MaskedRows rows = data::make_rows(documents, own, vocabulary, masking, kSeed);
    const Ragged inputs = rows.inputs.ragged();
    nn::ForwardContext context;
    const Variable hidden = model(inputs, context, Tensor::from(rows.types, {rows.inputs.tokens()}));
    const int64_t count = std::ssize(rows.masked);
    for (int64_t first = 0; first < count; first += kRowsOfLogits) {
      const auto part = [&](const std::vector<int32_t>& list) {
        return std::span(list).subspan(static_cast<size_t>(first),
                                       static_cast<size_t>(std::min(kRowsOfLogits, count - first)));
      };
      const std::span<const int32_t> places = part(rows.masked);
      // embedding() selects rows of a table.
      const Variable selected = embedding(hidden, Tensor::from(places, {std::ssize(places)}), {}, {});
      add(model.masked_language_logits(selected), part(rows.labels), tokens);
    }
    if (segments.pairs) add(model.next_sentence(hidden, inputs.offsets), rows.not_next, next);
    std::vector<double> result{static_cast<double>(tokens.losses.size()), tokens.right,
                               static_cast<double>(next.losses.size()), next.right};
    result.insert(result.end(), tokens.losses.begin(), tokens.losses.end());
    result.insert(result.end(), next.losses.begin(), next.losses.end());
    return pack(result);
  };
  const auto take = [&](int64_t, std::string_view result) {
    const std::vector<double> values = unpack<double>(result);
    const double* at = values.data() + 4;
    for (const auto& [sums, counts] :
         {std::pair(&masked, values.data()), std::pair(&pairs, values.data() + 2)}) {
      const auto count = static_cast<int64_t>(counts[0]);
      for (int64_t i = 0; i < count; ++i) sums->loss += *at++;
      sums->count += count;
      sums->right += static_cast<int64_t>(counts[1]);
    }
  };
  if (!divide(*request.ranks, request.stop, std::ssize(batches), score, take)) return std::nullopt;
  return PretrainingScores{.masked = masked.count,
                           .pairs = pairs.count,
                           .masked_loss = mean(masked.loss, masked.count),
                           .masked_accuracy = mean(static_cast<double>(masked.right), masked.count),
                           .nsp_loss = mean(pairs.loss, pairs.count),
                           .nsp_accuracy = mean(static_cast<double>(pairs.right), pairs.count)};
}

}  // namespace qkv::train
