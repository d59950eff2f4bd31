#include "qkv/search/shortlist.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"

namespace qkv::search {
namespace {

// Token pairs that co-occur by chance are numerous: less likely translations are dropped to keep lists short.
constexpr float kLeastProbability = 1e-3f;

void require_ids(const char* side, Ids ids, int64_t vocabulary) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    throw DataError(concat("shortlist: ", side, ": expected ids from 0 to ", vocabulary - 1, ", found ", id));
  }
}

// p(target token | source token) of the co-occurring token pairs. The last row is the empty (null) source
// token.
class TranslationTable {
 public:
  TranslationTable(std::span<const TokenPair> pairs, int64_t source_vocabulary)
      : begin_(static_cast<size_t>(source_vocabulary) + 2) {
    std::vector<uint64_t> all, some;
    for (size_t p = 0; p < pairs.size(); ++p) {
      for (const int32_t target : pairs[p].target) {
        for (const int32_t source : pairs[p].source) some.push_back(key(source, target));
        some.push_back(key(none(), target));
      }
      if (some.size() < kKeysAtATime && p + 1 < pairs.size()) continue;
      std::ranges::sort(some);
      some.erase(std::unique(some.begin(), some.end()), some.end());
      std::vector<uint64_t> together;
      std::ranges::set_union(all, some, std::back_inserter(together));
      all = std::move(together);
      some.clear();
    }
    for (const uint64_t one : all) {
      ++begin_[static_cast<size_t>(one >> 32) + 1];
      targets_.push_back(static_cast<int32_t>(one & 0xFFFFFFFF));
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    for (int32_t source = 0; source <= none(); ++source) {
      const size_t count = targets_of(source).size();
      probabilities_.insert(probabilities_.end(), count, 1 / static_cast<float>(std::max<size_t>(count, 1)));
    }
  }

  // One iteration of expectation maximisation.
  void improve(std::span<const TokenPair> pairs) {
    std::vector<double> counts(probabilities_.size());
    std::vector<size_t> places;
    for (const TokenPair& pair : pairs) {
      for (const int32_t target : pair.target) {
        places.assign(1, place(none(), target));
        for (const int32_t source : pair.source) places.push_back(place(source, target));
        double sum = 0;
        for (const size_t i : places) sum += static_cast<double>(probabilities_[i]);
        for (const size_t i : places) counts[i] += static_cast<double>(probabilities_[i]) / sum;
      }
    }
    for (int32_t source = 0; source <= none(); ++source) {
      const std::span<double> row(counts.data() + first(source), targets_of(source).size());
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);
      for (size_t i = 0; i < row.size(); ++i)
        probabilities_[first(source) + i] = static_cast<float>(row[i] / sum);
    }
  }

  // The most likely target tokens in descending order; ties by lower id.
  std::vector<int32_t> best(int32_t source, int64_t most) const {
    const std::span<const int32_t> targets = targets_of(source);
    std::vector<size_t> order;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (probabilities_[first(source) + i] >= kLeastProbability) order.push_back(i);
    }
    std::ranges::stable_sort(order, std::greater(),
                             [&](size_t i) { return probabilities_[first(source) + i]; });
    order.resize(std::min(order.size(), static_cast<size_t>(most)));
    std::vector<int32_t> result;
    for (const size_t i : order) result.push_back(targets[i]);
    return result;
  }

 private:
  static constexpr size_t kKeysAtATime = size_t{1} << 23;

  static uint64_t key(int32_t source, int32_t target) {
    return static_cast<uint64_t>(source) << 32 | static_cast<uint64_t>(target);
  }
  int32_t none() const { return static_cast<int32_t>(begin_.size()) - 2; }
  size_t first(int32_t source) const { return begin_[static_cast<size_t>(source)]; }
  std::span<const int32_t> targets_of(int32_t source) const {
    return {targets_.data() + first(source), first(source + 1) - first(source)};
  }
  size_t place(int32_t source, int32_t target) const {
    const std::span<const int32_t> targets = targets_of(source);
    return first(source) + static_cast<size_t>(std::ranges::lower_bound(targets, target) - targets.begin());
  }

  std::vector<size_t> begin_;  // start of each source token's row
  std::vector<int32_t> targets_;
  std::vector<float> probabilities_;
};

std::vector<int32_t> most_frequent(std::span<const TokenPair> pairs, int64_t vocabulary, int64_t most) {
  std::vector<int64_t> counts(static_cast<size_t>(vocabulary));
  for (const TokenPair& pair : pairs) {
    for (const int32_t id : pair.target) ++counts[static_cast<size_t>(id)];
  }
  std::vector<int32_t> order;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (counts[static_cast<size_t>(id)] > 0) order.push_back(id);
  }
  std::ranges::stable_sort(order, std::greater(),
                           [&](int32_t id) { return counts[static_cast<size_t>(id)]; });
  order.resize(std::min(order.size(), static_cast<size_t>(most)));
  return order;
}

Tensor tensor_of(const std::vector<int32_t>& ids) { return Tensor::from(ids, {std::ssize(ids)}); }

std::vector<int32_t> ids_of(const io::SafetensorsFile& file, const std::string& name) {
  const Tensor tensor = file.tensor(name);
  if (tensor.dtype() != DType::i32 || tensor.rank() != 1) {
    throw DataError(concat(file.path().string(), ": expected ", name, " to be i32 [ids], found ",
                           file.dtype(name), " ", tensor.shape()));
  }
  const auto values = tensor.values<int32_t>();
  return {values.begin(), values.end()};
}

}  // namespace

void ShortlistOptions::validate() const {
  const auto require = [](bool good, const char* field, const char* expected, int64_t found) {
    if (!good) throw UsageError(concat(field, ": expected ", expected, ", found ", found));
  };
  require(iterations >= 1, "iterations", "at least 1", iterations);
  require(per_token >= 1, "per_token", "at least 1", per_token);
  require(frequent >= 1, "frequent", "at least 1", frequent);
}

Shortlist Shortlist::learn(std::span<const TokenPair> pairs, int64_t source_vocabulary,
                           int64_t target_vocabulary, const ShortlistOptions& options) {
  options.validate();
  for (const int64_t vocabulary : {source_vocabulary, target_vocabulary}) {
    if (vocabulary < 1 || vocabulary > INT32_MAX - 2) {
      throw UsageError(concat("shortlist: vocabulary: expected 1 to 2^31 - 3 tokens, found ", vocabulary));
    }
  }
  if (pairs.empty()) throw DataError("shortlist: expected at least one sentence pair, found none");
  for (const TokenPair& pair : pairs) {
    require_ids("source", pair.source, source_vocabulary);
    require_ids("target", pair.target, target_vocabulary);
  }
  TranslationTable table(pairs, source_vocabulary);
  for (int i = 0; i < options.iterations; ++i) table.improve(pairs);
  Shortlist result;
  result.target_vocabulary_ = target_vocabulary;
  result.begin_.push_back(0);
  for (int32_t source = 0; source < source_vocabulary; ++source) {
    const std::vector<int32_t> best = table.best(source, options.per_token);
    result.lists_.insert(result.lists_.end(), best.begin(), best.end());
    result.begin_.push_back(static_cast<int32_t>(result.lists_.size()));
  }
  result.frequent_ = most_frequent(pairs, target_vocabulary, options.frequent);
  return result;
}

Shortlist Shortlist::load(const std::filesystem::path& path) {
  const io::SafetensorsFile file(path);
  Shortlist result;
  result.begin_ = ids_of(file, "begin");
  result.lists_ = ids_of(file, "lists");
  result.frequent_ = ids_of(file, "frequent");
  const std::vector<int32_t> sizes = ids_of(file, "target_vocabulary");
  const std::vector<int32_t>& begin = result.begin_;
  if (begin.empty() || begin.front() != 0 || begin.back() != std::ssize(result.lists_) ||
      !std::ranges::is_sorted(begin) || sizes.size() != 1) {
    throw DataError(
        concat(path.string(), ": expected contiguous lists in the shortlist, found gaps or overlaps"));
  }
  result.target_vocabulary_ = sizes.front();
  require_ids(path.c_str(), result.lists_, result.target_vocabulary_);
  require_ids(path.c_str(), result.frequent_, result.target_vocabulary_);
  return result;
}

void Shortlist::save(const std::filesystem::path& path) const {
  io::write_safetensors(path, {{"begin", tensor_of(begin_)},
                               {"lists", tensor_of(lists_)},
                               {"frequent", tensor_of(frequent_)},
                               {"target_vocabulary", tensor_of({static_cast<int32_t>(target_vocabulary_)})}});
}

std::vector<int32_t> Shortlist::allowed(Ids source, Ids always) const {
  std::vector<int32_t> result;
  std::ranges::copy_if(always, std::back_inserter(result),
                       [this](int32_t id) { return id >= 0 && id < target_vocabulary_; });
  result.insert(result.end(), frequent_.begin(), frequent_.end());
  for (const int32_t id : source) {
    if (id < 0 || id >= source_vocabulary()) continue;
    const auto token = static_cast<size_t>(id);
    result.insert(result.end(), lists_.begin() + begin_[token], lists_.begin() + begin_[token + 1]);
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace qkv::search
