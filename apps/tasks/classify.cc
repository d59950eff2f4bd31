// qkv train classify, qkv evaluate classify

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/tasks/labels.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/labels/classify.h"

namespace qkv::apps {
namespace {

constexpr const char* kClassifyFooter = R"(Example:
  qkv train classify --train train.tsv --valid dev.tsv --from all-MiniLM-L6-v2 --out model
  qkv evaluate classify model --test test.tsv
  qkv classify model "A charming film."

A line of the files is label<TAB>text, label<TAB>text<TAB>second text, "label text", or a JSON object with
"label", "text" and, for pairs, "text_pair"; files may be compressed by gzip. Blank lines are skipped. The
labels are those of the training data. With --from, defaults are those of fine-tuning: a learning rate of
5e-5 that falls linearly, 3 epochs. The sizes and the tokenizer are the folder's; its classifier is kept if it
has the labels. DIR is a model folder that qkv classify and Hugging Face transformers open.)";

struct ClassifyArguments {
  LabelEvaluation common;
  data::TextFormat format = data::TextFormat::automatic;
};

}  // namespace

void add_classify_evaluation(Command& group) {
  Command* command =
      add_command(group, "classify",
                  "Classify labelled texts. Prints accuracy, F1, Matthews' correlation and the\n"
                  "confusion matrix; for predicted numbers Spearman's and Pearson's correlations.",
                  "qkv evaluate classify model --test dev.tsv --json");
  const auto arguments = std::make_shared<ClassifyArguments>();
  add_evaluation_arguments(*command, arguments->common, "FILE",
                           "Test data, in the format of the training data");
  add_choice(*command, "--format", arguments->format,
             {{"auto", data::TextFormat::automatic},
              {"tab", data::TextFormat::tab},
              {"space", data::TextFormat::space},
              {"json", data::TextFormat::json}},
             "As of qkv train classify");
  command->callback([arguments] {
    const data::LabelledTexts texts = data::read_labelled_texts(arguments->common.test, arguments->format);
    evaluate_labels(arguments->common, [&](const auto& tokenizer, const auto& labels, int64_t max_length) {
      return train::encode_texts(texts, tokenizer, labels, max_length);
    });
  });
}

TrainingTask classify_task() {
  return {.name = "classify",
          .description = "Train a classifier of texts, or fine-tune an encoder folder as one",
          .footer = kClassifyFooter,
          .presets = models::shape_preset_names(),
          .preset = "mini",
          .make_job = [] { return std::make_unique<train::ClassifyJob>(); },
          .batch_json = label_batch_json,
          .add_evaluation = add_classify_evaluation};
}

}  // namespace qkv::apps
