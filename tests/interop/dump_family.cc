// For compare_families.py and transformers_marian.py: all outputs of a model for texts of token ids.
//
// dump_family DIR IN.safetensors OUT.safetensors STEPS
// IN: ids and types, i32 [tokens], of all texts concatenated, and lengths; or ids, lengths, target_ids and
// target_lengths for sources and targets; or pixels, preprocessed images.
// OUT: hidden, attention.<layer>, and depending on the model logits, next_sentence, labels, pooled; if STEPS
// is not 0, for a language model the STEPS greedy tokens after the first text as "greedy"; for an
// encoder-decoder, likewise for the first source, and the beam search result for the third source as "beam".
// A language model or encoder-decoder is also written to the folder OUT.safetensors.folder.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/search/transformer.h"

namespace {

using namespace qkv;

struct Texts {
  explicit Texts(const char* path) {
    const io::SafetensorsFile file(path);
    types = file.tensor("types");
    all = {file.tensor("ids"), Offsets::of_lengths(file.tensor("lengths").values<int32_t>())};
  }
  Ragged all;
  Tensor types;
};

// Collects each layer's weights, for all texts concatenated.
class Watched {
 public:
  explicit Watched(nn::ForwardContext& context) {
    context.observer = [this](const std::string&, const std::vector<Tensor>& weights) {
      std::vector<float>& all = layers_.emplace_back();
      for (const Tensor& one : weights) all.insert(all.end(), one.values().begin(), one.values().end());
    };
  }
  void add_to(std::vector<io::NamedTensor>& out) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      out.push_back(
          {concat("attention.", i), Tensor::from(layers_[i], {static_cast<int64_t>(layers_[i].size())})});
    }
  }

 private:
  std::vector<std::vector<float>> layers_;
};

std::vector<io::NamedTensor> run_language(const char* folder, const Texts& texts, int steps,
                                          const std::string& copy) {
  const auto model = models::load_language_model(folder);
  models::save_language_model(copy, *model, models::family_of(folder), folder);
  nn::ForwardContext context;
  const Watched watched(context);
  const Variable hidden = (*model)(texts.all, context);
  std::vector<io::NamedTensor> out{{"hidden", hidden.value()}, {"logits", model->logits()(hidden).value()}};
  watched.add_to(out);

  const int64_t length = texts.all.offsets.length(0);
  nn::DecoderState state =
      model->start({texts.all.values.slice_rows(0, length - 1), Offsets::uniform(1, length - 1)});
  Tensor logits = model->step(texts.all.values.slice_rows(length - 1, 1), state);
  std::vector<int32_t> greedy;
  while (std::ssize(greedy) < steps) {
    for (const int32_t end : model->config().eos_ids) logits.values()[static_cast<size_t>(end)] = -1e30f;
    greedy.push_back(
        static_cast<int32_t>(std::ranges::max_element(logits.values()) - logits.values().begin()));
    if (std::ssize(greedy) < steps)
      logits = model->step(Tensor::from(std::vector{greedy.back()}, {1}), state);
  }
  if (steps > 0) out.push_back({"greedy", Tensor::from(greedy, {steps})});
  return out;
}

std::vector<int32_t> written(const models::Transformer& model, const Ragged& texts, int64_t which,
                             const search::SearchOptions& options) {
  const auto ids = texts.values.values<int32_t>().subspan(static_cast<size_t>(texts.offsets.begin(which)),
                                                          static_cast<size_t>(texts.offsets.length(which)));
  const std::vector<std::vector<int32_t>> source{{ids.begin(), ids.end()}};
  return search::search(model, source, options).at(0).at(0).ids;
}

std::vector<io::NamedTensor> run_pairs(const char* folder, const io::SafetensorsFile& in, int steps,
                                       const std::string& copy) {
  const auto model = models::load_transformer(folder);
  models::save_transformer(copy, *model, {}, folder);
  const auto texts = [&](const char* ids, const char* lengths) {
    return Ragged{in.tensor(ids), Offsets::of_lengths(in.tensor(lengths).values<int32_t>())};
  };
  const Ragged sources = texts("ids", "lengths"), targets = texts("target_ids", "target_lengths");
  nn::ForwardContext context;
  const Watched watched(context);
  const nn::Memory memory = model->encode(sources, context);
  const Variable decoded = model->decode(targets, memory, context);
  std::vector<io::NamedTensor> out{{"hidden", memory.values.value()},
                                   {"logits", model->logits()(decoded).value()}};
  watched.add_to(out);
  if (steps == 0) return out;
  // The end token is forbidden for `steps` tokens; one more position is for the forced one.
  search::SearchOptions greedy{
      .beam = 1, .max_new_tokens = steps, .max_source_factor = 0, .min_new_tokens = steps};
  std::vector<int32_t> ids = written(*model, sources, 0, greedy);
  ids.pop_back();
  out.push_back({"greedy", Tensor::from(ids, {std::ssize(ids)})});
  ids = written(*model, sources, 2,
                {.beam = 4, .length_penalty = 0.6, .max_new_tokens = 38, .max_source_factor = 0});
  out.push_back({"beam", Tensor::from(ids, {std::ssize(ids)})});
  return out;
}

std::vector<io::NamedTensor> run_encoder(const char* folder, const Texts& texts) {
  const auto model = models::load_text_encoder(folder);
  const models::TextEncoderConfig& config = model->config();
  nn::ForwardContext context;
  const Watched watched(context);
  const Variable hidden = (*model)(texts.all, context, texts.types);
  const Offsets& offsets = texts.all.offsets;
  std::vector<io::NamedTensor> out{{"hidden", hidden.value()}};
  watched.add_to(out);
  if (config.masked_language) out.push_back({"logits", model->masked_language_logits(hidden).value()});
  if (config.pooler) out.push_back({"pooled", model->pooled(hidden, offsets).value()});
  if (config.next_sentence) out.push_back({"next_sentence", model->next_sentence(hidden, offsets).value()});
  if (config.labelled != models::ClassificationTarget::nothing) {
    out.push_back({"labels", model->classifier_logits(hidden, offsets).value()});
  }
  return out;
}

std::vector<io::NamedTensor> run_images(const char* folder, const Tensor& pixels) {
  const auto model = models::load_image_encoder(folder);
  nn::ForwardContext context;
  const Watched watched(context);
  const Variable hidden = (*model)(pixels, context, models::OtherSizes::interpolated);
  std::vector<io::NamedTensor> out{{"hidden", hidden.value()}};
  watched.add_to(out);
  const Offsets offsets = Offsets::uniform(pixels.dim(0), hidden.value().rows() / pixels.dim(0));
  if (model->config().pooler) out.push_back({"pooled", model->pooled(hidden, offsets).value()});
  if (!model->config().labels.empty())
    out.push_back({"labels", model->classifier_logits(hidden, offsets).value()});
  return out;
}

void run(char** argv) {
  if (const io::SafetensorsFile in(argv[2]); in.contains("pixels")) {
    return io::write_safetensors(argv[3], run_images(argv[1], in.tensor("pixels")));
  }
  if (const io::SafetensorsFile in(argv[2]); in.contains("target_ids")) {
    return io::write_safetensors(argv[3],
                                 run_pairs(argv[1], in, std::atoi(argv[4]), concat(argv[3], ".folder")));
  }
  const Texts texts(argv[2]);
  const bool language = models::folder_kind(argv[1]) == models::FolderKind::language;
  io::write_safetensors(
      argv[3], language ? run_language(argv[1], texts, std::atoi(argv[4]), concat(argv[3], ".folder"))
                        : run_encoder(argv[1], texts));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: dump_family DIR IN.safetensors OUT.safetensors STEPS\n";
    return 2;
  }
  try {
    run(argv);
  } catch (const std::exception& error) {
    std::cerr << "dump_family: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
