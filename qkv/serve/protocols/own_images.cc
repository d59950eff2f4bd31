// Labels, vectors and attention of images.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/json.h"
#include "qkv/data/image.h"
#include "qkv/explain/image_attention.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/zero_shot/labels.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/own.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

// An image request is a form: the file "image", "model", and, where `labels` are asked for, those, separated
// by commas, and "hypothesis".
struct ImageForm {
  ModelHandle model;
  std::string file;
  std::string labels = {}, hypothesis = {};
};

constexpr const char* kClassify = "classify-image";

ImageForm image_form(Service& service, const ExchangeHandle& exchange, const char* task) {
  auto form = parse_form(exchange->request());
  const auto take = [&](const char* name) {
    const auto found = form.find(name);
    if (found == form.end()) return std::string();
    std::string value = std::move(found->second);
    form.erase(found);
    return value;
  };
  const std::string name = take("model");
  ImageForm result{service.models().find(name, task), take("image")};
  if (std::string_view(task) == kClassify) {
    result.labels = take("labels");
    result.hypothesis = take("hypothesis");
  }
  if (result.file.empty()) throw HttpError(400, "form: expected a file \"image\", found none");
  if (!form.empty()) throw HttpError(400, concat("form: unknown field ", quoted_json(form.begin()->first)));
  return result;
}

// The serial worker decodes the image, so that neither the handlers nor the encoder wait for it, and queues
// it for the encoder's next batch.
void decode_and_run(const ModelHandle& model, const ExchangeHandle& exchange, const CallHandle& call,
                    std::function<void()> run) {
  model->serial().submit(
      call, {.run = std::move(run),
             .on_failed = [exchange](const std::exception_ptr& error) { exchange->fail(error); }});
}

template <class Result, class Prepare, class Finish>
void encode_image(const ModelHandle& model, const ExchangeHandle& exchange, const CallHandle& call,
                  const Prepare& prepare, const Finish& finish) {
  encode<Result>(
      *model->image_encoder(), call, 1, [&](size_t) { return prepare(); }, finish,
      sender<Result>(exchange, model, "results", [](const Result& one) { return to_json(one); }));
}

// The encoder of texts reads the labels, then that of images the image.
void classify_by_labels(const ImageForm& form, const ExchangeHandle& exchange) {
  const pipelines::ImageZeroShotClassifier& classifier = *form.model->pipelines().image_zero_shot;
  const CallHandle call = exchange->call(form.model);
  pipelines::ImageZeroShotOptions options;
  if (!form.hypothesis.empty()) options.hypothesis = form.hypothesis;
  if (form.labels.empty())
    throw HttpError(
        400, concat("form: expected labels, as ", form.model->name(), " has none of its own, found none"));
  const std::vector<std::string> labels = pipelines::listed_labels(form.labels);
  require_few_labels(labels);
  const auto requests = std::make_shared<const std::vector<pipelines::EmbedRequest>>(
      classifier.prepare_labels(labels, options));
  const auto run = [=, &classifier] {
    const pipelines::ImageRequest image = classifier.prepare(data::decode_image(form.file, "image"));
    encode<pipelines::Embedded>(
        *form.model->text_encoder(), call, labels.size(), [&](size_t i) { return (*requests)[i]; },
        [&classifier](const pipelines::EmbedRequest& request, const Tensor& hidden) {
          return classifier.texts().finish(request, hidden);
        },
        [=, &classifier](const std::vector<pipelines::Embedded>& found, const std::exception_ptr& error) {
          exchange->answer(error, [&] {
            pipelines::LabelVectors with{.labels = labels, .vectors = {}};
            for (const pipelines::Embedded& one : found) {
              if (!one.error.empty()) throw HttpError(400, concat("labels: ", one.error));
              with.vectors.push_back(one.values);
            }
            encode_image<pipelines::Classified>(
                form.model, exchange, call, [&] { return pipelines::ImageRequest(image); },
                [with, &classifier](const pipelines::ImageRequest& request, const Tensor& hidden) {
                  return classifier.finish(request, hidden, with);
                });
          });
        });
  };
  decode_and_run(form.model, exchange, call, run);
}

void classify_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, kClassify);
  const Pipelines& all = form.model->pipelines();
  if (all.image_zero_shot) return classify_by_labels(form, exchange);
  if (!form.labels.empty() || !form.hypothesis.empty()) {
    throw HttpError(400, concat("labels, hypothesis: only for models of images and texts (CLIP), found ",
                                form.model->name()));
  }
  const CallHandle call = exchange->call(form.model);
  decode_and_run(form.model, exchange, call, [=, &classifier = *all.image_classifier] {
    encode_image<pipelines::Classified>(
        form.model, exchange, call,
        [&] { return classifier.prepare(data::decode_image(form.file, "image")); },
        [&classifier](const auto& request, const Tensor& hidden) {
          return classifier.finish(request, hidden);
        });
  });
}

void embed_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "embed-image");
  const Pipelines& all = form.model->pipelines();
  const CallHandle call = exchange->call(form.model);
  decode_and_run(form.model, exchange, call,
                 [=, &embedder = *all.image_embedder, &options = all.image_embed_options] {
                   encode_image<pipelines::Embedded>(
                       form.model, exchange, call,
                       [&] { return embedder.prepare(data::decode_image(form.file, "image"), options); },
                       [&embedder](const auto& request, const Tensor& hidden) {
                         return embedder.finish(request, hidden);
                       });
                 });
}

void attend_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "attention-image");
  run_serially(form.model, exchange, [form] {
    return to_json(
        explain::image_attention_report(pipelines::capture_attention(*form.model->pipelines().image_embedder,
                                                                     data::decode_image(form.file, "image")),
                                        "image", form.model->name()));
  });
}

}  // namespace

std::vector<Route> image_routes() {
  const RequestFields image{model_field(), required("image", "file", "A PNG or JPEG file")};
  RequestFields classified = image;
  classified.push_back(
      optional("labels", "string",
               "Labels, separated by commas; models of images and texts (CLIP) only, which need them"));
  add_option_fields<pipelines::ImageZeroShotOptions>(classified, {""}, {}, false);
  return {
      post("/v1/images/classify", classify_image, "Classify an image.", classified,
           results_type("{labels: Labels}"), {.body = Body::form}),
      post("/v1/images/embed", embed_image, "Embed an image.", image, results_type("{vector: [number]}"),
           {.body = Body::form}),
      post(
          "/v1/images/attention", attend_image, "Attention weights and rollout of an image.", image,
          R"({title?: string, model?: string, own_tokens: [string], patches: {rows: integer(1..), columns: integer(1..)},
  region: {top: number, left: number, height: number, width: number}, labels?: Labels,
  layers: [{layer: integer(0..), heads: [[[number]]], statistics: Statistics}], rollout: [[[number]]]})",
          {.body = Body::form})};
}

}  // namespace qkv::serve
