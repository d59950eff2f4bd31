#pragma once
// A minimal training task: a decoder that predicts the next character of a text.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "qkv/base/field_text.h"
#include "qkv/base/philox.h"
#include "qkv/models/language_model.h"
#include "qkv/nn/weights_file.h"
#include "qkv/train/task.h"

namespace qkv::train::testing_task {

struct CharacterOptions {
  int64_t length = 24;         // characters per example
  int64_t batch_examples = 4;  // examples per batch
  float dropout = 0.1f;
};

class CharacterTask : public Task {
 public:
  CharacterTask(const std::string& text, const std::string& valid, const CharacterOptions& options)
      : options_(options), model_(config_of(text, options)) {
    const std::set<char> known(text.begin(), text.end());
    const std::string letters(known.begin(), known.end());
    for (auto [from, to] : {std::pair(&text, &train_), std::pair(&valid, &valid_)}) {
      for (const char c : *from) to->push_back(static_cast<int32_t>(letters.find(c)));
    }
  }

  TaskInfo info() const override {
    return {.name = "characters",
            .items = "examples",
            .units = "characters",
            .train_items = std::ssize(train_) / options_.length,
            .valid_items = std::ssize(valid_) / options_.length,
            .sizes = {{"vocabulary", model_.config().vocabulary}}};
  }
  std::vector<Field> fields() const override {
    uint64_t sum = 0;
    for (const int32_t id : train_) sum = sum * 31 + static_cast<uint64_t>(id);
    return {{"characters.length", field_text(options_.length)},
            {"characters.batch_examples", field_text(options_.batch_examples)},
            {"model.dropout", field_text(options_.dropout)},
            {"data.fingerprint", field_text(sum)}};
  }
  void visit(const nn::ParameterVisitor& visitor) const override { model_.visit(visitor); }
  void initialise(uint64_t seed) override { nn::initialise(model_, seed); }

  std::unique_ptr<BatchStream> batches(uint64_t seed, data::CursorState from) const override {
    return std::make_unique<Stream>(*this, seed, from);
  }

  BatchLoss loss(const Batch& batch, const BatchSize& step, nn::ForwardContext& context) const override {
    const CrossEntropyResult result = run(static_cast<const Examples&>(batch).begins, train_, context,
                                          1.0f / static_cast<float>(step.labels));
    return {result.loss, {{"loss", CurveSum(result.totals, 0), static_cast<double>(batch.size.labels)}}};
  }

  std::vector<Metric> metrics() const override {
    return {{.name = "bits_per_character", .higher_is_better = false}};
  }
  std::optional<Evaluation> evaluate(const EvaluationRequest& /*request*/) const override {
    std::vector<int64_t> begins;
    for (int64_t i = 0; i + options_.length < std::ssize(valid_); i += options_.length) begins.push_back(i);
    nn::ForwardContext context;
    const double nll = run(begins, valid_, context, 1).sums().nll /
                       static_cast<double>(std::ssize(begins) * options_.length);
    return Evaluation{.loss = nll, .metrics = {{"bits_per_character", nll / std::log(2.0)}}};
  }
  void export_model(const std::filesystem::path& folder) const override {
    nn::save(model_, folder / "model.safetensors");
  }

 private:
  struct Examples : Batch {
    std::vector<int64_t> begins;  // start of each example in the text
  };

  // Each epoch starts at another offset of the text and has another order.
  class Stream : public BatchStream {
   public:
    Stream(const CharacterTask& task, uint64_t seed, data::CursorState from)
        : task_(task), seed_(seed), state_(from) {}
    std::unique_ptr<Batch> next() override {
      RandomStream random(seed_, static_cast<uint64_t>(state_.epoch * 1000 + state_.batch));
      auto batch = std::make_unique<Examples>();
      const int64_t last = std::ssize(task_.train_) - task_.options_.length - 1;
      for (int64_t i = 0; i < task_.options_.batch_examples; ++i)
        batch->begins.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(last))));
      const int64_t characters = std::ssize(batch->begins) * task_.options_.length;
      batch->size = {.items = std::ssize(batch->begins), .units = characters, .labels = characters};
      if (++state_.batch == batches_in_epoch()) state_ = {state_.epoch + 1, 0};
      return batch;
    }
    data::CursorState state() const override { return state_; }
    int64_t batches_in_epoch() const override {
      return std::max<int64_t>(1, task_.info().train_items / task_.options_.batch_examples);
    }

   private:
    const CharacterTask& task_;
    uint64_t seed_;
    data::CursorState state_;
  };

  static models::LanguageModelConfig config_of(const std::string& text, const CharacterOptions& options) {
    const nn::PositionOptions positions{.kind = nn::PositionKind::rotary, .max_positions = options.length};
    models::LanguageModelConfig config;
    config.vocabulary = std::ssize(std::set<char>(text.begin(), text.end()));
    config.max_positions = options.length;
    config.embedding = {.d_model = 16, .positions = positions, .dropout = options.dropout};
    config.decoder = {.layers = nn::alike(1, {.d_model = 16,
                                              .heads = 2,
                                              .d_ff = 32,
                                              .attention = {.positions = positions},
                                              .reads_memory = false,
                                              .dropout = options.dropout})};
    return config;
  }

  CrossEntropyResult run(const std::vector<int64_t>& begins, const std::vector<int32_t>& text,
                         nn::ForwardContext& context, float factor) const {
    std::vector<int32_t> inputs, labels, offsets{0};
    for (const int64_t begin : begins) {
      const auto first = text.begin() + begin;
      inputs.insert(inputs.end(), first, first + options_.length);
      labels.insert(labels.end(), first + 1, first + options_.length + 1);
      offsets.push_back(static_cast<int32_t>(inputs.size()));
    }
    const int64_t count = std::ssize(inputs);
    const Variable hidden = model_({Tensor::from(inputs, {count}), Offsets(offsets)}, context);
    return model_.logits().cross_entropy(hidden, Tensor::from(labels, {count}),
                                         {.factor = factor, .layout = context.weight_layout()});
  }

  CharacterOptions options_;
  models::LanguageModel model_;
  std::vector<int32_t> train_, valid_;
};

}  // namespace qkv::train::testing_task
