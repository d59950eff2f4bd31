#include "qkv/explain/head_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "qkv/base/error.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/image_attention.h"
#include "qkv/metrics/information.h"

namespace qkv::explain {
namespace {

// Sums over the queries of one head.
struct Sums {
  double entropy = 0, largest = 0, first = 0, distance = 0, special = 0, across = 0;
  int64_t queries = 0, measured = 0;  // measured: those with a distance

  void add_row(const float* row, int64_t keys) {
    double most = 0;
    for (int64_t key = 0; key < keys; ++key) {
      const double weight = row[key];
      if (weight > 0) entropy -= weight * std::log2(weight);
      most = std::max(most, weight);
    }
    largest += most;
    first += row[0];
    ++queries;
  }

  HeadStatistics means() const {
    const auto count = static_cast<double>(std::max<int64_t>(queries, 1));
    return {.entropy = entropy / count, .largest = largest / count, .first = first / count};
  }
};

void require_weights(const Tensor& weights, int64_t queries, int64_t keys) {
  const bool fits = weights.defined() && weights.dtype() == DType::f32 && weights.rank() == 3 &&
                    weights.dim(1) == queries && weights.dim(2) == keys && weights.numel() > 0;
  if (fits) return;
  throw ShapeError(concat("head statistics: expected f32 weights [heads, ", queries, ", ", keys, "], found ",
                          weights.defined() ? concat(weights.shape()) : std::string("none")));
}

double information(const Tensor& weights, int64_t head) {
  return metrics::mutual_information(weights.data() + head * weights.dim(1) * weights.row_stride(),
                                     weights.dim(1), weights.dim(2), weights.row_stride());
}

// Calls use(head, query, weights of its keys).
template <class Use>
void each_row(const Tensor& weights, const Use& use) {
  for (int64_t head = 0; head < weights.dim(0); ++head) {
    for (int64_t query = 0; query < weights.dim(1); ++query) {
      use(static_cast<size_t>(head), query,
          weights.data() + (head * weights.dim(1) + query) * weights.row_stride());
    }
  }
}

}  // namespace

std::vector<HeadStatistics> head_statistics(const AttentionReport& report, const AttentionLayer& layer) {
  const auto keys = std::ssize(report.keys(layer.part));
  require_weights(layer.weights, std::ssize(report.queries(layer.part)), keys);
  if (!layer.statistics.empty()) return layer.statistics;
  // The tokens of one text are queries and keys.
  const bool own = layer.part != Part::cross;
  const bool of_source = layer.part == Part::encoder || report.reads_one_text();
  const bool special = (of_source || layer.part == Part::cross) &&
                       std::ssize(report.source_special) == keys &&
                       std::ranges::count(report.source_special, uint8_t{1}) > 0;
  const bool pair = of_source && report.second_text.has_value();
  const int64_t second = report.second_text.value_or(0);
  std::vector<Sums> sums(static_cast<size_t>(layer.weights.dim(0)));
  each_row(layer.weights, [&](size_t head, int64_t query, const float* row) {
    Sums& sum = sums[head];
    sum.add_row(row, keys);
    for (int64_t key = 0; key < keys; ++key) {
      if (own) sum.distance += row[key] * static_cast<double>(std::abs(query - key));
      if (special && report.source_special[static_cast<size_t>(key)] != 0) sum.special += row[key];
      if (pair && (key < second) != (query < second)) sum.across += row[key];
    }
  });
  std::vector<HeadStatistics> heads;
  for (const Sums& sum : sums) {
    HeadStatistics head = sum.means();
    const auto count = static_cast<double>(sum.queries);
    head.information = information(layer.weights, std::ssize(heads));
    if (own) head.distance = sum.distance / count;
    if (special) head.special = sum.special / count;
    if (pair) head.across = sum.across / count;
    heads.push_back(head);
  }
  return heads;
}

std::vector<HeadStatistics> head_statistics(const ImageAttentionReport& report, const Tensor& weights) {
  const int64_t tokens = report.tokens(), specials = std::ssize(report.own_tokens);
  require_weights(weights, tokens, tokens);
  std::vector<Sums> sums(static_cast<size_t>(weights.dim(0)));
  each_row(weights, [&](size_t head, int64_t query, const float* row) {
    Sums& sum = sums[head];
    sum.add_row(row, tokens);
    for (int64_t key = 0; key < specials; ++key) sum.special += row[key];
    if (query < specials) return;
    double among = 0, weighted = 0;
    for (int64_t key = specials; key < tokens; ++key) {
      const int64_t from = query - specials, to = key - specials;
      among += row[key];
      const int64_t down = from / report.columns - to / report.columns;
      const int64_t across = from % report.columns - to % report.columns;
      weighted += row[key] * std::hypot(static_cast<double>(down), static_cast<double>(across));
    }
    if (among > 0) {
      sum.distance += weighted / among;
      ++sum.measured;
    }
  });
  std::vector<HeadStatistics> heads;
  for (const Sums& sum : sums) {
    HeadStatistics head = sum.means();
    head.information = information(weights, std::ssize(heads));
    head.special = sum.special / static_cast<double>(tokens);
    if (sum.measured > 0) head.distance = sum.distance / static_cast<double>(sum.measured);
    heads.push_back(head);
  }
  return heads;
}

HeadPlace most_informative_head(const AttentionReport& report, Part part) {
  std::optional<HeadPlace> best;
  double most = 0;
  for (const AttentionLayer& layer : report.layers) {
    if (layer.part != part) continue;
    const std::vector<HeadStatistics> heads = head_statistics(report, layer);
    for (size_t head = 0; head < heads.size(); ++head) {
      if (best && heads[head].information <= most) continue;
      best = {.layer = layer.index, .head = static_cast<int>(head)};
      most = heads[head].information;
    }
  }
  if (!best)
    throw UsageError(concat("attention report: expected a layer of the ", name_of(part), ", found none"));
  return *best;
}

std::string to_json(std::span<const HeadStatistics> heads) {
  auto list = nlohmann::ordered_json::array();
  for (const HeadStatistics& head : heads) {
    nlohmann::ordered_json one{{"entropy", head.entropy},
                               {"largest", head.largest},
                               {"first", head.first},
                               {"information", head.information}};
    if (head.distance) one["distance"] = *head.distance;
    if (head.special) one["special"] = *head.special;
    if (head.across) one["across"] = *head.across;
    list.push_back(std::move(one));
  }
  return list.dump();
}

}  // namespace qkv::explain
