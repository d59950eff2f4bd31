// Text encoders.

#include "python/bind/pipelines.h"
#include "python/bind/vectors.h"
#include "qkv/explain/tiles.h"
#include "qkv/pipelines/answers/answer.h"
#include "qkv/pipelines/classify.h"
#include "qkv/pipelines/embed.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/rerank.h"
#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"
#include "qkv/pipelines/tag.h"
#include "qkv/pipelines/zero_shot/zero_shot.h"

namespace qkv::python {
namespace {

class TextEncoder {
 public:
  explicit TextEncoder(std::shared_ptr<const pipelines::LoadedTextEncoder> encoder)
      : encoder_(std::move(encoder)) {}

  std::string inspect() const { return described("encoder", encoder_->folder, *encoder_->model).dump(); }

  // As TextEncoderPipeline::run(), with signals and progress. use(index, hidden states).
  template <class Request, class Use>
  void run(const std::vector<Request>& requests, const Use& use, Ticker& tick) const {
    std::vector<const pipelines::EncoderRequest*> pointers;
    for (size_t i = 0; i < requests.size(); ++i) {
      require_result(requests[i].error, i, requests.size());
      pointers.push_back(&requests[i]);
    }
    int64_t done = 0;
    pipelines::encode(*encoder_->model, pointers, [&](size_t i, const Tensor& hidden) {
      use(i, hidden);
      tick(++done);
    });
  }

  nb::object encode(const Texts& texts, nb::dict given, nb::object on_progress) const {
    const pipelines::TextEmbedder embedder(encoder_);
    if (!defaults_) defaults_ = embedder.default_options();
    pipelines::TextEmbedOptions options = *defaults_;
    take_text_options(given, options);
    take_value(given, "normalize_embeddings", options.vector.normalize);
    take_value(given, "dimensions", options.vector.dimensions);
    take_pooling(given, options.vector);
    refuse_rest(given, "prompt, prompt_name, normalize_embeddings, dimensions, max_length, pooling");
    Ticker tick(std::move(on_progress));
    const Tensor vectors = released([&] {
      const auto requests = prepared(texts, [&](size_t i) { return embedder.prepare(texts[i], options); });
      Tensor all = Tensor::empty({0, encoder_->model->config().embedding.d_model});
      run(
          requests,
          [&](size_t i, const Tensor& hidden) {
            const pipelines::Embedded one = embedder.finish(requests[i], hidden);
            require_result(one.error, i, texts.size());
            if (all.numel() == 0) all = Tensor::empty({std::ssize(texts), std::ssize(one.values)});
            Tensor row = all.slice_rows(static_cast<int64_t>(i), 1);
            row.copy_from(Tensor::from(one.values, row.shape()));
          },
          tick);
      return all;
    });
    return to_numpy(vectors);
  }

  Texts encode_sparse(const Texts& texts, nb::dict given) const {
    const pipelines::SparseEmbedder embedder(encoder_);
    pipelines::SparseEmbedOptions options = embedder.default_options();
    take_text_options(given, options);
    take_value(given, "top", options.top);
    refuse_rest(given, "prompt, prompt_name, max_length, top");
    return released([&] {
      return finished(prepared(texts, [&](size_t i) { return embedder.prepare(texts[i], options); }),
                      embedder, [](const pipelines::SparseEmbedded& one) { return to_json(one); });
    });
  }

  // Texts or pairs of texts.
  Texts classify(const Texts& texts, const Texts& seconds, std::optional<size_t> top) const {
    const pipelines::TextClassifier classifier(encoder_);
    return finished(prepared(texts,
                             [&](size_t i) {
                               return seconds.empty() ? classifier.prepare(texts[i])
                                                      : classifier.prepare(texts[i], seconds.at(i));
                             }),
                    classifier,
                    [&](const pipelines::Classified& one) { return to_json(one, top.value_or(SIZE_MAX)); });
  }

  // By labels that the model was not trained on.
  Texts classify_by(const Texts& texts, const Texts& labels, nb::dict given,
                    std::optional<size_t> top) const {
    const pipelines::ZeroShotClassifier classifier(encoder_);
    pipelines::ZeroShotOptions options;
    take_fields(given, options);
    return in_blocks(
        std::span<const std::string>(texts), [&](auto block) { return classifier(block, labels, options); },
        [&](const pipelines::Classified& one) { return to_json(one, top.value_or(SIZE_MAX)); });
  }

  Texts fill_mask(const Texts& texts, int64_t count) const {
    const pipelines::MaskFiller filler(encoder_);
    return finished(prepared(texts, [&](size_t i) { return filler.prepare(texts[i], {.count = count}); }),
                    filler, [](const pipelines::FilledText& one) { return to_json(one); });
  }
  std::string mask_token() const { return std::string(pipelines::MaskFiller(encoder_).mask_token()); }

  Texts tag(const Texts& texts, bool words) const {
    const pipelines::TokenTagger tagger(encoder_);
    size_t i = 0;
    return finished(prepared(texts, [&](size_t k) { return tagger.prepare(texts[k]); }), tagger,
                    [&](const pipelines::TaggedText& one) {
                      const std::string& text = texts[i++];
                      return to_json(words ? words_of(text, one) : one);
                    });
  }

  Texts answer(const Texts& questions, const Texts& texts, nb::dict given) const {
    const pipelines::QuestionAnswerer answerer(encoder_);
    pipelines::AnswerOptions options;
    take_fields(given, options);
    std::string known;
    add_field_names<pipelines::AnswerOptions>(known);
    refuse_rest(given, known);
    std::vector<pipelines::QuestionedText> items;
    for (size_t i = 0; i < texts.size(); ++i) items.push_back({questions.at(i), texts[i]});
    return in_blocks(
        std::span<const pipelines::QuestionedText>(items),
        [&](auto block) { return answerer(block, options); },
        [](const pipelines::AnsweredText& one) { return to_json(one); });
  }

  std::vector<float> rerank(const std::string& query, const Texts& texts, bool raw,
                            std::optional<int64_t> max_length) const {
    const pipelines::Reranker reranker(encoder_);
    pipelines::RerankOptions options = reranker.default_options();
    options.raw = options.raw || raw;
    if (max_length) options.max_length = max_length;
    const auto requests =
        prepared(texts, [&](size_t i) { return reranker.prepare(query, texts[i], options); });
    std::vector<float> scores(texts.size());
    Ticker tick;
    run(
        requests,
        [&](size_t i, const Tensor& hidden) {
          const pipelines::Reranked one = reranker.finish(requests[i], hidden);
          require_result(one.error, i, texts.size());
          scores[i] = one.score;
        },
        tick);
    return scores;
  }

  std::string tokenize(const std::string& text, const std::optional<std::string>& pair) const {
    const text::Tokenizer& tokenizer = encoder_->tokenizer;
    return pipelines::to_json(pair ? tokenizer.encode(text, *pair) : tokenizer.encode(text), tokenizer);
  }
  std::string decode(const std::vector<int32_t>& ids) const { return encoder_->tokenizer.decode(ids); }

  std::shared_ptr<explain::AttentionReport> attention(const std::string& text, const std::string& pair,
                                                      int64_t tile) const {
    return std::make_shared<explain::AttentionReport>(
        explain::tiled_report(*encoder_, text, pair, tile, encoder_->folder.string()));
  }

  // Python has no const: its parameters are frozen, and read-only where they lie in the file.
  std::shared_ptr<models::TextEncoder> model() const {
    return std::const_pointer_cast<models::TextEncoder>(encoder_->model);
  }
  text::Tokenizer tokenizer() const { return encoder_->tokenizer; }

 private:
  // The prompt and the length, of TextEmbedOptions or SparseEmbedOptions.
  template <class Options>
  void take_text_options(nb::dict& given, Options& options) const {
    if (const auto prompt_name = take(given, "prompt_name"))
      options.prompt = pipelines::named_prompt(encoder_->folder, nb::cast<std::string>(*prompt_name));
    take_value(given, "prompt", options.prompt);
    take_value(given, "max_length", options.max_length);
  }

  // The JSON of the results of all requests.
  template <class Request, class Pipeline, class Json>
  Texts finished(const std::vector<Request>& requests, const Pipeline& pipeline, const Json& json) const {
    std::vector<decltype(pipeline.finish(requests[0], Tensor()))> results(requests.size());
    Ticker tick;
    run(
        requests, [&](size_t i, const Tensor& hidden) { results[i] = pipeline.finish(requests[i], hidden); },
        tick);
    return json_of_all(results, json);
  }

  // The JSON of the results of all items, which `run` computes some at a time, with signals between.
  template <class Item, class Run, class Json>
  static Texts in_blocks(std::span<const Item> items, const Run& run, const Json& json) {
    constexpr size_t kBlock = 64;
    return released([&] {
      std::vector<std::decay_t<decltype(run(items)[0])>> results;
      Ticker tick;
      while (results.size() < items.size()) {
        const size_t count = std::min(kBlock, items.size() - results.size());
        for (auto& one : run(items.subspan(results.size(), count))) results.push_back(std::move(one));
        tick(std::ssize(results));
      }
      return json_of_all(results, json);
    });
  }

  std::shared_ptr<const pipelines::LoadedTextEncoder> encoder_;
  mutable std::optional<pipelines::TextEmbedOptions> defaults_;  // of the folder; the GIL protects them
};

}  // namespace

nb::object made(const std::shared_ptr<const pipelines::LoadedTextEncoder>& encoder) {
  return nb::cast(std::make_shared<TextEncoder>(encoder));
}

void bind_text_encoder(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<TextEncoder>(module, "TextEncoder")
      .def("inspect", &TextEncoder::inspect)
      .def("encode", &TextEncoder::encode, nb::arg("texts"), nb::arg("options"),
           nb::arg("on_progress").none())
      .def("encode_sparse", &TextEncoder::encode_sparse, nb::arg("texts"), nb::arg("options"))
      .def("classify", &TextEncoder::classify, nb::arg("texts"), nb::arg("seconds"), nb::arg("top").none(),
           without_gil)
      .def("classify_by", &TextEncoder::classify_by, nb::arg("texts"), nb::arg("labels"), nb::arg("options"),
           nb::arg("top").none())
      .def("fill_mask", &TextEncoder::fill_mask, nb::arg("texts"), nb::arg("count"), without_gil)
      .def("mask_token", &TextEncoder::mask_token)
      .def("tag", &TextEncoder::tag, nb::arg("texts"), nb::arg("words"), without_gil)
      .def("answer", &TextEncoder::answer, nb::arg("questions"), nb::arg("texts"), nb::arg("options"))
      .def("rerank", &TextEncoder::rerank, nb::arg("query"), nb::arg("texts"), nb::arg("raw"),
           nb::arg("max_length").none(), without_gil)
      .def("tokenize", &TextEncoder::tokenize, nb::arg("text"), nb::arg("pair").none())
      .def_prop_ro("model", &TextEncoder::model)
      .def_prop_ro("tokenizer", &TextEncoder::tokenizer)
      .def("decode", &TextEncoder::decode, nb::arg("ids"))
      .def("attention", &TextEncoder::attention, nb::arg("text"), nb::arg("pair"), nb::arg("tile"),
           without_gil);
}

}  // namespace qkv::python
