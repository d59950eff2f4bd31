// qkv train tag, qkv evaluate tag

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tasks/evaluations.h"
#include "apps/tasks/labels.h"
#include "apps/training_task.h"
#include "qkv/train/tasks/labels/tag.h"

namespace qkv::apps {
namespace {

constexpr const char* kTagFooter = R"(Example:
  qkv train tag --train train.conll --valid dev.conll --from all-MiniLM-L6-v2 --out model
  qkv train tag --train en-ud-train.conllu --word-column 2 --tag-column 4 --out model
  qkv tag model "Wolfgang lives in Berlin."

The files have a word and its tag in each line, in columns separated by tabs or spaces, and a blank line
after each sentence; comments, multiword tokens and empty nodes of CoNLL-U are skipped. Or JSON lines:
{"words": [...], "tags": [...]}. Words are joined by spaces; the first token of a word has its tag. A word
that is beyond the model's limit counts as wrong. With --from, defaults are those of fine-tuning: a learning
rate of 5e-5 that falls linearly, 3 epochs. The sizes and the tokenizer are the folder's. DIR is a model folder
that qkv tag and Hugging Face transformers open.)";

struct TagArguments {
  LabelEvaluation common{{}, models::ClassificationTarget::tokens};
  data::TaggedFormat format;
};

}  // namespace

void add_tag_evaluation(Command& group) {
  Command* command =
      add_command(group, "tag",
                  "Tag the words of tagged sentences. Prints the accuracy of words, F1 of each tag\n"
                  "and the confusion matrix.",
                  "qkv evaluate tag model --test dev.conll --json");
  const auto arguments = std::make_shared<TagArguments>();
  add_evaluation_arguments(*command, arguments->common, "FILE",
                           "Test data, in the format of the training data");
  add_option(*command, "--word-column", arguments->format.word_column, "N", "Column of the words, from 1")
      ->check(at_least(1));
  add_option(*command, "--tag-column", arguments->format.tag_column, "N",
             "Column of the tags, from 1; 0: the last")
      ->check(at_least(0));
  command->callback([arguments] {
    const data::TaggedSentences sentences =
        data::read_tagged_sentences(arguments->common.test, arguments->format);
    evaluate_labels(arguments->common, [&](const auto& tokenizer, const auto& labels, int64_t max_length) {
      return train::encode_sentences(sentences, tokenizer, labels, max_length);
    });
  });
}

TrainingTask tag_task() {
  return {.name = "tag",
          .description = "Train a tagger of words, or fine-tune an encoder folder as one",
          .footer = kTagFooter,
          .presets = models::shape_preset_names(),
          .preset = "mini",
          .make_job = [] { return std::make_unique<train::TagJob>(); },
          .batch_json = label_batch_json,
          .add_evaluation = add_tag_evaluation};
}

}  // namespace qkv::apps
