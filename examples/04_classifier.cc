// A classifier with mean pooling: trains, saves, loads, and fine-tunes it with a frozen encoder.
#include <qkv/qkv.h>
#include <iostream>
using namespace qkv;  // NOLINT(google-build-using-namespace)

const nn::LayerOptions kLayer{.d_model = 32, .heads = 4, .d_ff = 64};
struct Classifier {
  models::TextEncoder encoder{
      {.vocabulary = 10, .embedding = {.d_model = 32}, .encoder = {nn::alike(2, kLayer)}}};
  nn::Linear output{{.inputs = 32, .outputs = 2}};
  Variable operator()(const Ragged& ids, nn::ForwardContext& context) const {
    return output(segment_mean(encoder(ids, context), ids.offsets));
  }
  void visit(const nn::ParameterVisitor& visitor) const {
    nn::visit_part(visitor, "encoder", encoder);
    nn::visit_part(visitor, "output", output);
  }
};

void learn(const Classifier& model, const Ragged& digits, const std::vector<int32_t>& labels) {
  optim::AdamW optimizer(model, {.weight_decay = 0.01f});
  for (uint32_t step = 1; step <= 100; ++step) {
    nn::ForwardContext context{.training = true, .step = step};
    Tape tape;
    const Variable loss = cross_entropy(model(digits, context), Tensor::from(labels, {6}));
    tape.backward(loss);
    optimizer.step(0.01);
    if (step == 100) std::cout << "after 100 steps the loss is " << loss.value() << '\n';
  }
}

int main() {
  const auto digits = Ragged::from<int32_t>({{1, 2, 3}, {7, 4, 1}, {2, 8}, {9, 5, 2}, {0, 4, 6}, {6, 0}});
  const Classifier model, loaded;
  nn::initialise(model, /*seed=*/1);
  learn(model, digits, {1, 0, 1, 0, 1, 0});  // do the digits rise?
  nn::save(model, "classifier.safetensors");
  nn::load(loaded, "classifier.safetensors");
  nn::set_requires_grad(loaded.encoder, false);
  learn(loaded, digits, {0, 1, 0, 1, 0, 1});  // do they fall?
}
