// Models from token ids to logits, search with them, and tokenizers.

#include "python/bind/modules.h"
#include "python/bind/pipelines.h"
#include "qkv/base/philox.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer.h"
#include "qkv/search/capture.h"
#include "qkv/search/constraint.h"
#include "qkv/search/transformer.h"
#include "qkv/text/tokenizer.h"

namespace qkv::python {
namespace {

using Model = models::TextEncoder;

template <class Options, class Class>
void def_config(Class& cls, const char* name) {
  using Type = typename Class::Type;
  cls.def("__init__", [name](Type* self, const nb::args& positional, const nb::kwargs& given) {
    new (self) Type(options_from<Options>(name, positional, given));
  });
  cls.def_prop_ro("config", [](const Type& self) { return written(self.config()); });
  def_visit(cls);
}

void bind_text_encoder_model(nb::module_& module) {
  nb::class_<Model> cls(module, "TextEncoderModel", "An encoder and its heads. Options: TextEncoderConfig.");
  def_config<models::TextEncoderConfig>(cls, "TextEncoder");
  cls.def(
         "__call__",
         [](const Model& self, const Ragged& ids, nn::ForwardContext* context, const nb::object& types,
            const nb::object& positions) {
           const Tensor type_ids = tensor_of(types), places = tensor_of(positions);
           return with_context(context,
                               [&](nn::ForwardContext& own) { return self(ids, own, type_ids, places); });
         },
         nb::arg("ids"), nb::arg("context").none() = nb::none(), nb::arg("types") = nb::none(),
         nb::arg("positions") = nb::none(), "ids i32 or i64 [tokens] -> hidden states [tokens, d_model].")
      .def(
          "pooled",
          [](const Model& self, const Operand& hidden, const Offsets& offsets) {
            return released([&] { return self.pooled(hidden.variable, offsets); });
          },
          nb::arg("hidden"), nb::arg("offsets"), "[tokens, d_model] -> [texts, d_model].")
      .def(
          "masked_language_logits",
          [](const Model& self, const Operand& hidden) {
            return released([&] { return self.masked_language_logits(hidden.variable); });
          },
          nb::arg("hidden"), "[tokens, d_model] -> [tokens, vocabulary].")
      .def(
          "classifier_logits",
          [](const Model& self, const Operand& hidden, const Offsets& offsets, nn::ForwardContext* context) {
            return with_context(context, [&](nn::ForwardContext& own) {
              return self.classifier_logits(hidden.variable, offsets, own);
            });
          },
          nb::arg("hidden"), nb::arg("offsets"), nb::arg("context").none() = nb::none(),
          "-> [texts, labels] or [tokens, labels].");
}

void bind_logits(nb::module_& module) {
  nb::class_<CrossEntropyResult>(module, "CrossEntropyResult")
      .def_ro("loss", &CrossEntropyResult::loss, "[1]: factor * the sum of the losses.")
      .def_prop_ro("loss_sum", [](const CrossEntropyResult& self) { return self.sums().loss; })
      .def_prop_ro(
          "nll_sum", [](const CrossEntropyResult& self) { return self.sums().nll; },
          "The sum of -log p[label].");
  nb::class_<nn::Logits>(module, "Logits", "The projection of hidden states to logits over the vocabulary.")
      .def(
          "__call__",
          [](const nn::Logits& self, const Operand& hidden) {
            return released([&] { return self(hidden.variable); });
          },
          nb::arg("hidden"), "[tokens, d_model] -> [tokens, vocabulary].")
      .def(
          "cross_entropy",
          [](const nn::Logits& self, const Operand& hidden, const Operand& labels,
             nn::ForwardContext* context, const nb::kwargs& given) {
            auto options = options_from<CrossEntropyOptions>("cross_entropy", given);
            if (context) options.layout = context->weight_layout();
            return released(
                [&] { return self.cross_entropy(hidden.variable, labels.variable.value(), options); });
          },
          nb::arg("hidden"), nb::arg("labels"), nb::arg("context").none() = nb::none(), nb::arg("options"),
          "The loss of labels i32 [tokens], some rows at a time. label_smoothing, factor: float = 1; "
          "chunk_rows: int. context: that of a training run.");
}

void bind_language_model(nb::module_& module) {
  using models::LanguageModel;
  nb::class_<LanguageModel> cls(module, "LanguageModelModel",
                                "A decoder-only language model. Options: LanguageModelConfig.");
  def_config<models::LanguageModelConfig>(cls, "LanguageModel");
  cls.def(
         "__call__",
         [](const LanguageModel& self, const Ragged& ids, nn::ForwardContext* context) {
           return with_context(context, [&](nn::ForwardContext& own) { return self(ids, own); });
         },
         nb::arg("ids"), nb::arg("context").none() = nb::none(),
         "ids i32 or i64 [tokens] -> hidden states [tokens, d_model], causal.")
      .def_prop_ro("logits", &LanguageModel::logits, nb::rv_policy::reference_internal);
}

void bind_transformer(nb::module_& module) {
  using models::Transformer;
  nb::class_<Transformer> cls(module, "Transformer",
                              "The encoder-decoder Transformer. Options: TransformerConfig.");
  def_config<models::TransformerConfig>(cls, "Transformer");
  cls.def(
         "encode",
         [](const Transformer& self, const Ragged& source, nn::ForwardContext* context) {
           return with_context(context, [&](nn::ForwardContext& own) { return self.encode(source, own); });
         },
         nb::arg("source"), nb::arg("context").none() = nb::none(), "ids i32 or i64 [tokens] -> Memory.")
      .def(
          "decode",
          [](const Transformer& self, const Ragged& target, const nn::Memory& memory,
             nn::ForwardContext* context) {
            return with_context(context,
                                [&](nn::ForwardContext& own) { return self.decode(target, memory, own); });
          },
          nb::arg("target"), nb::arg("memory"), nb::arg("context").none() = nb::none(),
          "ids, each sequence starting with decoder_start_id -> hidden states [tokens, d_model].")
      .def_prop_ro("logits", &Transformer::logits, nb::rv_policy::reference_internal);
}

// --- Search

// What a constraint receives, for the time of its call.
struct CallContext {
  const search::StepContext* context = nullptr;
  const search::StepContext& get() const { return context ? *context : gone<search::StepContext>(); }
  template <class T>
  [[noreturn]] static T& gone() {
    throw UsageError("Constraint: expected a use within apply(), found one after it");
  }
};
struct CallTokens {
  search::NextTokens* tokens = nullptr;
  search::NextTokens& get() const { return tokens ? *tokens : CallContext::gone<search::NextTokens>(); }
};

class ObjectConstraint final : public search::Constraint {
 public:
  explicit ObjectConstraint(nb::object object) : object_(std::move(object)) {}
  ~ObjectConstraint() override {
    const nb::gil_scoped_acquire acquire;
    object_.reset();
  }
  ObjectConstraint(const ObjectConstraint&) = delete;
  ObjectConstraint& operator=(const ObjectConstraint&) = delete;

  void apply(const search::StepContext& context, search::NextTokens& next) const override {
    const nb::gil_scoped_acquire acquire;
    const nb::object call = nb::cast(CallContext{&context}), tokens = nb::cast(CallTokens{&next});
    const auto end = [&] {
      nb::cast<CallContext&>(call).context = nullptr;
      nb::cast<CallTokens&>(tokens).tokens = nullptr;
    };
    try {
      object_.attr("apply")(call, tokens);
    } catch (...) {
      end();
      throw;
    }
    end();
  }

 private:
  nb::object object_;
};

std::vector<int32_t> list_of(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

void bind_search(nb::module_& module) {
  using search::Hypothesis;
  nb::class_<Hypothesis>(module, "Hypothesis", "An output of a search.")
      .def_ro("ids", &Hypothesis::ids)
      .def_ro("score", &Hypothesis::score)
      .def_ro("log_probability", &Hypothesis::log_probability)
      .def_ro("token_log_probabilities", &Hypothesis::token_log_probabilities)
      .def_ro("complete", &Hypothesis::complete);
  nb::class_<CallContext>(module, "StepContext",
                          "A hypothesis before its next token. Valid within apply() alone.")
      .def_prop_ro("source", [](const CallContext& call) { return list_of(call.get().source); })
      .def_prop_ro("history", [](const CallContext& call) { return list_of(call.get().history); })
      .def_prop_ro("ends", [](const CallContext& call) { return list_of(call.get().ends); })
      .def_prop_ro("output", [](const CallContext& call) { return list_of(call.get().output()); });
  nb::class_<CallTokens>(module, "NextTokens", "The tokens that may come next. Valid within apply() alone.")
      .def_prop_ro("vocabulary", [](const CallTokens& call) { return call.get().vocabulary(); })
      .def(
          "allows", [](const CallTokens& call, int32_t id) { return call.get().allows(id); }, nb::arg("id"))
      .def(
          "forbid", [](const CallTokens& call, int32_t id) { call.get().forbid(id); }, nb::arg("id"))
      .def(
          "allow_only",
          [](const CallTokens& call, const std::vector<int32_t>& ids) { call.get().allow_only(ids); },
          nb::arg("ids"))
      .def(
          "force", [](const CallTokens& call, int32_t id) { call.get().force(id); }, nb::arg("id"));
  module.def(
      "search",
      [](const models::Transformer& model, const std::vector<std::vector<int32_t>>& sources,
         nb::kwargs given) {
        search::SearchOptions options;
        take_fields(given, options);
        std::string known;
        add_field_names<search::SearchOptions>(known);
        refuse_rest(given, known);
        return released([&] { return search::search(model, sources, options); });
      },
      nb::arg("model"), nb::arg("sources"), nb::arg("options"),
      "The outputs of each source, token ids, best first. Options: beam=4, nbest=1, ...");
  module.def(
      "capture",
      [](const models::Transformer& model, const std::vector<int32_t>& source,
         const std::vector<int32_t>& target) {
        const search::Capture capture = released([&] { return search::capture(model, source, target); });
        nb::list list;
        for (const search::CapturedAttention& one : capture.attentions)
          list.append(nb::make_tuple(one.name, one.weights));
        return list;
      },
      nb::arg("model"), nb::arg("source"), nb::arg("target"),
      "The attention weights of a pair, [(name, Tensor [heads, queries, keys]), ...].");
}

void bind_tokenizer(nb::module_& module) {
  using text::Encoding;
  using text::Tokenizer;
  nb::class_<Encoding>(module, "Encoding",
                       "The tokens of a text or a pair. All lists have the length of ids.")
      .def_ro("ids", &Encoding::ids)
      .def_ro("type_ids", &Encoding::type_ids)
      .def_ro("special_mask", &Encoding::special_mask)
      .def_ro("text_index", &Encoding::text_index)
      .def_ro("word_index", &Encoding::word_index)
      .def_prop_ro(
          "offsets",
          [](const Encoding& encoding) {
            std::vector<std::pair<size_t, size_t>> ranges;
            for (const text::ByteRange& range : encoding.offsets) ranges.emplace_back(range.begin, range.end);
            return ranges;
          },
          "Ranges of bytes in the UTF-8 text.")
      .def("__len__", &Encoding::size);
  nb::class_<Tokenizer>(module, "Tokenizer", "Texts to token ids and back, as PyPI's tokenizers.")
      .def_static("load", &Tokenizer::load, nb::arg("path"),
                  "Of a folder or a file. Raises IoError and DataError.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, const std::optional<std::string>& pair,
             bool special_tokens) {
            const text::EncodeOptions options{.special_tokens = special_tokens, .truncation = {}};
            return pair ? self.encode(text, *pair, options) : self.encode(text, options);
          },
          nb::arg("text"), nb::arg("pair").none() = nb::none(), nb::arg("special_tokens") = true)
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<int32_t>& ids, bool skip) {
            return self.decode(ids, {.skip_special_tokens = skip});
          },
          nb::arg("ids"), nb::arg("skip_special_tokens") = true)
      .def(
          "id_of", [](const Tokenizer& self, const std::string& token) { return self.id_of(token); },
          nb::arg("token"))
      .def(
          "token",
          [](const Tokenizer& self, int32_t id) -> std::optional<std::string> {
            const auto token = self.token(id);
            if (!token) return std::nullopt;
            return std::string(*token);
          },
          nb::arg("id"), "The vocabulary's spelling of an id; None for an id without a token.")
      .def("is_special", &Tokenizer::is_special, nb::arg("id"))
      .def_prop_ro("size", &Tokenizer::size)
      .def("__len__", &Tokenizer::size);
}

}  // namespace

std::shared_ptr<const search::Constraint> constraint_of(nb::handle object) {
  if (!nb::hasattr(object, "apply"))
    throw UsageError(concat("constraints: expected objects with apply(), found ", nb::repr(object).c_str()));
  return std::make_shared<ObjectConstraint>(nb::borrow<nb::object>(object));
}

void bind_whole_models(nb::module_& module) {
  bind_text_encoder_model(module);
  bind_logits(module);
  bind_language_model(module);
  bind_transformer(module);
  bind_search(module);
  bind_tokenizer(module);
  nb::class_<RandomStream>(module, "RandomStream", "Philox random numbers of a seed.")
      .def(nb::init<uint64_t, uint64_t>(), nb::arg("seed"), nb::arg("stream") = 0)
      .def("next", &RandomStream::next)
      .def("uniform", &RandomStream::uniform, "In [0, 1), 24 bits.")
      .def("below", &RandomStream::below, nb::arg("bound"), "Uniform in [0, bound).");
}

}  // namespace qkv::python
