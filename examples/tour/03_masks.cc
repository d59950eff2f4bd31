// Masks: which keys a query may attend to. All scores are 0, so that the weights show the mask alone.
#include "lesson.h"
using namespace qkv;  // NOLINT(google-build-using-namespace)

namespace {

void show(const std::string& name, const AttentionOptions& mask) {
  AttentionOptions options = mask;
  options.return_weights = true;
  const Tensor x = Tensor::zeros({4, 1, 1});  // [tokens, heads, features]
  std::cout << name << '\n';
  const auto attention = scaled_dot_product_attention(x, x, x, options);
  for (const Tensor& sequence : attention.weights) {  // [heads, queries, keys]
    for (int64_t i = 0; i < sequence.dim(1); ++i)
      std::cout << lesson::cells(
                       sequence.reshape({sequence.dim(1), sequence.dim(2)}).slice_rows(i, 1).values())
                << '\n';
  }
}

}  // namespace

int main() {
  show("none", {});
  show("causal", {.causal = true});
  show("causal, window of 2", {.causal = true, .window = 2});
  show("the last key hidden", {.keep = Tensor::from(std::vector<uint8_t>{1, 1, 1, 0}, {1, 1, 1, 4})});
  const Offsets two = Offsets::of_lengths(std::vector<int32_t>{3, 1});
  show("two sequences, of 3 tokens and 1", {.query_offsets = two, .key_offsets = two});

  // What comes later does not change what came before: the last of four tokens is replaced.
  const Tensor x = lesson::normal({4, 1, 8}, 1);
  Tensor changed = x.clone();
  changed.slice_rows(3, 1).copy_from(lesson::normal({1, 1, 8}, 2));
  for (const bool causal : {false, true}) {
    const Variable before = scaled_dot_product_attention(x, x, x, {.causal = causal}).output;
    const Variable after = scaled_dot_product_attention(changed, changed, changed, {.causal = causal}).output;
    std::cout << (causal ? "causal: " : "no mask: ") << "the outputs of tokens 1 to 3 change by"
              << lesson::cell(
                     lesson::difference(before.value().slice_rows(0, 3), after.value().slice_rows(0, 3)))
              << '\n';
  }
}
