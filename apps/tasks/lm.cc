// qkv train lm

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/lm/lm.h"

namespace qkv::apps {
namespace {

constexpr const char* kLmFooter = R"(Example:
  qkv train lm --train books.txt --valid valid.txt --out model --preset mini --max-minutes 60
  qkv train lm --train play.txt --tokenizer chars --preset characters --out model --max-minutes 45
  qkv generate model "Once upon a time"

A document is a sequence of lines that ends at a blank line (--documents). An end token follows each document;
documents longer than --context are cut at other places in each epoch. There is no padding, and no attention
across documents. With --documents none, the text is one stream, line ends included, without end tokens.
Without --valid, the last --valid-share of the text is held out; the tokenizer is not trained on it. Ctrl-C
saves and stops; `qkv train --resume DIR` continues to the same bits as an uninterrupted run. DIR is a
GPT2LMHeadModel or LlamaForCausalLM folder (the best by validation perplexity) that qkv generate, qkv score
and Hugging Face transformers open.)";

// Token ids by sequence: the inputs and the last label.
nlohmann::json sequences(const data::WindowRows& rows) {
  nlohmann::json result = nlohmann::json::array();
  const std::vector<int32_t>& offsets = rows.inputs.offsets;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    std::vector<int32_t> ids(rows.inputs.ids.begin() + offsets[i], rows.inputs.ids.begin() + offsets[i + 1]);
    ids.push_back(rows.labels[static_cast<size_t>(offsets[i + 1]) - 1]);
    result.push_back(std::move(ids));
  }
  return result;
}

}  // namespace

TrainingTask lm_task() {
  return {
      .name = "lm",
      .description = "Train a language model (GPT-2's or LLaMA's blocks) on a text file",
      .footer = kLmFooter,
      .presets = train::lm_preset_names(),
      .preset = "mini",
      .make_job = [] { return std::make_unique<train::LmJob>(); },
      .batch_json =
          [](const train::Batch& batch) {
            return nlohmann::json{{"sequences", sequences(dynamic_cast<const train::LmBatch&>(batch).rows)}};
          },
      .add_evaluation = add_lm_evaluation};
}

}  // namespace qkv::apps
