// BERT on a pair of texts: hidden states, and the token that each token attends to most in the last layer.
#include <qkv/qkv.h>

#include <algorithm>
#include <iostream>
using namespace qkv;  // NOLINT(google-build-using-namespace)

int main(int argc, char** argv) {
  if (argc != 2) throw UsageError("give the folder of a BERT model");
  const auto folder =
      std::get<std::shared_ptr<const pipelines::LoadedTextEncoder>>(pipelines::open_model(argv[1]));
  const text::Encoding pair = folder->tokenizer.encode("the red dog runs.", "a man sleeps in the house.");
  const auto tokens = std::ssize(pair.ids);

  std::vector<Tensor> attention;  // by layer: [heads, queries, keys]
  nn::ForwardContext context{
      .observer = [&](const std::string& /*layer*/, const std::vector<Tensor>& weights) {
        attention.push_back(weights[0]);
      }};
  const Tensor types = Tensor::from(pair.type_ids, {tokens});  // 0: of the first text, 1: of the second
  const Tensor hidden = (*folder->model)(Ragged::from<int32_t>({pair.ids}), context, types).value();
  const Tensor mean_of_heads = mean(attention.back(), 0).value();  // [queries, keys]

  std::cout << "hidden states " << hidden << '\n' << attention.size() << " layers of attention\n";
  for (int64_t i = 0; i < tokens; ++i) {
    const auto weights = mean_of_heads.slice_rows(i, 1).values();
    const auto most = std::ranges::max_element(weights) - weights.begin();
    const auto name = [&](int64_t at) { return *folder->tokenizer.token(pair.ids[static_cast<size_t>(at)]); };
    std::cout << types.at<int32_t>(i) << ' ' << name(i) << " -> " << name(most) << ' ' << weights[most]
              << '\n';
  }
}
