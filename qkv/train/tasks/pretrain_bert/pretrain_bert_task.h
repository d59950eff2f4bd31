#pragma once
// BERT's pretraining (Devlin et al. 2019, section 3.1): masked language modelling and next-sentence
// prediction.

#include <optional>

#include "qkv/data/length_warmup.h"
#include "qkv/data/masking.h"
#include "qkv/data/segments.h"
#include "qkv/models/text_encoder.h"
#include "qkv/train/task.h"
#include "qkv/train/tasks/model_task.h"
#include "qkv/train/tasks/pretrain_bert/bert_evaluation.h"
#include "qkv/train/tasks/pretrain_bert/bert_tokenizer.h"

namespace qkv::train {

struct PretrainBertOptions {
  int64_t batch_tokens = 4096;  // tokens per batch, special tokens included
  // Inputs. segments.pairs is set by no_nsp.
  data::SegmentOptions segments;
  data::LengthWarmup length_warmup;  // from random weights and with `from`; its pairs: segments.pairs_from
  bool no_nsp = false;               // masked language modelling alone, without next-sentence prediction
  data::MaskingOptions masking;

  // The options of the inputs, with `pairs`.
  data::SegmentOptions segment_options() const;
  // Throws UsageError naming the field, what was expected and what was found.
  void validate() const;
};

void list_settings(Settings& all, PretrainBertOptions& options);

struct PretrainBertBatch : Batch {
  data::MaskedRows rows;
};

// Owns model, tokenizer and data. The loss is the mean over the masked tokens of -log p[token], plus the mean
// over the pairs of -log p[follows or not]; in a step at the end of a warm-up, inputs that are no pairs count
// as pairs with a loss of 0. BatchSize: items are inputs, labels masked tokens.
class PretrainBertTask : public ModelTask<models::TextEncoder> {
 public:
  struct Inputs {
    models::TextEncoderConfig config;  // with the heads: see with_pretraining_heads()
    PretrainBertOptions options;
    BertTokenizer tokenizer;
    data::SentenceDocuments train;
    std::optional<data::SentenceDocuments> valid = {};
    std::optional<StartFolder> start = {};  // of a BERT; none: random weights
    std::vector<Field> fields = {};         // settings of model, tokenizer and data
  };
  // Throws UsageError for invalid options or an invalid configuration.
  explicit PretrainBertTask(Inputs inputs);

  TaskInfo info() const override;
  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override;
  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override;
  std::vector<Metric> metrics() const override;
  std::optional<Evaluation> evaluate(const EvaluationRequest& request) const override;
  void begin(const std::filesystem::path& folder) const override;
  void export_model(const std::filesystem::path& folder) const override;
  bool is_head(const std::string& parameter) const override;

 private:
  const StartFolder* start_folder() const override { return inputs_.start ? &*inputs_.start : nullptr; }
  void initialise_randomly(uint64_t seed) override;
  std::vector<Field> data_fields() const override;

  Inputs inputs_;
};

// The configuration with the heads to train: BertForPreTraining, or BertForMaskedLM without next-sentence
// prediction.
models::TextEncoderConfig with_pretraining_heads(models::TextEncoderConfig config, bool next_sentence);

}  // namespace qkv::train
