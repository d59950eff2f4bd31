// Encoders of images, and of images and texts, and pages of attention.

#include <variant>

#include "python/bind/pipelines.h"
#include "python/bind/vectors.h"
#include "qkv/explain/attention_report.h"
#include "qkv/explain/image_attention.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/zero_shot/image_zero_shot.h"

namespace qkv::python {
namespace {

// A few images at a time, because each takes a megabyte.
template <class Prepare, class Pipeline, class Finish, class Use>
void in_chunks(const Texts& paths, const Prepare& prepare, const Pipeline& pipeline, const Finish& finish,
               const Use& use, Ticker& tick) {
  constexpr size_t kChunk = 32;
  for (size_t first = 0; first < paths.size(); first += kChunk) {
    const Texts chunk(paths.begin() + static_cast<int64_t>(first),
                      paths.begin() + static_cast<int64_t>(std::min(first + kChunk, paths.size())));
    const auto requests = prepared(chunk, [&](size_t i) { return prepare(chunk[i]); });
    std::vector<const pipelines::ImageRequest*> pointers;
    for (size_t i = 0; i < requests.size(); ++i) {
      require_result(requests[i].error, first + i, paths.size());
      pointers.push_back(&requests[i]);
    }
    pipeline.encode(pointers, [&](size_t i, const Tensor& hidden) {
      use(first + i, finish(requests[i], hidden));
      tick(static_cast<int64_t>(first + i + 1));
    });
  }
}

// The labels of images as JSON.
template <class Pipeline, class Finish>
Texts classified(const Texts& paths, const Pipeline& pipeline, const Finish& finish,
                 std::optional<size_t> top) {
  Texts results(paths.size());
  Ticker tick;
  in_chunks(
      paths, [&](const std::string& path) { return pipeline.prepare(path); }, pipeline, finish,
      [&](size_t i, const pipelines::Classified& one) {
        require_result(one.error, i, paths.size());
        results[i] = to_json(one, top.value_or(SIZE_MAX));
      },
      tick);
  return results;
}

// Images are paths of PNG and JPEG files.
class ImageEncoder {
 public:
  ImageEncoder(std::shared_ptr<const pipelines::LoadedImageEncoder> encoder,
               const pipelines::ImageEncoderOptions& options)
      : encoder_(std::move(encoder)), options_(options) {}

  std::string inspect() const { return described("image", encoder_->folder, *encoder_->model).dump(); }

  nb::object encode(const Texts& paths, nb::dict given, nb::object on_progress) const {
    const pipelines::ImageEmbedder embedder(encoder_, options_);
    pipelines::EmbedOptions options = embedder.default_options();
    take_value(given, "normalize_embeddings", options.normalize);
    take_pooling(given, options);
    refuse_rest(given, "normalize_embeddings, pooling");
    Ticker tick(std::move(on_progress));
    const Tensor vectors = released([&] {
      const models::ImageEncoderConfig& config = encoder_->model->config();
      const bool pooled = options.pooling == pipelines::Pooling::pooler;
      Vectors all(std::ssize(paths), pooled ? config.pooled_width() : config.encoder.d_model());
      in_chunks(
          paths, [&](const std::string& path) { return embedder.prepare(path, options); }, embedder,
          [&](const auto& request, const Tensor& hidden) { return embedder.finish(request, hidden); },
          [&](size_t i, const pipelines::Embedded& one) { all.set(i, one); }, tick);
      return all.tensor();
    });
    return to_numpy(vectors);
  }

  Texts classify(const Texts& paths, std::optional<size_t> top) const {
    const pipelines::ImageClassifier classifier(encoder_, options_);
    return classified(
        paths, classifier,
        [&](const auto& request, const Tensor& hidden) { return classifier.finish(request, hidden); }, top);
  }

  std::shared_ptr<explain::ImageAttentionReport> attention(const std::string& path) const {
    const pipelines::ImageEncoderPipeline pipeline(encoder_, options_);
    return std::make_shared<explain::ImageAttentionReport>(explain::image_attention_report(
        pipelines::capture_attention(pipeline, data::read_image(path)), path, encoder_->folder.string()));
  }

 private:
  std::shared_ptr<const pipelines::LoadedImageEncoder> encoder_;
  pipelines::ImageEncoderOptions options_;
};

class DualEncoder {
 public:
  DualEncoder(std::shared_ptr<const pipelines::LoadedDualEncoder> encoder, const OpenOptions& options)
      : encoder_(std::move(encoder)), options_(options) {}

  std::string inspect() const { return described("image-text", encoder_->folder, *encoder_->model).dump(); }
  nb::object texts() const { return made(encoder_->text); }
  nb::object images() const { return made(encoder_->image, options_); }

  Texts classify(const Texts& paths, const Texts& labels, nb::dict given, std::optional<size_t> top) const {
    pipelines::ImageZeroShotOptions options;
    take_fields(given, options);
    refuse_rest(given, "hypothesis");
    return released([&] {
      const pipelines::ImageZeroShotClassifier classifier(encoder_, options_.images);
      const pipelines::LabelVectors vectors = classifier.label_vectors(labels, options);
      return classified(
          paths, classifier,
          [&](const auto& request, const Tensor& hidden) {
            return classifier.finish(request, hidden, vectors);
          },
          top);
    });
  }

 private:
  std::shared_ptr<const pipelines::LoadedDualEncoder> encoder_;
  OpenOptions options_;
};

template <class Report>
auto bind_report(nb::module_& module, const char* name) {
  return nb::class_<Report>(module, name)
      .def_ro("title", &Report::title)
      .def("html", [](const Report& report) { return explain::to_html(report); })
      .def("svg", [](const Report& report) { return explain::to_svg(report); })
      .def("json", [](const Report& report) { return explain::to_json(report); })
      .def("save", [](const Report& report, const std::filesystem::path& path) {
        explain::write_report(report, path);
      });
}

}  // namespace

nb::object made(const std::shared_ptr<const pipelines::LoadedImageEncoder>& encoder,
                const OpenOptions& options) {
  return nb::cast(std::make_shared<ImageEncoder>(encoder, options.images));
}

nb::object made(const std::shared_ptr<const pipelines::LoadedDualEncoder>& encoder,
                const OpenOptions& options) {
  return nb::cast(std::make_shared<DualEncoder>(encoder, options));
}

void bind_image_encoder(nb::module_& module) {
  nb::class_<DualEncoder>(module, "DualEncoder")
      .def("inspect", &DualEncoder::inspect)
      .def("texts", &DualEncoder::texts)
      .def("images", &DualEncoder::images)
      .def("classify", &DualEncoder::classify, nb::arg("paths"), nb::arg("labels"), nb::arg("options"),
           nb::arg("top").none());
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<ImageEncoder>(module, "ImageEncoder")
      .def("inspect", &ImageEncoder::inspect)
      .def("encode", &ImageEncoder::encode, nb::arg("paths"), nb::arg("options"),
           nb::arg("on_progress").none())
      .def("classify", &ImageEncoder::classify, nb::arg("paths"), nb::arg("top").none(), without_gil)
      .def("attention", &ImageEncoder::attention, nb::arg("path"), without_gil);
}

void bind_attention(nb::module_& module) {
  using explain::AttentionReport;
  using explain::ImageAttentionReport;
  bind_report<AttentionReport>(module, "AttentionReport")
      .def_ro("source_tokens", &AttentionReport::source_tokens)
      .def_ro("target_tokens", &AttentionReport::target_tokens)
      .def_ro("target_inputs", &AttentionReport::target_inputs)
      .def(
          "draw",
          [](const AttentionReport& report, const std::optional<std::string>& part, std::optional<int> layer,
             std::optional<int> head, bool dark) {
            explain::SvgOptions options{.part = {}, .layer = layer, .head = head, .dark = dark};
            for (const auto one : {explain::Part::encoder, explain::Part::decoder, explain::Part::cross})
              if (part && *part == name_of(one)) options.part = one;
            if (part && !options.part)
              throw UsageError(concat("part: expected one of encoder, decoder, cross, found '", *part, "'"));
            return explain::to_svg(report, options);
          },
          nb::arg("part").none(), nb::arg("layer").none(), nb::arg("head").none(), nb::arg("dark"))
      .def_prop_ro("layers", [](const AttentionReport& report) {
        nb::list layers;
        for (const explain::AttentionLayer& layer : report.layers)
          layers.append(nb::make_tuple(name_of(layer.part), layer.index, to_numpy(layer.weights)));
        return layers;
      });
  bind_report<ImageAttentionReport>(module, "ImageAttentionReport")
      .def_prop_ro(
          "source_tokens",
          [](const ImageAttentionReport& report) {
            Texts tokens = report.own_tokens;
            for (int64_t patch = 0; patch < report.rows * report.columns; ++patch)
              tokens.push_back(concat("patch ", patch / report.columns, ",", patch % report.columns));
            return tokens;
          })
      .def_prop_ro("target_tokens", [](const ImageAttentionReport&) { return Texts(); })
      .def_prop_ro("target_inputs", [](const ImageAttentionReport&) { return Texts(); })
      .def_prop_ro("layers", [](const ImageAttentionReport& report) {
        nb::list layers;
        for (size_t i = 0; i < report.layers.size(); ++i)
          layers.append(nb::make_tuple("encoder", i, to_numpy(report.layers[i])));
        return layers;
      });
}

}  // namespace qkv::python
