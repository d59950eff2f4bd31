#pragma once
// Translation as a training task: an encoder-decoder, sentence pairs, label-smoothed cross-entropy, BLEU.

#include <optional>

#include "qkv/data/translation_rows.h"
#include "qkv/models/transformer.h"
#include "qkv/text/translation_tokenizer.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/model_task.h"
#include "qkv/train/tasks/translation/translation_validation.h"

namespace qkv::train {

struct TranslationOptions {
  int64_t batch_tokens = 4096;   // source and target tokens per batch
  int64_t max_length = 512;      // tokens of a pair's longer side; longer pairs are skipped and counted
  int64_t sort_window = 1;       // window of pairs sorted by length: see data::BatchOptions
  float label_smoothing = 0.1f;  // of the objective (Szegedy et al. 2016)

  // Validation metrics: "bleu" (0 to 1), which selects the best weights, and "perplexity".
  int64_t bleu_every = 1;  // validations per BLEU evaluation; 0: no BLEU, the loss selects the best weights
  int64_t bleu_sentences = 0;  // number of validation sentences to translate; 0: all
  int64_t bleu_beam = 1;       // 1: greedy

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

void list_settings(Settings& all, TranslationOptions& options);

struct TranslationBatch : Batch {
  data::TranslationRows rows;
};

// Owns model, tokenizer and data.
class TranslationTask : public ModelTask<models::Transformer> {
 public:
  struct Inputs {
    models::TransformerConfig config;  // see complete_config(); of `start`, the folder's
    TranslationOptions options;
    text::TranslationTokenizer tokenizer;
    data::TokenStore train;
    std::optional<ValidationSet> valid = {};
    std::optional<StartFolder> start = {};  // of the weights and the tokenizer; none: random weights
    std::vector<Field> fields = {};         // settings of tokenizer and stores
  };
  // Throws UsageError for invalid options or an invalid configuration.
  explicit TranslationTask(Inputs inputs);

  TaskInfo info() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override;
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  int64_t items_within(double seconds, const EvaluationRequest& request) const override;
  double evaluation_passes() const override;
  void begin(const std::filesystem::path& folder) const override;
  // With a start folder: of its family, with its generation options, as begin() copied them to the folder.
  void export_model(const std::filesystem::path& folder) const override;

 private:
  bool computes_bleu(const EvaluationRequest& request) const;
  // Of the first sentences, this many; 0: all.
  std::optional<double> bleu(int64_t sentences, const EvaluationRequest& request) const;
  const StartFolder* start_folder() const override { return inputs_.start ? &*inputs_.start : nullptr; }
  void initialise_randomly(uint64_t seed) override;
  std::vector<Field> data_fields() const override;
  std::string adapter_type() const override { return "SEQ_2_SEQ_LM"; }

  Inputs inputs_;
  text::SpecialIds special_;
};

// The configuration completed with the tokenizer's vocabulary sizes and special ids. Throws UsageError for
// three-way tying with separate vocabularies, and for an invalid configuration.
models::TransformerConfig complete_config(models::TransformerConfig config,
                                          const text::TranslationTokenizer& tokenizer);

}  // namespace qkv::train
