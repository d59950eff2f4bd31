#include "qkv/pipelines/proof/numbers.h"

#include <algorithm>
#include <cmath>

#include "qkv/base/philox.h"
#include "qkv/models/dual_encoder.h"
#include "qkv/models/speech_model.h"

namespace qkv::pipelines {
namespace {

constexpr int64_t kMaxTokens = 24, kSpreadTokens = 16;
constexpr const char* kFirstText = "The quick brown fox jumps over 13 lazy dogs.";
constexpr const char* kSecondText = "Zwölf große Boxkämpfer jagen 2 Hunde.";

using Ids = std::vector<int32_t>;

Ids first_of(Ids ids, int64_t most) {
  ids.resize(std::min(ids.size(), static_cast<size_t>(most)));
  return ids;
}

// Ids all over a vocabulary; the multiplier is Knuth's, 2^32 / golden ratio.
Ids spread(int64_t vocabulary, int64_t count, uint32_t seed) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t hashed = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    ids.push_back(static_cast<int32_t>(hashed % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

std::vector<ProofCase> cases_of(const models::TranslationModel& model) {
  const models::TransformerConfig& config = model.config;
  const int64_t most = std::min(kMaxTokens, config.max_tokens().value_or(kMaxTokens));
  const auto with_start = [&](Ids ids) {
    ids.insert(ids.begin(), static_cast<int32_t>(config.decoder_start_id));
    return first_of(std::move(ids), most);
  };
  const auto source_of = [&](Ids ids) {
    ids = first_of(std::move(ids), most - 1);
    if (config.source_eos) ids.push_back(model.tokenizer->eos_id(text::Side::source));
    return ids;
  };
  return {{"text", source_of(model.tokenizer->encode_source(kFirstText)),
           with_start(model.tokenizer->encode_target(kSecondText))},
          {"spread", source_of(spread(config.source_vocabulary, kSpreadTokens, 1)),
           with_start(spread(config.target_vocabulary, kSpreadTokens, 2))}};
}

template <class Loaded>
std::vector<ProofCase> text_cases(const Loaded& loaded, std::optional<int64_t> positions) {
  const int64_t most = std::min(kMaxTokens, positions.value_or(kMaxTokens));
  std::vector<ProofCase> cases;
  // A tokenizer without special tokens returns none for a text of unknown characters.
  if (Ids ids = loaded.tokenizer.encode(kFirstText).ids; !ids.empty())
    cases.push_back({"text", first_of(std::move(ids), most), {}});
  cases.push_back(
      {"spread", spread(loaded.model->config().vocabulary, std::min(kSpreadTokens, most), 1), {}});
  return cases;
}

std::vector<ProofCase> cases_of(const LoadedLanguageModel& loaded) {
  return text_cases(loaded, loaded.model->config().max_positions);
}

std::vector<ProofCase> cases_of(const LoadedTextEncoder& loaded) {
  return text_cases(loaded, loaded.model->config().max_positions);
}

constexpr const char* kPattern = "pattern";
std::vector<ProofCase> cases_of(const LoadedImageEncoder& /*loaded*/) { return {{kPattern, {}, {}}}; }

std::vector<ProofCase> cases_of(const LoadedDualEncoder& loaded) {
  std::vector<ProofCase> cases = cases_of(*loaded.text);
  cases.push_back({kPattern, {}, {}});
  return cases;
}

std::vector<ProofCase> cases_of(const models::SpeechModel& model) {
  return {{kPattern, {}, spread(model.config.target_vocabulary, kSpreadTokens, 2)}};
}

Tensor host_copy(const Variable& output) { return to_host(output.value()).clone(); }

ProofOutputs outputs_of(const models::TranslationModel& model, const ProofCase& one) {
  nn::ForwardContext context;
  const models::Transformer& transformer = *model.transformer;
  const nn::Memory memory = transformer.encode(Ragged::from<int32_t>({one.source}), context);
  const Variable hidden = transformer.decode(Ragged::from<int32_t>({one.target}), memory, context);
  return {{"logits", host_copy(transformer.logits()(hidden))}};
}

// Values from -0.8 to 0.8 without a short period, exact in f32.
void fill_pattern(Tensor& values) {
  int64_t i = 0;
  for (float& value : values.values()) value = static_cast<float>((i++ * 37) % 101 - 50) / 64;
}

ProofOutputs outputs_of(const models::SpeechModel& model, const ProofCase& one) {
  nn::ForwardContext context;
  Tensor frames = Tensor::empty({2 * model.config.source_positions, model.config.mel_bins});
  fill_pattern(frames);
  const models::Transformer& transformer = *model.transformer;
  const nn::Memory memory = transformer.encode_audio(frames, Offsets::uniform(1, frames.rows()), context);
  const Variable hidden = transformer.decode(Ragged::from<int32_t>({one.target}), memory, context);
  return {{"logits", host_copy(transformer.logits()(hidden))}};
}

ProofOutputs outputs_of(const LoadedLanguageModel& loaded, const ProofCase& one) {
  nn::ForwardContext context;
  const Variable hidden = (*loaded.model)(Ragged::from<int32_t>({one.source}), context);
  return {{"logits", host_copy(loaded.model->logits()(hidden))}};
}

ProofOutputs outputs_of(const LoadedTextEncoder& loaded, const ProofCase& one) {
  nn::ForwardContext context;
  const Ragged ids = Ragged::from<int32_t>({one.source});
  const models::TextEncoder& model = *loaded.model;
  const Variable hidden = model(ids, context);
  ProofOutputs outputs{{"hidden", host_copy(hidden)}};
  if (model.config().pooler) outputs.emplace_back("pooled", host_copy(model.pooled(hidden, ids.offsets)));
  if (model.config().labelled != models::ClassificationTarget::nothing)
    outputs.emplace_back("labels", host_copy(model.classifier_logits(hidden, ids.offsets)));
  if (model.config().masked_language)
    outputs.emplace_back("logits", host_copy(model.masked_language_logits(hidden)));
  if (model.config().next_sentence)
    outputs.emplace_back("next_sentence", host_copy(model.next_sentence(hidden, ids.offsets)));
  return outputs;
}

ProofOutputs outputs_of(const LoadedImageEncoder& loaded, const ProofCase& /*one*/) {
  const models::ImageEncoder& model = *loaded.model;
  const models::ImageEncoderConfig& config = model.config();
  Tensor pixels = Tensor::empty({1, config.channels, config.height, config.width});
  fill_pattern(pixels);
  nn::ForwardContext context;
  const Variable hidden = model(pixels, context);
  const Offsets offsets = Offsets::uniform(1, config.tokens());
  ProofOutputs outputs{{"hidden", host_copy(hidden)}};
  if (config.pooler) outputs.emplace_back("pooled", host_copy(model.pooled(hidden, offsets)));
  if (!config.labels.empty())
    outputs.emplace_back("labels", host_copy(model.classifier_logits(hidden, offsets)));
  return outputs;
}

ProofOutputs outputs_of(const LoadedDualEncoder& loaded, const ProofCase& one) {
  return one.name == kPattern ? outputs_of(*loaded.image, one) : outputs_of(*loaded.text, one);
}

template <class Model>
void perturb(const Model& model) {
  int64_t longest = 1;
  model.visit([&](const std::string&, const nn::Parameter& parameter) {
    if (parameter.allows_quantized()) longest = std::max(longest, parameter.shape.extents().back());
  });
  const float gain = 2 * std::sqrt(static_cast<float>(longest)) * 0x1p-24f;
  RandomStream random(/*seed=*/1);
  const auto changed = [&](const Tensor& values) {
    Tensor copy = values.clone();
    for (float& value : copy.values()) value *= 1 + (random.below(2) == 0 ? gain : -gain);
    return copy;
  };
  model.visit([&](const std::string&, const nn::Parameter& parameter) {
    const Tensor& values = parameter.variable.value();
    const bool int8 = values.dtype() == DType::i8;
    if (int8) {
      parameter.set_value({values, changed(parameter.scales.value())});
    } else if (values.dtype() == DType::f32) {
      parameter.set_value({changed(values), {}});
    }
  });
}

const models::Transformer& module_of(const models::TranslationModel& model) { return *model.transformer; }
const models::Transformer& module_of(const models::SpeechModel& model) { return *model.transformer; }
template <class Loaded>
const auto& module_of(const Loaded& loaded) {
  return *loaded.model;
}

}  // namespace

std::vector<ProofCase> proof_cases(const OpenedModel& model) {
  return std::visit([](const auto& opened) { return cases_of(*opened); }, model);
}

ProofOutputs run_proof_case(const OpenedModel& model, const ProofCase& one) {
  return std::visit([&](const auto& opened) { return outputs_of(*opened, one); }, model);
}

void perturb_as_rounding(const OpenedModel& model) {
  std::visit([](const auto& opened) { perturb(module_of(*opened)); }, model);
}

}  // namespace qkv::pipelines
