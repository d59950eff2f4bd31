#pragma once
// The golden folders of all kinds of models, run alike.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "qkv/models/hub/pretrained.h"
#include "tests/models/family_case.h"

namespace qkv::testing {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(QKV_TEST_DATA) / "models" / "golden" / name;
}

inline Tensor first_of(const Tensor& rows, int64_t count) { return rows.slice_rows(0, count); }

// A model of any family, as used by these tests.
struct AnyModel {
  DType dtype;
  std::function<void(const nn::ParameterVisitor&)> visit;
  // Outputs for the golden inputs, all or only the first: logits of the heads, or hidden states.
  std::function<Tensor(bool first)> run;
};

template <class Model>
AnyModel any(std::unique_ptr<Model> loaded, const std::function<Tensor(const Model&, bool)>& run) {
  const std::shared_ptr<Model> model(std::move(loaded));
  return {models::weight_dtype(*model),
          [model](const nn::ParameterVisitor& visitor) { model->visit(visitor); },
          [model, run](bool first) { return to_host(run(*model, first)); }};
}

// Golden inputs are in `inputs`, the model in `folder`.
inline AnyModel open_model(const std::filesystem::path& inputs, const std::filesystem::path& folder,
                           const models::LoadOptions& options = {}) {
  switch (models::folder_kind(folder)) {
    case models::FolderKind::language:
      return any<models::LanguageModel>(
          models::load_language_model(folder, options), [=](const auto& model, bool first) {
            const FamilyCase one(inputs.filename().string());
            nn::ForwardContext context;
            return model.logits()(model(first ? one.text(0) : one.texts, context)).value();
          });
    case models::FolderKind::encoder:
      return any<models::TextEncoder>(
          models::load_text_encoder(folder, options), [=](const auto& model, bool first) {
            const FamilyCase one(inputs.filename().string());
            const Ragged texts = first ? one.text(0) : one.texts;
            nn::ForwardContext context;
            const Tensor types = first_of(one.expected["types"], texts.values.numel());
            const Variable hidden = model(texts, context, types);
            if (model.config().masked_language) return model.masked_language_logits(hidden).value();
            return model.config().labels.empty() ? hidden.value()
                                                 : model.classifier_logits(hidden, texts.offsets).value();
          });
    case models::FolderKind::translation:
      return any<models::Transformer>(
          models::load_transformer(folder, options), [=](const auto& model, bool first) {
            const FamilyCase one(inputs.filename().string());
            const Ragged targets{one.expected["target_ids"],
                                 Offsets::of_lengths(one.expected["target_lengths"].values<int32_t>())};
            const auto some = [first](const Ragged& texts) {
              const int64_t length = texts.offsets.length(0);
              return first ? Ragged{first_of(texts.values, length), Offsets::uniform(1, length)} : texts;
            };
            nn::ForwardContext context;
            const nn::Memory memory = model.encode(some(one.texts), context);
            return model.logits()(model.decode(some(targets), memory, context)).value();
          });
    default:
      return any<models::ImageEncoder>(models::load_image_encoder(folder, options), [=](const auto& model,
                                                                                        bool first) {
        const Tensor pixels = Golden((inputs / "expected.safetensors").string())["pixels"];
        nn::ForwardContext context;
        const int64_t images = first ? 1 : pixels.dim(0);
        const Variable hidden = model(first_of(pixels, images), context);
        const Offsets offsets = Offsets::uniform(images, hidden.value().rows() / images);
        const bool labels = !model.config().labels.empty();
        return (labels ? model.classifier_logits(hidden, offsets) : model.pooled(hidden, offsets)).value();
      });
  }
}

}  // namespace qkv::testing
