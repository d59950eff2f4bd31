#include "qkv/pipelines/rerank.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/pipelines/row_results.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

namespace qkv::pipelines {
namespace {

// Whether the activation of a cross-encoder is the identity. `field`: "torch.nn.modules.linear.Identity".
bool is_identity(const models::ConfigReader& reader, const char* field) {
  const std::string path = reader.string(field, "Sigmoid"), name = path.substr(path.rfind('.') + 1);
  if (name != "Sigmoid" && name != "Identity") reader.reject(field, "Sigmoid or Identity");
  return name == "Identity";
}

bool has_raw_scores(const std::filesystem::path& folder) {
  constexpr const char* kFile = "config.json";
  const models::ConfigReader config(models::read_model_file(folder, kFile).value(),
                                    models::model_file_name(folder, kFile));
  if (config.has("sentence_transformers"))
    return is_identity(config.object("sentence_transformers"), "activation_fn");
  return is_identity(config, "sbert_ce_default_activation_function");
}

}  // namespace

Reranker::Reranker(std::shared_ptr<const LoadedTextEncoder> encoder) : TextClassifier(std::move(encoder)) {
  require_head(model().config().labels.size() == 1, this->encoder()->folder, "a reranking (of one label)");
}

Reranker::Reranker(const std::filesystem::path& folder, const models::LoadOptions& options)
    : Reranker(open_text_encoder(folder, options)) {}

RerankOptions Reranker::default_options() const {
  const std::filesystem::path& folder = encoder()->folder;
  return {.raw = has_raw_scores(folder),
          .max_length = max_text_length(folder, model().config(), tokenizer())};
}

RerankRequest Reranker::prepare(std::string_view query, std::string_view text,
                                const RerankOptions& options) const {
  text::EncodeOptions reading;
  if (options.max_length) reading.truncation = text::Truncation{.max_length = *options.max_length};
  return {{TextClassifier::prepare(query, text, reading)}, options.raw};
}

Reranked Reranker::finish(const RerankRequest& request, const Tensor& hidden) const {
  const auto activation = request.raw ? models::ProblemType::regression : models::ProblemType::multi_label;
  return {.score = probabilities_of(hidden, activation).values()[0], .error = {}};
}

std::vector<Reranked> Reranker::operator()(const std::string& query, std::span<const std::string> texts,
                                           const RerankOptions& options, int64_t batch_tokens) const {
  return run(
      texts, batch_tokens, [&](const std::string& text) { return prepare(query, text, options); },
      [this](const RerankRequest& request, const Tensor& hidden) { return finish(request, hidden); });
}

std::vector<size_t> by_score(std::span<const Reranked> results) {
  std::vector<size_t> order;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].error.empty()) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return results[i].score; });
  return order;
}

}  // namespace qkv::pipelines
