// qkv evaluate lm

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/tasks/evaluations.h"
#include "apps/tasks/lm_documents.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/open_model.h"
#include "qkv/train/tasks/lm/lm_evaluation.h"

namespace qkv::apps {
namespace {

struct EvaluateLmArguments : EvaluationArguments {
  std::optional<data::DocumentBounds> documents;
  bool skip_bad_utf8 = false;
  train::LmScoring scoring;
};

void evaluate(const EvaluateLmArguments& arguments) {
  const std::shared_ptr<const pipelines::LoadedLanguageModel> model =
      pipelines::open_language_model(arguments.model, arguments.load);
  const data::DocumentBounds bounds =
      arguments.documents ? *arguments.documents : usual_bounds(arguments.model, arguments.load.adapter);
  const data::TokenDocuments documents =
      read_lm_documents(arguments.test, *model, bounds,
                        arguments.skip_bad_utf8 ? data::OnBadLine::skip : data::OnBadLine::fail);
  const auto started = std::chrono::steady_clock::now();
  const train::LmScore score = train::score_documents(*model->model, documents, arguments.scoring).value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();

  const auto speed = static_cast<int64_t>(static_cast<double>(score.labels) / std::max(seconds, 1e-9));
  say(concat(counted(score.labels, "tokens"), " in ", fixed(seconds, 2), " s: ", grouped(speed),
             " tokens/s (", counted(threads(), "threads"), ")"));
  const int64_t context = model->model->config().max_positions;
  const int64_t stride =
      arguments.scoring.stride == 0 ? train::usual_stride(context) : arguments.scoring.stride;
  if (arguments.json) {
    const nlohmann::ordered_json result{{"loss", score.loss()},
                                        {"perplexity", score.perplexity()},
                                        {"bits_per_byte", score.bits_per_byte()},
                                        {"tokens", score.labels},
                                        {"bytes", score.bytes},
                                        {"unknown", score.unknown},
                                        {"documents", documents.documents()},
                                        {"context", context},
                                        {"stride", stride},
                                        {"seconds", seconds}};
    std::cout << result.dump(2) << '\n';
    return;
  }
  std::cout << "loss " << fixed(score.loss(), 4) << " nats per token, perplexity "
            << fixed(score.perplexity(), 3) << ", " << fixed(score.bits_per_byte(), 4) << " bits per byte\n";
}

}  // namespace

void add_lm_evaluation(Command& group) {
  Command* command = add_command(
      group, "lm",
      "Compute the loss, perplexity and bits per byte of a text by a language model (gpt2, llama,\n"
      "...). Each token is predicted once, from the tokens before it in its document: at least the\n"
      "context less --stride of them, unless its document begins later. Bits per byte can be compared\n"
      "between tokenizers.",
      "qkv evaluate lm model --test test.txt");
  const auto arguments = std::make_shared<EvaluateLmArguments>();
  add_evaluation_arguments(*command, *arguments, "FILE", "Text; may be compressed by gzip",
                           ModelPath::folder_or_gguf);
  Choices<data::DocumentBounds> bounds;
  for (const auto& [word, value] : words(data::DocumentBounds{})) bounds.emplace_back(word, value);
  add_choice(*command, "--documents", arguments->documents, bounds,
             "What ends a document; none: the file is one text (default: as in training, else blank-lines)");
  command->add_flag("--skip-bad-utf8", arguments->skip_bad_utf8, "Skip lines that are not UTF-8");
  add_option(*command, "--stride", arguments->scoring.stride, "TOKENS",
             "Tokens by which the windows of a long document advance; 0: half of the context")
      ->check(at_least(int64_t{0}));
  add_option(*command, "--batch-tokens", arguments->scoring.batch_tokens, "TOKENS",
             "Tokens per batch; results do not depend on it")
      ->check(at_least(int64_t{1}));
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace qkv::apps
