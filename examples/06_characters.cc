// A character language model with a custom block: attention with a softcap and a mask.
#include <qkv/qkv.h>
#include <iostream>
using namespace qkv;  // NOLINT(google-build-using-namespace)

struct Model {
  nn::Parameter table{Shape{128, 64}, {nn::Initializer::Kind::normal, 0.3f}};
  nn::Norm norm{{.features = 64}};
  nn::MultiheadAttention attention{
      {.d_model = 64,
       .heads = 4,
       .variant = {.positions = {.kind = nn::PositionKind::rotary}, .softcap = 20}}};
  Variable operator()(const Ragged& ids, const nn::AttentionMask& mask, nn::ForwardContext& context) const {
    const Variable x = gather(table.variable, ids.values);
    return matmul(x + attention.self(norm(x), ids.offsets, mask, context), transpose(table.variable));
  }
  void visit(const nn::ParameterVisitor& visitor) const {
    visitor("table", table);
    nn::visit_part(visitor, "norm", norm);
    nn::visit_part(visitor, "attention", attention);
  }
};

int main() {
  const std::string text = "she sells sea shells by the sea shore; the shells she sells are sea shells";
  const Ragged ids = Ragged::from<int32_t>({{text.begin(), text.end() - 1}});
  const Tensor next = Tensor::from(std::vector<int32_t>(text.begin() + 1, text.end()), ids.values.shape());
  const int64_t n = next.numel();
  Tensor near = Tensor::zeros({1, 1, n, n}, DType::u8);
  for (int64_t i = 0; i < n * n; ++i) near.at<uint8_t>(0, 0, i / n, i % n) = i / n - i % n < 8;
  const Model model;
  nn::initialise(model, /*seed=*/1);
  optim::AdamW optimizer(model);
  for (uint32_t step = 1; step <= 200; ++step) {
    nn::ForwardContext context{.training = true, .step = step};
    Tape tape;
    const Variable loss = cross_entropy(model(ids, {.causal = true, .keep = near}, context), next);
    tape.backward(loss);
    optimizer.step(0.003);
    if (step % 50 == 0) std::cout << "step " << step << ": " << loss.value() << '\n';
  }
}
