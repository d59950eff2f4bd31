// Attention does not see the order of its tokens; positions tell it. Three tokens A B C, and then A C B.
#include <array>

#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

// How much the output of each token changes when B and C swap places.
std::array<double, 3> changes(nn::PositionKind kind) {
  const nn::MultiheadAttention layer({.d_model = 16, .heads = 2, .variant = {.positions = {.kind = kind}}});
  nn::initialise(layer, /*seed=*/1);
  const Tensor tokens = lesson::normal({3, 16}, 2);  // the embeddings of A, B and C
  const bool added = kind == nn::PositionKind::sinusoidal_interleaved;
  const auto run = [&](const std::vector<int32_t>& order) {
    Variable x = gather(tokens, Tensor::from(order, {3}));
    if (added) x = x + nn::sinusoidal_positions(kind, 3, 16);  // section 3.5
    nn::ForwardContext context;
    return layer.self(x, Offsets::uniform(1, 3), {}, context).value();
  };
  const Tensor abc = run({0, 1, 2}), acb = run({0, 2, 1});
  return {lesson::difference(abc.slice_rows(0, 1), acb.slice_rows(0, 1)),
          lesson::difference(abc.slice_rows(1, 1), acb.slice_rows(2, 1)),
          lesson::difference(abc.slice_rows(2, 1), acb.slice_rows(1, 1))};
}

}  // namespace

int main() {
  std::cout << "              A      B      C\n";
  for (const auto& [name, kind] : {std::pair{"none      ", nn::PositionKind::none},
                                   {"sinusoidal", nn::PositionKind::sinusoidal_interleaved},
                                   {"rotary    ", nn::PositionKind::rotary},
                                   {"ALiBi     ", nn::PositionKind::alibi}}) {
    std::cout << name;
    for (const double change : changes(kind)) std::cout << lesson::cell(change, 3);
    std::cout << '\n';
  }
}
