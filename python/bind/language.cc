// Language models.

#include <algorithm>
#include <deque>
#include <mutex>

#include "python/bind/pipelines.h"
#include "qkv/base/json.h"
#include "qkv/data/image.h"
#include "qkv/explain/tiles.h"
#include "qkv/pipelines/chat.h"
#include "qkv/pipelines/generate.h"
#include "qkv/pipelines/json.h"
#include "qkv/pipelines/output_grammars.h"
#include "qkv/pipelines/score.h"
#include "qkv/pipelines/tools/call_reader.h"
#include "qkv/pipelines/tools/tools.h"

namespace qkv::python {
namespace {

class LanguageModel {
 public:
  LanguageModel(std::shared_ptr<const pipelines::LoadedLanguageModel> model, const OpenOptions& options)
      : model_(std::move(model)),
        generator_(model_),
        engine_([this, options] { return generator_.make_engine(options.engine, options.step_model); }) {}

  const pipelines::TextGenerator& generator() const { return generator_; }
  SharedEngine& engine() { return engine_; }
  std::string inspect() const { return described("language", model_->folder, *model_->model).dump(); }

  // chat: of an answer in a conversation.
  pipelines::GenerateOptions options(nb::dict given, bool chat = false) const {
    pipelines::GenerateOptions options =
        chat ? pipelines::chat_options(generator_) : generator_.default_options();
    if (given.contains("max_new_tokens")) options.max_length = 0;
    if (given.contains("min_new_tokens")) options.min_length = 0;
    take_search(given, generator_.model().generation, generator_.model().tokenizer, options.search);
    take_value(given, "json_schema", options.json_schema);
    refuse_rest(given, concat("json_schema, ", search_option_names()));
    options.search.validate();
    return options;
  }

  Texts complete(const Texts& prompts, const nb::dict& given) {
    const pipelines::GenerateOptions options = this->options(nb::dict(given));
    return released([&] {
      auto requests = prepared(
          prompts, [&](size_t i) { return generator_.prepare({.text = prompts[i], .key = i + 1}, options); });
      const auto results = decoded(engine_, std::move(requests),
                                   [&](pipelines::GenerationRequest request, search::Decoded result) {
                                     return generator_.finish(std::move(request), std::move(result));
                                   });
      return json_of_all(results, [](const pipelines::Generated& one) { return to_json(one); });
    });
  }

  Texts score(const Texts& texts) const { return scored(texts, pipelines::TextScorer(model_)); }

  std::string tokenize(const std::string& text) const {
    return pipelines::to_json(model_->tokenizer.encode(text), model_->tokenizer);
  }
  std::string decode(const std::vector<int32_t>& ids) const { return model_->tokenizer.decode(ids); }

  // messages, variables and tools: JSON; tools: empty if there are none.
  std::string render(const std::string& messages, const std::string& variables, const std::string& tools,
                     const std::string& name, bool continues) const {
    pipelines::ChatTemplateOptions options{.add_generation_prompt = !continues,
                                           .continue_final_message = continues};
    if (!tools.empty()) options.tools = parse_json(tools, "tools");
    parse_json(variables, "template_variables").members([&](std::string_view key, const JsonValue& value) {
      options.set(key, value);
    });
    const pipelines::ChatTemplate chat(model_->folder, model_->tokenizer, name);
    std::vector<pipelines::ChatMessage> all = pipelines::chat_messages(parse_json(messages, "messages"));
    const auto has_calls = [](const pipelines::ChatMessage& one) {
      return std::ranges::any_of(one.fields, [](const auto& field) { return field.first == "tool_calls"; });
    };
    // Without a known format the template gets them as they are.
    if (std::ranges::any_of(all, has_calls)) {
      if (const auto format = pipelines::call_format(chat, *model_)) pipelines::write_calls(*format, all);
    }
    return chat.render(all, options);
  }
  // Lets answers call tools, which are JSON. `only`: the name of the one that is called; empty: any.
  pipelines::CallReader call_tools(const std::string& tools, bool required, const std::string& only,
                                   bool parallel, const std::string& name,
                                   pipelines::GenerateOptions& options) const {
    const std::optional<pipelines::CallFormat> format =
        pipelines::call_format(pipelines::ChatTemplate(model_->folder, model_->tokenizer, name), *model_);
    std::vector<pipelines::Tool> all = pipelines::tools_of(parse_json(tools, "tools"));
    if (!format)
      throw UsageError(
          concat("tools: expected none, as the model's chat template shows none, or calls of an unknown "
                 "form, found ",
                 all.size()));
    if (!options.json_schema.empty()) throw UsageError("json_schema: expected none beside tools, found one");
    const bool is_named = !only.empty();
    if (is_named) std::erase_if(all, [&](const pipelines::Tool& tool) { return tool.name != only; });
    if (all.empty())
      throw UsageError(concat(
          "tool_choice: expected 'auto', 'none', 'required' or the name of a tool, found '", only, "'"));
    std::vector<std::string> names;
    for (const pipelines::Tool& tool : all) names.push_back(tool.name);
    options.grammar = std::make_shared<const pipelines::OutputGrammar>(pipelines::tools_grammar(
        *format, all, {.required = required || is_named, .parallel = parallel && !is_named}));
    return {*format, std::move(names)};
  }
  std::vector<pipelines::EncodedImageHandle> images(const Texts& files) const {
    return released([&] {
      std::vector<pipelines::EncodedImageHandle> all;
      for (const std::string& file : files)
        all.push_back(generator_.image(data::read_image_file(file), file));
      return all;
    });
  }

  std::shared_ptr<explain::AttentionReport> attention(const std::string& text, int64_t tile) const {
    return std::make_shared<explain::AttentionReport>(
        explain::tiled_report(*model_, text, tile, model_->folder.string()));
  }

  std::shared_ptr<models::LanguageModel> model() const {
    return std::const_pointer_cast<models::LanguageModel>(model_->model);
  }
  text::Tokenizer tokenizer() const { return model_->tokenizer; }

 private:
  std::shared_ptr<const pipelines::LoadedLanguageModel> model_;
  pipelines::TextGenerator generator_;
  SharedEngine engine_;
};

// The completion of one prompt, as it is generated. Its functions are called without the GIL.
class Stream {
 public:
  // reader: of calls of tools.
  Stream(std::shared_ptr<LanguageModel> model, pipelines::Prompt prompt,
         const pipelines::GenerateOptions& options, std::optional<pipelines::CallReader> reader)
      : model_(std::move(model)),
        streams_(options.search.beam == 1 && options.search.nbest == 1),
        reader_(std::move(reader)) {
    if (options.search.nbest != 1)
      throw UsageError(
          concat("nbest: expected 1 for a stream, found ", options.search.nbest, "; see complete()"));
    if (streams_) {
      prompt.on_text = [this](std::string_view text) {
        const std::lock_guard lock(model_->engine().mutex());
        add(text);
      };
    }
    request_ = model_->generator().prepare(prompt, options);
    require_result(request_.generated.error, 0, 1);
    ticket_ = model_->engine().submit({request_.decode});
  }
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The next piece of text; nothing after the last. The text of a beam search is one piece.
  std::optional<std::string> next() {
    const std::lock_guard consumer(consumer_);
    if (closed_) return std::nullopt;
    while (true) {
      bool done = false;
      std::optional<std::string> piece;
      model_->engine().wait([&] {
        done = ticket_[0]->done;
        if (!pieces_.empty()) {
          piece = std::move(pieces_.front());
          pieces_.pop_front();
        }
        return piece || done;
      });
      if (piece) return piece;
      if (finished_) return std::nullopt;
      finished_ = true;
      result_ = model_->generator().finish(std::move(request_), std::move(ticket_[0]->decoded));
      require_result(result_.error, 0, 1);
      const std::lock_guard lock(model_->engine().mutex());
      if (!streams_) add(result_.completions.at(0).text);
      if (reader_) add_piece(reader_->finish());
    }
  }
  // Ends the generation.
  void close() {
    const nb::gil_scoped_release release;
    const std::lock_guard consumer(consumer_);
    closed_ = true;
    model_->engine().cancel(ticket_);
    request_ = {};  // and its constraints
  }
  std::optional<std::string> result() {
    const std::lock_guard consumer(consumer_);
    if (!finished_ || closed_) return std::nullopt;
    return to_json(result_);
  }
  // Names and arguments, JSON, of the calls so far.
  std::vector<std::pair<std::string, std::string>> calls() {
    const std::lock_guard lock(model_->engine().mutex());
    std::vector<std::pair<std::string, std::string>> all;
    for (const pipelines::ToolCall& call : calls_) all.emplace_back(call.name, call.arguments);
    return all;
  }

 private:
  // With the engine's lock.
  void add(std::string_view text) { add_piece(reader_ ? reader_->add(text, calls_) : std::string(text)); }
  void add_piece(std::string text) {
    if (!text.empty()) pieces_.push_back(std::move(text));
  }

  std::shared_ptr<LanguageModel> model_;
  bool streams_;
  std::optional<pipelines::CallReader> reader_;  // guarded by the engine's mutex, as calls_
  std::vector<pipelines::ToolCall> calls_;
  std::mutex consumer_;
  std::deque<std::string> pieces_;  // guarded by the engine's mutex
  pipelines::GenerationRequest request_;
  std::vector<SharedEngine::Handle> ticket_;
  pipelines::Generated result_;
  bool finished_ = false, closed_ = false;
};

std::shared_ptr<Stream> streamed(const std::shared_ptr<LanguageModel>& model, pipelines::Prompt prompt,
                                 const pipelines::GenerateOptions& options,
                                 std::optional<pipelines::CallReader> reader = {}) {
  return released(
      [&] { return std::make_shared<Stream>(model, std::move(prompt), options, std::move(reader)); });
}

}  // namespace

nb::object made(const std::shared_ptr<const pipelines::LoadedLanguageModel>& model,
                const OpenOptions& options) {
  return nb::cast(std::make_shared<LanguageModel>(model, options));
}

void bind_language(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> without_gil;
  nb::class_<LanguageModel>(module, "LanguageModel")
      .def("inspect", &LanguageModel::inspect)
      .def("complete", &LanguageModel::complete, nb::arg("prompts"), nb::arg("options"))
      .def(
          "stream",
          [](const std::shared_ptr<LanguageModel>& model, std::string text, std::vector<int32_t> ids,
             const Texts& images, uint64_t key, const nb::dict& given) {
            return streamed(
                model,
                {.text = std::move(text), .images = model->images(images), .ids = std::move(ids), .key = key},
                model->options(nb::dict(given)));
          },
          nb::arg("text"), nb::arg("ids"), nb::arg("images"), nb::arg("key"), nb::arg("options"))
      .def(
          "answer",
          [](const std::shared_ptr<LanguageModel>& model, const std::string& prompt, const Texts& images,
             const std::string& name, uint64_t key, const nb::dict& given, const std::string& tools,
             bool required, const std::string& only, bool parallel) {
            pipelines::GenerateOptions options = model->options(nb::dict(given), true);
            std::optional<pipelines::CallReader> reader;
            if (!tools.empty()) reader = model->call_tools(tools, required, only, parallel, name, options);
            return streamed(
                model, {.text = prompt, .images = model->images(images), .special_tokens = false, .key = key},
                options, std::move(reader));
          },
          nb::arg("prompt"), nb::arg("images"), nb::arg("template"), nb::arg("key"), nb::arg("options"),
          nb::arg("tools"), nb::arg("required"), nb::arg("only"), nb::arg("parallel"))
      .def("score", &LanguageModel::score, nb::arg("texts"), without_gil)
      .def("tokenize", &LanguageModel::tokenize, nb::arg("text"))
      .def_prop_ro("model", &LanguageModel::model)
      .def_prop_ro("tokenizer", &LanguageModel::tokenizer)
      .def("decode", &LanguageModel::decode, nb::arg("ids"))
      .def("render", &LanguageModel::render, nb::arg("messages"), nb::arg("variables"), nb::arg("tools"),
           nb::arg("name"), nb::arg("continues"))
      .def("attention", &LanguageModel::attention, nb::arg("text"), nb::arg("tile"), without_gil);

  nb::class_<Stream>(module, "Stream")
      .def("next", &Stream::next, without_gil)
      .def("close", &Stream::close)
      .def("result", &Stream::result, without_gil)
      .def("calls", &Stream::calls, without_gil);
}

}  // namespace qkv::python
