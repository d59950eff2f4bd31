// qkv train embed

#include "qkv/train/tasks/embed/embed.h"

#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/training_task.h"

namespace qkv::apps {
namespace {

constexpr const char* kEmbedFooter = R"(Example:
  qkv train embed --from all-MiniLM-L6-v2 --train train.tsv --valid dev.tsv --out model --max-epochs 2
  qkv train embed --from bert --train pairs.tsv --batch-pairs 64 --out model --max-minutes 20
  qkv evaluate embed model --test test.tsv
  qkv embed model < sentences.txt

DIR is a folder of sentence-transformers, which that package and qkv embed open with the same vectors: the
best by Spearman's correlation of cosines and scores (pairs without scores: by the share of sentences that
find their own among a batch). Ctrl-C saves and stops; `qkv train --resume DIR` continues to the same bits as
an uninterrupted run. The curves: DIR/curve.svg and DIR/log.jsonl, or `tensorboard --logdir DIR/runs`.)";

nlohmann::json sentences(const data::TokenRows& rows, int64_t begin, int64_t end) {
  nlohmann::json result = nlohmann::json::array();
  for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
    result.push_back(
        std::vector<int32_t>(rows.ids.begin() + rows.offsets[i], rows.ids.begin() + rows.offsets[i + 1]));
  }
  return result;
}

}  // namespace

TrainingTask embed_task() {
  return {.name = "embed",
          .description = "Train sentence embeddings on pairs of sentences, starting from a text encoder",
          .footer = kEmbedFooter,
          .presets = {},
          .preset = "",
          .make_job = [] { return std::make_unique<train::EmbedJob>(); },
          .batch_json =
              [](const train::Batch& batch) {
                const auto& own = dynamic_cast<const train::EmbedBatch&>(batch);
                nlohmann::json json{{"first", sentences(own.rows, 0, own.size.items)},
                                    {"second", sentences(own.rows, own.size.items, 2 * own.size.items)}};
                if (!own.scores.empty()) json["scores"] = own.scores;
                return json;
              },
          .add_evaluation = add_embed_evaluation};
}

}  // namespace qkv::apps
