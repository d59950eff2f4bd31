// Training steps of an encoder shaped like BERT-base (Devlin et al. 2019; classifies every token into nine
// classes) or a decoder shaped like GPT-2 small (Radford et al. 2019; predicts next tokens), on random
// tokens, for bench/compare_models.py. Prints one JSON line per step.
//
//   bench_model_step --shape bert --batch 8 --length 128 --steps 4 --threads 2 --dropout 0.1 [--save DIR]
//
// --save writes initial weights and tokens to a folder before the first step.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/base/philox.h"
#include "qkv/io/safetensors.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/encoder.h"
#include "qkv/ops/linear_cross_entropy.h"
#include "qkv/optim/adam.h"

namespace {

using namespace qkv;

struct Shape {
  int64_t vocabulary, classes, positions;
  nn::StackOptions stack;
  bool causal;
};

Shape shape_of(const std::string& name, float dropout) {
  nn::LayerOptions layer{.d_model = 768, .heads = 12, .d_ff = 3072, .dropout = dropout};
  if (name == "bert") {
    layer.activation = Activation::gelu_exact;
    return {30522, 9, 512, {.layers = 12, .layer = layer}, false};
  }
  if (name == "gpt") {
    layer.activation = Activation::gelu_tanh;
    layer.norm = nn::NormPlacement::pre;
    return {50257, 50257, 1024, {.layers = 12, .layer = layer, .final_norm = true}, true};
  }
  throw UsageError(concat("--shape: expected bert or gpt, found ", name));
}

// Embedding, layers, and an output projection, tied to the embedding if the sizes match.
class Model {
 public:
  Model(const Shape& shape, float dropout)
      : causal_(shape.causal),
        tied_(shape.classes == shape.vocabulary),
        table_(nn::Parameter::weight_matrix({shape.vocabulary, 768}, {nn::Initializer::Kind::normal, 0.02f})),
        classes_(nn::Parameter::weight_matrix({shape.classes, 768}, {nn::Initializer::Kind::normal, 0.02f})),
        embedding_({.d_model = 768,
                    .scale = false,
                    .positions = {.kind = nn::PositionKind::learned, .max_positions = shape.positions},
                    .dropout = dropout},
                   table_.weight()),
        layers_(shape.stack),
        output_({tied_ ? table_.weight() : classes_.weight()}) {}

  Variable loss(const Ragged& ids, const Tensor& labels, nn::ForwardContext& context) const {
    const Variable x = embedding_(ids, context);
    const Variable y = layers_(x, ids.offsets, context, {.causal = causal_});
    return linear_cross_entropy(
               y, output_, labels,
               {.factor = 1.0f / static_cast<float>(labels.numel()), .layout = context.weight_layout()})
        .loss;
  }

  void visit(const nn::ParameterVisitor& visitor) const {
    visitor("table", table_);
    if (!tied_) visitor("classes", classes_);
    embedding_.visit(visitor);
    layers_.visit(visitor);
  }

 private:
  bool causal_, tied_;
  nn::Parameter table_, classes_;
  nn::Embedding embedding_;
  nn::Encoder layers_;
  LinearWeights output_;
};

Tensor random_ids(int64_t count, int64_t bound, uint64_t stream) {
  RandomStream random(7, stream);
  Tensor ids = Tensor::empty({count}, DType::i32);
  for (int32_t& id : ids.values<int32_t>())
    id = static_cast<int32_t>(random.below(static_cast<uint64_t>(bound)));
  return ids;
}

void run(std::map<std::string, std::string>& options) {
  const auto number = [&](const char* name) { return std::stol(options.at(name)); };
  const float dropout = std::stof(options.at("dropout"));
  const Shape shape = shape_of(options.at("shape"), dropout);
  const int64_t batch = number("batch"), length = number("length"), steps = number("steps");
  set_threads(static_cast<int>(number("threads")));

  const Model model(shape, dropout);
  nn::initialise(model, 1);
  optim::Adam adam(model, {.beta2 = 0.999f, .epsilon = 1e-8f}, {.clip_norm = 1});
  const Ragged ids{random_ids(batch * length, shape.vocabulary, 1), Offsets::uniform(batch, length)};
  const Tensor labels = random_ids(batch * length, shape.classes, 2);
  if (const std::string folder = options["save"]; !folder.empty()) {
    std::vector<io::NamedTensor> tensors{{"ids", ids.values}, {"labels", labels}};
    for (const auto& [name, parameter] : adam.parameters())
      tensors.push_back({name, parameter.variable.value()});
    std::filesystem::create_directories(folder);
    io::write_safetensors(std::filesystem::path(folder) / "start.safetensors", tensors);
  }
  for (int64_t step = 1; step <= steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    nn::ForwardContext context;
    context.training = true;
    context.seed = 1;
    context.step = static_cast<uint32_t>(step);
    Tape tape;
    const Variable loss = model.loss(ids, labels, context);
    tape.backward(loss);
    adam.step(1e-4);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cout << "{\"loss\": " << loss.value().item() << ", \"seconds\": " << seconds << "}" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options{{"shape", "bert"}, {"batch", "8"},   {"length", "128"},
                                             {"steps", "4"},    {"threads", "2"}, {"dropout", "0.1"}};
  try {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string name = argv[i];
      if (!name.starts_with("--")) throw UsageError(concat("expected --option VALUE, found ", name));
      options[name.substr(2)] = argv[i + 1];
    }
    std::cout.precision(9);
    run(options);
  } catch (const std::exception& error) {
    std::cerr << "bench_model_step: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
