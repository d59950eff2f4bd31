#pragma once
// Language modelling as a training task: a decoder that predicts the next token of documents.

#include <optional>

#include "qkv/data/token_documents.h"
#include "qkv/models/language_model.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/lm/lm_evaluation.h"
#include "qkv/train/tasks/lm/lm_tokenizer.h"
#include "qkv/train/tasks/model_task.h"

namespace qkv::train {

struct LmOptions {
  int64_t batch_tokens = 4096;
  // Of models with experts: the coefficient of the balancing loss (RouterBalance); 0: none.
  float balance = 0.01f;
  int64_t samples = 1;  // lines of generated text at each validation; 0: none

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

void list_settings(Settings& all, LmOptions& options);

struct LmBatch : Batch {
  data::WindowRows rows;
};

// Owns model, tokenizer and data. Metrics: "perplexity", which selects the best weights, and "bits_per_byte".
class LmTask : public ModelTask<models::LanguageModel> {
 public:
  struct Inputs {
    models::LanguageModelConfig config;  // with the tokenizer's vocabulary and special tokens
    std::string family = "gpt2";         // of the exported folder: "gpt2", "llama"
    LmOptions options;
    LmTokenizer tokenizer;
    data::DocumentBounds bounds = data::DocumentBounds::blank_lines;
    data::TokenDocuments train;
    std::optional<data::TokenDocuments> valid = {};
    std::optional<StartFolder> start = {};  // none: random weights
    std::vector<Field> fields = {};         // settings of model, tokenizer and data
  };
  // Throws UsageError for invalid options, an invalid configuration or one that the family cannot express.
  explicit LmTask(Inputs inputs);

  TaskInfo info() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override;
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  void begin(const std::filesystem::path& folder) const override;
  void export_model(const std::filesystem::path& folder) const override;

 private:
  const StartFolder* start_folder() const override { return inputs_.start ? &*inputs_.start : nullptr; }
  std::vector<Field> data_fields() const override;
  std::string adapter_type() const override { return "CAUSAL_LM"; }
  std::vector<int32_t> sample_prompt() const;

  Inputs inputs_;
};

}  // namespace qkv::train
