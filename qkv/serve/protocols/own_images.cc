// Labels, vectors and attention of images.

#include <string>
#include <utility>

#include "qkv/base/json.h"
#include "qkv/data/image.h"
#include "qkv/explain/image_attention.h"
#include "qkv/pipelines/json.h"
#include "qkv/serve/http/form.h"
#include "qkv/serve/protocols/fields.h"
#include "qkv/serve/protocols/own.h"
#include "qkv/serve/work/runs.h"

namespace qkv::serve {
namespace {

// An image request is a form: the file "image", and "model".
struct ImageForm {
  ModelHandle model;
  std::string file;
};

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
  if (result.file.empty()) throw HttpError(400, "form: expected a file \"image\", found none");
  if (!form.empty()) throw HttpError(400, concat("form: unknown field ", quoted_json(form.begin()->first)));
  return result;
}

// The serial worker decodes the image, so that neither the handlers nor the encoder wait for it, and queues
// it for the encoder's next batch.
template <class Result, class Pipeline>
void encode_image(const ImageForm& form, const ExchangeHandle& exchange, const Pipeline& pipeline) {
  const CallHandle call = exchange->call(form.model);
  const auto run = [form, exchange, call, &pipeline] {
    encode<Result>(
        *form.model->image_encoder(), call, 1,
        [&](size_t) { return pipeline.prepare(data::decode_image(form.file, "image")); },
        [&pipeline](const auto& request, const Tensor& hidden) { return pipeline.finish(request, hidden); },
        sender<Result>(exchange, form.model, "results", [](const Result& one) { return to_json(one); }));
  };
  form.model->serial().submit(call, {.run = run, .on_failed = [exchange](const std::exception_ptr& error) {
                                       exchange->fail(error);
                                     }});
}

void classify_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "classify-image");
  encode_image<pipelines::Classified>(form, exchange, *form.model->pipelines().image_classifier);
}

void embed_image(Service& service, const ExchangeHandle& exchange) {
  const ImageForm form = image_form(service, exchange, "embed-image");
  encode_image<pipelines::Embedded>(form, exchange, *form.model->pipelines().image_embedder);
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
  return {
      post("/v1/images/classify", classify_image, "Classify an image.", image,
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
