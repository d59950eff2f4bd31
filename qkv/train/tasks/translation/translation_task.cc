#include "qkv/train/tasks/translation/translation_task.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/nn/residual_branches.h"
#include "qkv/pipelines/proof/proof.h"
#include "qkv/train/fields.h"

namespace qkv::train {
namespace {

constexpr const char* kGenerationFile = "generation_config.json";

}  // namespace

void list_settings(Settings& all, TranslationOptions& o) {
  all.add("train.batch_tokens", o.batch_tokens, kDecidesWeights, at_least(1))
      .flag({"TOKENS", "Source and target tokens per batch"});
  all.add("train.max_length", o.max_length, kDecidesWeights, at_least(1))
      .flag({"TOKENS", "Skip pairs with a longer side"});
  all.add("train.sort_window", o.sort_window, kDecidesWeights, at_least(1));
  all.add("train.label_smoothing", o.label_smoothing, kDecidesWeights, below_one())
      .flag({"SHARE", "Label smoothing; 0: none"});
  all.add("train.bleu_every", o.bleu_every, kBookkeeping, at_least(0))
      .flag({"N", "Validations between BLEU scores; 0: no BLEU, the loss selects the best model"});
  all.add("train.bleu_sentences", o.bleu_sentences, kBookkeeping, at_least(0))
      .flag({"N", "Translate the first N sentences for BLEU; 0: all"});
  all.add("train.bleu_beam", o.bleu_beam, kBookkeeping, between(1, 64));
}

void TranslationOptions::validate() const { validate_settings(*this); }

TranslationTask::TranslationTask(Inputs inputs)
    : ModelTask(inputs.config, std::move(inputs.fields)),
      inputs_(std::move(inputs)),
      special_{.start = static_cast<int32_t>(inputs_.config.decoder_start_id),
               .eos = static_cast<int32_t>(inputs_.config.eos_id),
               .source_eos = inputs_.config.source_eos} {
  inputs_.options.validate();
  inputs_.config.validate();
}

void TranslationTask::initialise_randomly(uint64_t seed) {
  nn::initialise(model_, seed);
  nn::scale_residual_branches(model_);
}

void TranslationTask::begin(const std::filesystem::path& folder) const {
  if (inputs_.start) {
    inputs_.start->begin(folder);
  } else {
    inputs_.tokenizer.save(folder, inputs_.config.max_tokens().value_or(512));
  }
}

TaskInfo TranslationTask::info() const {
  return {.name = "translation",
          .items = "pairs",
          .units = "tokens",
          .train_items = inputs_.train.pairs(),
          .valid_items = inputs_.valid ? inputs_.valid->store.pairs() : 0,
          .sizes = {{"source_vocabulary", inputs_.config.source_vocabulary},
                    {"target_vocabulary", inputs_.config.target_vocabulary}}};
}

std::vector<Field> TranslationTask::data_fields() const {
  return {{"data.fingerprint", std::to_string(inputs_.train.fingerprint())},
          {"valid.fingerprint", inputs_.valid ? std::to_string(inputs_.valid->store.fingerprint()) : "0"}};
}

std::unique_ptr<BatchStream> TranslationTask::batches(uint64_t seed, data::CursorState from) const {
  const data::BatchOptions options{
      .budget = inputs_.options.batch_tokens, .window = inputs_.options.sort_window, .seed = seed};
  return stream_of(
      data::BatchCursor(data::pair_costs(inputs_.train), options, from, data::target_lengths(inputs_.train)),
      [this](const data::Batch& pairs) {
        auto batch = std::make_unique<TranslationBatch>();
        batch->rows = data::make_rows(inputs_.train, pairs.items, special_);
        batch->size = {
            .items = std::ssize(pairs.items), .units = pairs.cost, .labels = batch->rows.labels.tokens()};
        return batch;
      });
}

BatchLoss TranslationTask::loss(const Batch& batch, const BatchSize& step,
                                nn::ForwardContext& context) const {
  const data::TranslationRows& rows = static_cast<const TranslationBatch&>(batch).rows;
  const nn::Memory memory = model_.encode(rows.source.ragged(), context);
  const Variable hidden = model_.decode(rows.decoder_input.ragged(), memory, context);
  const CrossEntropyResult result =
      model_.logits().cross_entropy(hidden, Tensor::from(rows.labels.ids, {rows.labels.tokens()}),
                                    {.label_smoothing = inputs_.options.label_smoothing,
                                     .factor = 1.0f / static_cast<float>(step.labels),
                                     .layout = context.weight_layout()});
  const double labels = static_cast<double>(batch.size.labels);
  return {result.loss,
          {{"loss", CurveSum(result.totals, 0), labels}, {"nll", CurveSum(result.totals, 1), labels}}};
}

std::vector<Metric> TranslationTask::metrics() const {
  // Perplexity is a function of the loss and ranks like it.
  const Metric perplexity{.name = "perplexity", .higher_is_better = false};
  if (inputs_.options.bleu_every == 0) return {perplexity};
  return {{.name = "bleu", .higher_is_better = true}, perplexity};
}

bool TranslationTask::computes_bleu(const EvaluationRequest& request) const {
  const int64_t every = inputs_.options.bleu_every;
  return every > 0 && (!request.scheduled || (request.number + 1) % every == 0);
}

std::optional<double> TranslationTask::bleu(int64_t sentences, const EvaluationRequest& request) const {
  const TranslationOptions& options = inputs_.options;
  return translation_bleu(
      model_, inputs_.tokenizer, *inputs_.valid,
      {.sentences = sentences, .beam = options.bleu_beam, .batch_tokens = options.batch_tokens}, request);
}

// Translates a few sentences, and twice as many until their time tells that of all. A sample that was chosen
// (bleu_sentences) stays.
int64_t TranslationTask::items_within(double seconds, const EvaluationRequest& request) const {
  if (!computes_bleu(request) || inputs_.options.bleu_sentences > 0) return 0;
  const int64_t all = inputs_.valid->store.pairs();
  constexpr double kEnough = 0.125;
  for (int64_t sentences = 4;; sentences *= 2) {
    const auto begin = std::chrono::steady_clock::now();
    if (!bleu(sentences, request)) return 0;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (sentences < all && taken.count() < kEnough * seconds) continue;
    const double fitting =
        seconds / std::max(taken.count(), 1e-9) * static_cast<double>(std::min(sentences, all));
    return fitting >= static_cast<double>(all) ? 0 : std::max<int64_t>(1, static_cast<int64_t>(fitting));
  }
}

std::optional<Evaluation> TranslationTask::evaluate(const EvaluationRequest& request) const {
  const TranslationOptions& options = inputs_.options;
  const std::optional<double> nll =
      mean_nll(model_, inputs_.valid->store, special_, options.batch_tokens, request);
  if (!nll) return std::nullopt;
  Evaluation result{.loss = *nll, .metrics = {{"perplexity", std::exp(*nll)}}};
  if (!std::isfinite(*nll) || !computes_bleu(request)) return result;
  const std::optional<double> found =
      bleu(request.items > 0 ? request.items : options.bleu_sentences, request);
  if (!found) return std::nullopt;
  if (request.items > 0)
    result.extent = concat("BLEU of ", request.items, " of ", inputs_.valid->store.pairs(), " sentences");
  if (*found == 0) {
    log_warning(
        "validation BLEU is 0: no 4-gram matches a reference (references of fewer than four words have "
        "none); "
        "while it is 0, the loss selects the best model");
  }
  result.metrics["bleu"] = std::min(*found / 100, 1.0);  // rounding may exceed 1
  return result;
}

double TranslationTask::evaluation_passes() const {
  const TranslationOptions& options = inputs_.options;
  if (options.bleu_every == 0 || !inputs_.valid) return 1;
  constexpr double kDecodingPasses = 4;  // of greedy decoding: a rough estimate
  const double all = static_cast<double>(std::max<int64_t>(1, inputs_.valid->store.pairs()));
  const double translated =
      options.bleu_sentences > 0 ? std::min(all, static_cast<double>(options.bleu_sentences)) : all;
  return 1 + kDecodingPasses * static_cast<double>(options.bleu_beam) * (translated / all) /
                 static_cast<double>(options.bleu_every);
}

void TranslationTask::export_model(const std::filesystem::path& folder) const {
  models::GenerationDefaults defaults;
  if (inputs_.start) {
    const std::filesystem::path copies = folder / kStartCopies;
    if (const auto options = copies / kGenerationFile; std::filesystem::exists(options))
      write_file_atomically(folder / kGenerationFile, read_file(options));
    models::save_transformer(folder, model_, defaults, copies);
    pipelines::write_proof(folder);
    return;
  }
  // Positions are needed for the start token and the new tokens; transformers counts the end token too.
  defaults.max_new_tokens =
      static_cast<int>(std::min<int64_t>(defaults.max_new_tokens, model_.config().max_positions - 2));
  models::save_transformer(folder, model_, defaults);
  pipelines::write_proof(folder);
}

models::TransformerConfig complete_config(models::TransformerConfig config,
                                          const text::TranslationTokenizer& tokenizer) {
  if (config.shares_embeddings() && tokenizer.separate_vocabularies()) {
    throw UsageError(
        "model.tying: expected two_way or none with separate source and target vocabularies, found "
        "three_way");
  }
  config.source_vocabulary = tokenizer.size(text::Side::source);
  config.target_vocabulary = tokenizer.size(text::Side::target);
  config.eos_id = tokenizer.eos_id();
  config.pad_id = config.decoder_start_id = tokenizer.pad_id();
  config.validate();
  return config;
}

}  // namespace qkv::train
