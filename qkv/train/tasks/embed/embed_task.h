#pragma once
// Sentence embeddings as a training task: a text encoder whose pooled vectors are compared by their cosines
// (Reimers and Gurevych 2019). Exported as a folder of sentence-transformers.

#include <optional>

#include "qkv/models/text_encoder.h"
#include "qkv/pipelines/results.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/embed/embed_pairs.h"
#include "qkv/train/tasks/model_task.h"

namespace qkv::train {

enum class EmbedLoss {
  automatic,    // cosent for pairs with scores, contrastive for pairs without
  contrastive,  // contrastive_loss(): the other pairs of a batch are negatives
  cosent,       // cosent_loss(): ranks the pairs of a batch by their scores
  cosine_mse,   // cosine_mse_loss(): the score, divided by score_max, is the cosine
};

struct EmbedTaskOptions {
  EmbedLoss loss = EmbedLoss::automatic;
  float temperature = 0.05f;  // of contrastive and cosent
  bool symmetric = false;     // contrastive in both directions
  float score_max = 0;        // of cosine_mse: the score of cosine 1; 0: the largest of the training file
  int64_t batch_pairs = 32;   // pairs per batch
  int64_t max_length = 128;   // tokens of a sentence, special tokens included; the rest is cut off
  pipelines::Pooling pooling = pipelines::Pooling::mean;  // mean, cls, max or last_token
  bool normalize = true;  // exported vectors have length 1; does not affect training
  float dropout = -1;     // of embeddings, sublayers and attention weights; below 0: those of the folder
  float drop_path = 0;    // nn::StackOptions::drop_path

  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

void list_settings(Settings& all, EmbedTaskOptions& options);

// Owns model and data.
class EmbedTask : public ModelTask<models::TextEncoder> {
 public:
  struct Inputs {
    StartFolder start;
    EmbedTaskOptions options;
    EmbedPairs train;
    std::optional<EmbedPairs> valid = {};
    std::vector<Field> fields = {};  // settings of the job
  };
  // Throws UsageError for invalid options, and for a loss that needs scores without them.
  explicit EmbedTask(Inputs inputs);

  TaskInfo info() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  // "spearman" and "pearson" of cosines and scores; for pairs without scores "accuracy": the share of first
  // sentences whose own second sentence is the most similar one of a batch.
  std::vector<Metric> metrics() const override;
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  void begin(const std::filesystem::path& folder) const override;
  void export_model(const std::filesystem::path& folder) const override;

 private:
  const StartFolder* start_folder() const override { return &inputs_.start; }
  std::vector<Field> data_fields() const override;
  std::string adapter_type() const override { return "FEATURE_EXTRACTION"; }
  // The loss of n pairs of vectors, as a mean over the pairs times n.
  Variable pair_loss(EmbedLoss kind, const Variable& first, const Variable& second,
                     const EmbedBatch& batch) const;

  Inputs inputs_;
  EmbedLoss loss_, valid_loss_;  // not automatic
  float score_max_;              // of cosine_mse
};

// The vectors of sequences from hidden states [tokens, d_model]: [sequences, d_model]. Throws
// UsageError for another pooling than mean, cls, max and last_token.
Variable pooled_rows(const Variable& hidden, const Offsets& offsets, pipelines::Pooling pooling);

// The vectors of all sentences of the pairs, [2 pairs, d_model] on the host, in the order of
// EmbedPairs::sentence(). Nothing if the request's stop was set before the end.
std::optional<Tensor> sentence_vectors(const models::TextEncoder& model, const EmbedPairs& pairs,
                                       pipelines::Pooling pooling, const EvaluationRequest& request = {});

}  // namespace qkv::train
