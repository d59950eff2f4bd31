// qkv train pretrain-bert

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/pretrain_bert/pretrain_bert.h"

namespace qkv::apps {
namespace {

constexpr const char* kPretrainBertFooter = R"(Example:
  qkv train pretrain-bert --train books.txt --valid more_books.txt --out bert \
      --length-warmup 16:700,32:300,64:300 --batch-tokens 2048 --max-minutes 60
  qkv fill-mask bert "He opened the [MASK]."
  qkv train pretrain-bert --train law.txt --from bert-base-uncased --out law-bert --max-minutes 60

A model is BERT with the heads of its pretraining: it predicts masked tokens, and whether the second segment
of an input follows the first. Without blank lines there is no other document to take a segment from, which
is an error unless --no-nsp is given; inputs then hold whole sentences of one document. Masks change with each
epoch. Small models need --length-warmup to learn the order of tokens. Ctrl-C saves and stops; `qkv train
--resume DIR` continues to the same bits as an uninterrupted run. DIR is a model folder (the best by the sum
of both validation losses) that qkv fill-mask and Hugging Face transformers open. The curves: DIR/curve.svg
and DIR/log.jsonl, or `tensorboard --logdir DIR/runs`.)";

nlohmann::json bert_batch_json(const train::Batch& batch) {
  const data::MaskedRows& rows = dynamic_cast<const train::PretrainBertBatch&>(batch).rows;
  nlohmann::json inputs = nlohmann::json::array(), types = inputs, positions = inputs;
  for (size_t i = 0; i + 1 < rows.inputs.offsets.size(); ++i) {
    const auto begin = rows.inputs.offsets[i], end = rows.inputs.offsets[i + 1];
    inputs.push_back(std::vector<int32_t>(rows.inputs.ids.begin() + begin, rows.inputs.ids.begin() + end));
    types.push_back(std::vector<int32_t>(rows.types.begin() + begin, rows.types.begin() + end));
    if (!rows.positions.empty())
      positions.push_back(std::vector<int32_t>(rows.positions.begin() + begin, rows.positions.begin() + end));
  }
  // `masked` counts tokens from the beginning of the batch.
  return {{"inputs", inputs},      {"types", types},        {"positions", positions},
          {"masked", rows.masked}, {"labels", rows.labels}, {"not_next", rows.not_next}};
}

}  // namespace

TrainingTask pretrain_bert_task() {
  return {.name = "pretrain-bert",
          .description = "Pretrain a BERT encoder on a text of documents",
          .footer = kPretrainBertFooter,
          .presets = models::shape_preset_names(),
          .preset = "mini",
          .make_job = [] { return std::make_unique<train::PretrainBertJob>(); },
          .batch_json = bert_batch_json,
          .add_evaluation = add_pretrain_bert_evaluation};
}

}  // namespace qkv::apps
