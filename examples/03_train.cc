// A Transformer that learns to reverse sequences of digits, and its attention. `qkv train` does the same for
// text, with checkpoints, validation and a model folder.
#include <qkv/qkv.h>

#include <iostream>

namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kEnd = 0, kStart = 1, kFirstDigit = 2, kVocabulary = 12;

Ids random_digits(qkv::RandomStream& random) {
  Ids ids(3 + random.below(6));
  for (int32_t& id : ids) id = kFirstDigit + static_cast<int32_t>(random.below(10));
  return ids;
}

// Concatenates sequences, with prefix and suffix ids for each.
qkv::Ragged pack_ragged(const std::vector<Ids>& sequences, const Ids& before, const Ids& after) {
  Ids ids, offsets{0};
  for (const Ids& sequence : sequences) {
    for (const Ids& part : {before, sequence, after}) ids.insert(ids.end(), part.begin(), part.end());
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  return {qkv::Tensor::from(ids, {static_cast<int64_t>(ids.size())}), qkv::Offsets(offsets)};
}

Ids with_end(Ids ids) {
  ids.push_back(kEnd);
  return ids;
}

}  // namespace

int main() {
  qkv::models::TransformerConfig config = qkv::models::preset("tiny");
  config.source_vocabulary = config.target_vocabulary = kVocabulary;
  config.d_model = 64, config.d_ff = 128, config.heads = 4;
  config.encoder_layers = config.decoder_layers = 1;
  config.dropout = config.embedding_dropout = 0;
  config.eos_id = kEnd, config.pad_id = config.decoder_start_id = kStart;
  const qkv::models::Transformer model(config);
  qkv::nn::initialise(model, /*seed=*/1);
  qkv::optim::Adam adam(model, {}, {.clip_norm = 1});

  qkv::RandomStream random(/*seed=*/2);
  constexpr uint32_t kSteps = 600;
  for (uint32_t step = 1; step <= kSteps; ++step) {
    std::vector<Ids> sources, targets;
    for (int i = 0; i < 64; ++i) {
      sources.push_back(random_digits(random));
      targets.emplace_back(sources.back().rbegin(), sources.back().rend());
    }
    const qkv::Ragged labels = pack_ragged(targets, {}, {kEnd});
    qkv::nn::ForwardContext context;
    context.training = true;
    context.step = step;
    qkv::Tape tape;
    const qkv::nn::Memory memory = model.encode(pack_ragged(sources, {}, {kEnd}), context);
    const qkv::Variable hidden = model.decode(pack_ragged(targets, {kStart}, {}), memory, context);
    const auto result = model.logits().cross_entropy(
        hidden, labels.values,
        {.factor = 1 / static_cast<float>(labels.offsets.tokens()), .layout = context.weight_layout()});
    tape.backward(result.loss);
    adam.step(qkv::train::learning_rate({.warmup_steps = 100, .learning_rate = 3e-3f}, step));
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << result.loss.value().item() << '\n';
  }

  // Most likely unseen: there are over a hundred million sequences.
  std::vector<Ids> sources;
  for (int i = 0; i < 100; ++i) sources.push_back(with_end(random_digits(random)));
  const auto outputs = qkv::search::search(model, sources, {.beam = 1});
  int right = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    right += outputs[i][0].ids == with_end(Ids(sources[i].rbegin() + 1, sources[i].rend()));
  }
  std::cout << right << " of " << sources.size() << " new sequences reversed correctly\n";

  // Position t of the output attends to position n - t of the input.
  const auto capture = qkv::search::capture(model, sources[0], outputs[0][0].ids);
  const qkv::Tensor& cross = capture.attentions.back().weights;  // [heads, queries, keys]
  std::cout << capture.attentions.back().name << ", mean of its heads:\n";
  for (int64_t query = 0; query < cross.dim(1); ++query) {
    for (int64_t key = 0; key < cross.dim(2); ++key) {
      float mean = 0;
      for (int64_t head = 0; head < cross.dim(0); ++head) {
        mean += cross.values()[(head * cross.dim(1) + query) * cross.dim(2) + key] /
                static_cast<float>(cross.dim(0));
      }
      std::cout << (mean > 0.5f ? '#' : mean > 0.25f ? '+' : '.');
    }
    std::cout << '\n';
  }
  return right >= 90 ? 0 : 1;
}
