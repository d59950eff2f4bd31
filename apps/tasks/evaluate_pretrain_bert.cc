// qkv evaluate pretrain-bert

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/tasks/evaluations.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/train/tasks/pretrain_bert/bert_evaluation.h"

namespace qkv::apps {
namespace {

struct EvaluatePretrainBertArguments : EvaluationArguments {
  std::optional<int64_t> max_length;
  int64_t batch_tokens = 4096;
  bool halves = false, whole_words = false;
};

data::SegmentOptions segment_options(const EvaluatePretrainBertArguments& arguments,
                                     const models::TextEncoderConfig& config) {
  constexpr int64_t kUnlimited = 512;  // for a model without a maximum
  const int64_t most = config.max_positions.value_or(kUnlimited);
  data::SegmentOptions segments{.max_length = arguments.max_length.value_or(most),
                                .pairs = config.next_sentence,
                                .halves = arguments.halves};
  if (segments.max_length > most || segments.max_length < segments.special_tokens() + 2) {
    throw UsageError(concat("--max-length: expected ", segments.special_tokens() + 2, " to ", most,
                            ", the model's maximum, found ", segments.max_length));
  }
  return segments;
}

// Without the advice for training.
void require_pairs(const data::DocumentCounts& counts, const std::string& file) {
  try {
    data::require_documents_for_pairs(counts, file);
  } catch (const DataError& error) {
    const std::string message = error.what();
    throw DataError(message.substr(0, message.rfind("; --no-nsp")) + "; the model has that head");
  }
}

void evaluate(const EvaluatePretrainBertArguments& arguments) {
  const auto opened = pipelines::open_text_encoder(arguments.model, arguments.load);
  const models::TextEncoder& model = *opened->model;
  if (!model.config().masked_language) {
    throw DataError(
        concat(arguments.model, "/config.json: expected a model with a masked-language head, found none"));
  }
  const data::SegmentOptions segments = segment_options(arguments, model.config());
  const auto vocabulary = data::MaskingVocabulary::of(opened->tokenizer, arguments.model);
  const data::SentenceDocuments text = data::read_sentence_documents(
      arguments.test, opened->tokenizer, {.max_tokens = segments.max_length - segments.special_tokens()});
  if (segments.pairs) require_pairs(text.counts(), arguments.test);
  const auto started = std::chrono::steady_clock::now();
  const train::PretrainingScores scores =
      train::evaluate_pretraining(model, text, segments, vocabulary, {.whole_words = arguments.whole_words},
                                  arguments.batch_tokens)
          .value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  say(concat(text.summary(), " in ", fixed(seconds, 2), " s"));
  if (arguments.json) {
    nlohmann::ordered_json result{{"masked_loss", scores.masked_loss},
                                  {"masked_accuracy", scores.masked_accuracy},
                                  {"masked_tokens", scores.masked}};
    if (segments.pairs) {
      result["nsp_loss"] = scores.nsp_loss;
      result["nsp_accuracy"] = scores.nsp_accuracy;
      result["pairs"] = scores.pairs;
    }
    result["unigram_entropy"] = text.unigram_entropy();
    result["documents"] = text.documents();
    result["sentences"] = text.sentences();
    result["tokens"] = text.tokens();
    result["seconds"] = seconds;
    std::cout << result.dump(2) << '\n';
    return;
  }
  std::cout << "masked loss " << fixed(scores.masked_loss, 4) << " (entropy of single tokens "
            << fixed(text.unigram_entropy(), 4) << ")\nmasked accuracy " << fixed(scores.masked_accuracy, 4)
            << '\n';
  if (segments.pairs) {
    std::cout << "next-sentence loss " << fixed(scores.nsp_loss, 4) << "\nnext-sentence accuracy "
              << fixed(scores.nsp_accuracy, 4) << '\n';
  }
}

}  // namespace

void add_pretrain_bert_evaluation(Command& group) {
  Command* command = add_command(
      group, "pretrain-bert",
      "Measure the prediction of masked tokens and of next sentences (if the model has its head). The text\n"
      "has one sentence a line and blank lines between documents. Losses are means in nats, accuracies\n"
      "shares of 1. Masks and pairs are the same for every model with the same tokenizer, length and\n"
      "--halves.",
      "qkv evaluate pretrain-bert bert --test books.txt");
  const auto arguments = std::make_shared<EvaluatePretrainBertArguments>();
  add_evaluation_arguments(*command, *arguments, "FILE", "Test text");
  add_option(*command, "--max-length", arguments->max_length, "TOKENS",
             "Length of an input, special tokens included (default: the model's maximum)");
  command->add_flag("--halves", arguments->halves,
                    "Divide pairs near their middle, not after a random sentence");
  command->add_flag("--whole-word", arguments->whole_words, "Mask all pieces of a word together");
  add_option(*command, "--batch-tokens", arguments->batch_tokens, "TOKENS",
             "Tokens per batch: affects memory and speed, not results")
      ->check(at_least(1));
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace qkv::apps
