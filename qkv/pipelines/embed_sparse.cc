#include "qkv/pipelines/embed.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

namespace qkv::pipelines {
namespace {

// log(1 + z) of a z that is not negative.
double saturated(double z, bool twice) {
  const double once = std::log1p(z);
  return twice ? std::log1p(once) : once;
}

// The weights of all vocabulary tokens, from logits [tokens, vocabulary] that come some rows at a time. The
// logarithm grows with its argument: that of the largest logit is the maximum of the logarithms.
class Weights {
 public:
  Weights(int64_t vocabulary, const SparseEmbedOptions& options)
      : options_(options), pooled_(static_cast<size_t>(vocabulary)) {}

  void add(const Tensor& logits) {
    parallel_for(logits.cols(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < logits.rows(); ++r) {
        const auto row = row_of(logits, r);
        for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) {
          if (options_.pooling == SparsePooling::max) {
            pooled_[j] = std::max(pooled_[j], double{row[j]});
          } else if (row[j] > 0) {
            pooled_[j] += saturated(double{row[j]}, options_.log_twice);
          }
        }
      }
    });
  }

  std::vector<float> values() const {
    const bool summed = options_.pooling == SparsePooling::sum;
    std::vector<float> values;
    for (const double pooled : pooled_)
      values.push_back(static_cast<float>(summed ? pooled : saturated(pooled, options_.log_twice)));
    return values;
  }

 private:
  const SparseEmbedOptions& options_;
  std::vector<double> pooled_;
};

}  // namespace

SparseEmbedder::SparseEmbedder(std::shared_ptr<const LoadedTextEncoder> encoder)
    : TextEncoderPipeline(std::move(encoder)) {
  require_head(model().config().masked_language, this->encoder()->folder, "a masked-language");
}

SparseEmbedder::SparseEmbedder(const std::filesystem::path& folder, const models::LoadOptions& options)
    : SparseEmbedder(open_text_encoder(folder, options)) {}

SparseEmbedOptions SparseEmbedder::default_options() const {
  return sparse_encoder_options(encoder()->folder, model(), tokenizer());
}

SparseEmbedRequest SparseEmbedder::prepare(std::string_view text, const SparseEmbedOptions& options) const {
  if (options.top.value_or(1) < 1) throw UsageError(concat("top: expected at least 1, found ", *options.top));
  return {{read_after(options.prompt, text, options.max_length)}, options};
}

SparseEmbedded SparseEmbedder::finish(const SparseEmbedRequest& request, const Tensor& hidden) const {
  constexpr int64_t kRows = 64;  // of logits that exist at a time
  const models::TextEncoderConfig& config = model().config();
  require_encoded(request, hidden, config.embedding.d_model);
  Weights weights(config.vocabulary, request.options);
  for (int64_t begin = 0; begin < hidden.rows(); begin += kRows) {
    const Tensor rows = hidden.slice_rows(begin, std::min(kRows, hidden.rows() - begin));
    weights.add(finite_logits(model().masked_language_logits(rows)));
  }
  const std::vector<float> values = weights.values();
  const int64_t positive = std::ranges::count_if(values, [](float weight) { return weight > 0; });
  SparseEmbedded result;
  for (const size_t j :
       largest(values, static_cast<size_t>(std::min(positive, request.options.top.value_or(positive))))) {
    const auto id = static_cast<int32_t>(j);
    result.weights.push_back({id, std::string(tokenizer().token(id).value_or("")), values[j]});
  }
  return result;
}

std::vector<SparseEmbedded> SparseEmbedder::operator()(std::span<const std::string> texts,
                                                       const SparseEmbedOptions& options,
                                                       int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(text, options); },
      [this](const SparseEmbedRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

}  // namespace qkv::pipelines
