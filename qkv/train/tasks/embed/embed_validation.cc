// Validation of sentence embeddings.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/data/batches_by_length.h"
#include "qkv/metrics/classification.h"
#include "qkv/train/ranks/division.h"
#include "qkv/train/tasks/embed/embed_task.h"

namespace qkv::train {
namespace {

constexpr int64_t kBatchTokens = 4096;

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * double{b[i]};
    aa += double{a[i]} * double{a[i]};
    bb += double{b[i]} * double{b[i]};
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

std::span<const float> row(const Tensor& matrix, int64_t i) {
  return {matrix.data() + i * matrix.cols(), static_cast<size_t>(matrix.cols())};
}

// The number of first sentences whose most similar second sentence is that of their pair, or an equal one.
int64_t count_found(const Tensor& first, const Tensor& second, const EmbedBatch& batch) {
  int64_t found = 0;
  for (int64_t i = 0; i < first.rows(); ++i) {
    int64_t best = 0;
    double most = -2;
    for (int64_t j = 0; j < second.rows(); ++j) {
      const double similarity = cosine(row(first, i), row(second, j));
      if (similarity > most) {
        most = similarity;
        best = j;
      }
    }
    found +=
        batch.second_keys[static_cast<size_t>(best)] == batch.second_keys[static_cast<size_t>(i)] ? 1 : 0;
  }
  return found;
}

}  // namespace

std::optional<Tensor> sentence_vectors(const models::TextEncoder& model, const EmbedPairs& pairs,
                                       pipelines::Pooling pooling, const EvaluationRequest& request) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 2 * pairs.pairs(); ++i) lengths.push_back(std::ssize(pairs.sentence(i)));
  Tensor vectors = Tensor::empty({std::ssize(lengths), model.config().embedding.d_model});
  const std::vector<std::vector<size_t>> batches = data::batches_by_length(lengths, kBatchTokens);
  const bool complete = divide(
      *request.ranks, request.stop, std::ssize(batches),
      [&](int64_t batch) {
        std::vector<std::span<const int32_t>> ids;
        for (const size_t i : batches[static_cast<size_t>(batch)])
          ids.push_back(pairs.sentence(static_cast<int64_t>(i)));
        const Ragged packed = Ragged::from(ids);
        nn::ForwardContext context;
        const Tensor found = to_host(pooled_rows(model(packed, context), packed.offsets, pooling).value());
        return pack<float>({found.values().begin(), found.values().end()});
      },
      [&](int64_t batch, std::string_view result) {
        const std::vector<float> found = unpack<float>(result);
        auto from = found.begin();
        for (const size_t i : batches[static_cast<size_t>(batch)]) {
          std::copy_n(from, vectors.cols(), vectors.data() + static_cast<int64_t>(i) * vectors.cols());
          from += vectors.cols();
        }
      });
  if (!complete) return std::nullopt;
  return vectors;
}

std::vector<Metric> EmbedTask::metrics() const {
  if (inputs_.valid && !inputs_.valid->scored()) return {{.name = "accuracy"}};
  return {{.name = "spearman"}, {.name = "pearson"}};
}

std::optional<Evaluation> EmbedTask::evaluate(const EvaluationRequest& request) const {
  const EmbedPairs& pairs = *inputs_.valid;
  const std::optional<Tensor> vectors = sentence_vectors(model_, pairs, inputs_.options.pooling, request);
  if (!vectors) return std::nullopt;

  // The loss of batches in the file's order.
  double loss = 0;
  int64_t correct = 0;
  for (int64_t begin = 0; begin < pairs.pairs(); begin += inputs_.options.batch_pairs) {
    const int64_t n = std::min(inputs_.options.batch_pairs, pairs.pairs() - begin);
    std::vector<int64_t> items(static_cast<size_t>(n));
    std::iota(items.begin(), items.end(), begin);
    const std::unique_ptr<EmbedBatch> batch = make_batch(pairs, items);
    const Tensor first = vectors->slice_rows(begin, n),
                 second = vectors->slice_rows(pairs.pairs() + begin, n);
    loss += double{pair_loss(valid_loss_, first.clone(), second.clone(), *batch).value().item()};
    if (!pairs.scored()) correct += count_found(first, second, *batch);
  }
  Evaluation result{.loss = loss / static_cast<double>(pairs.pairs()), .metrics = {}};
  if (!pairs.scored()) {
    result.metrics["accuracy"] = static_cast<double>(correct) / static_cast<double>(pairs.pairs());
    return result;
  }
  if (pairs.pairs() < 2) return result;  // no correlation
  std::vector<double> cosines;
  for (int64_t i = 0; i < pairs.pairs(); ++i)
    cosines.push_back(cosine(row(*vectors, i), row(*vectors, pairs.pairs() + i)));
  const std::vector<double> scores(pairs.scores.begin(), pairs.scores.end());
  result.metrics = {{"spearman", metrics::spearman(cosines, scores)},
                    {"pearson", metrics::pearson(cosines, scores)}};
  return result;
}

}  // namespace qkv::train
