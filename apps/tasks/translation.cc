// qkv train translation

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/translation/translation.h"

namespace qkv::apps {
namespace {

constexpr const char* kTranslationFooter = R"(Example:
  qkv train translation --src train.en --tgt train.de --valid-src val.en --valid-tgt val.de \
      --out model --preset small --dropout 0.3 --max-minutes 60
  qkv translate model "A man sleeps."
  qkv train translation --src train.en --tgt train.de --from opus-mt-en-de --out tuned --max-epochs 2

With --from, model and tokenizer are the folder's, which may be of Marian, T5 or qkv, and so is the format of
DIR; only rates of dropout may be set. Defaults are then those of fine-tuning: a learning rate of 5e-5 that
falls linearly to 0, and 3 epochs.
Lines that are empty (on either side), or over --max-length tokens, are left out and counted. Bytes that are
not UTF-8 are an error naming file and line, or counted and left out with --skip-bad-utf8. Files with unequal
numbers of lines are an error. Ctrl-C saves and stops; `qkv train --resume DIR` continues to the same bits as
an uninterrupted run. DIR is a model folder (the best by validation BLEU, where BLEU is equal by loss) that
qkv translate and Hugging Face transformers open. The curves: DIR/curve.svg and DIR/log.jsonl, or
`tensorboard --logdir DIR/runs`.)";

// Token ids by sentence.
nlohmann::json sentences(const data::TokenRows& rows) {
  nlohmann::json result = nlohmann::json::array();
  for (size_t i = 0; i + 1 < rows.offsets.size(); ++i) {
    result.push_back(
        std::vector<int32_t>(rows.ids.begin() + rows.offsets[i], rows.ids.begin() + rows.offsets[i + 1]));
  }
  return result;
}

}  // namespace

TrainingTask translation_task() {
  return {.name = "translation",
          .description = "Train a translation Transformer on two files of parallel lines",
          .footer = kTranslationFooter,
          .presets = models::preset_names(),
          .preset = "small",
          .make_job = [] { return std::make_unique<train::TranslationJob>(); },
          .batch_json =
              [](const train::Batch& batch) {
                const auto& rows = dynamic_cast<const train::TranslationBatch&>(batch).rows;
                return nlohmann::json{{"source", sentences(rows.source)}, {"target", sentences(rows.labels)}};
              },
          .add_evaluation = add_translation_evaluation};
}

}  // namespace qkv::apps
