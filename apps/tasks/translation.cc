// qkv train translation

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/translation/translation.h"

namespace qkv::apps {
namespace {

constexpr FieldFlag kTranslationFlags[] = {
    {"--src", "data.source", "FILE", "Training text, one sentence per line (default: the resumed run's)"},
    {"--tgt", "data.target", "FILE", "Its translation, line by line (default: the resumed run's)"},
    {"--valid-src", "data.valid_source", "FILE", "Validation text (default: none)"},
    {"--valid-tgt", "data.valid_target", "FILE", "Its translation (default: none)"},
    {"--from", "model.from", "DIR",
     "Folder of an encoder-decoder (Marian, T5) to start from, with its tokenizer (default: random weights)"},
    {"--skip-bad-utf8", "data.skip_bad_utf8", "", "Skip lines that are not UTF-8"},
    {"--max-length", "train.max_length", "TOKENS", "Skip pairs with a longer side"},
    {"--vocab", "vocabulary.model", "FILE", "SentencePiece model to use (default: one is trained)"},
    {"--target-vocab", "vocabulary.target_model", "FILE",
     "Likewise for the target, with --separate-vocab (default: one is trained)"},
    {"--vocab-size", "vocabulary.size", "N",
     "Size of the vocabulary to train; smaller if the text yields fewer pieces"},
    {"--vocab-lines", "vocabulary.lines", "LINES",
     "Lines to train the vocabulary on, a random sample of both files; 0: all"},
    {"--vocab-kind", "vocabulary.kind", "unigram|bpe", "Kind of the vocabulary to train"},
    {"--separate-vocab", "vocabulary.separate", "", "Train one vocabulary per language"},
    {"--byte-fallback", "vocabulary.byte_fallback", "", "Encode rare characters as bytes, not <unk>"},
    {"--source-lang", "vocabulary.source_lang", "CODE",
     "Language of the source, such as en (default: unknown)"},
    {"--target-lang", "vocabulary.target_lang", "CODE",
     "Language of the target, such as de (default: unknown)"},
    {"--batch-tokens", "train.batch_tokens", "TOKENS", "Source and target tokens per batch"},
    {"--label-smoothing", "train.label_smoothing", "SHARE", "Label smoothing; 0: none"},
    {"--dropout", "model.dropout", "RATE", "Dropout after each sublayer; 0: none"},
};
constexpr FieldFlag kTranslationRunFlags[] = {
    {"--bleu-every", "train.bleu_every", "N",
     "Validations between BLEU scores; 0: no BLEU, the loss selects the best model"},
    {"--bleu-sentences", "train.bleu_sentences", "N", "Translate the first N sentences for BLEU; 0: all"},
};

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
          .flags = kTranslationFlags,
          .run_flags = kTranslationRunFlags,
          .make_job = [] { return std::make_unique<train::TranslationJob>(); },
          .batch_json =
              [](const train::Batch& batch) {
                const auto& rows = dynamic_cast<const train::TranslationBatch&>(batch).rows;
                return nlohmann::json{{"source", sentences(rows.source)}, {"target", sentences(rows.labels)}};
              },
          .add_evaluation = add_translation_evaluation};
}

}  // namespace qkv::apps
