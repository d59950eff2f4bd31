// OpenAI's completions of chats: /v1/chat/completions.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "qkv/pipelines/checks.h"
#include "qkv/pipelines/images/prompt_images.h"
#include "qkv/pipelines/search_defaults.h"
#include "qkv/pipelines/tools/tools.h"
#include "qkv/serve/protocols/chat_messages.h"
#include "qkv/serve/protocols/openai_fields.h"
#include "qkv/serve/service.h"

namespace qkv::serve {
namespace {

constexpr int kMostTokens = 1 << 20;

OptionsInRequest chat_names() {
  static const std::vector<OptionInRequest> kNames = request_limits(
      {{"max_new_tokens",
        {.name = "max_tokens",
         .help = "Default: as many as the context has room for",
         .range = between(1, kMostTokens)}},
       {"min_new_tokens", {.name = "min_tokens", .range = between(0, kMostTokens)}},
       {"temperature", {.help = "0: greedy search; default: the model's", .range = between(0, 100)}}});
  return kNames;
}

// ---- JSON of choices

ResponseJson token_json(const std::string& text, float log_probability) {
  ResponseJson bytes = ResponseJson::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  // OpenAI's service sends -9999 for a token that is very unlikely.
  return {{"token", text}, {"logprob", std::max(log_probability, -9999.0F)}, {"bytes", std::move(bytes)}};
}

ResponseJson logprobs_json(const ChoicePart& part) {
  if (!part.logprobs) return nullptr;
  ResponseJson content = ResponseJson::array();
  for (const ChoiceToken& token : part.tokens) {
    ResponseJson one = token_json(token.text, token.log_probability), top = ResponseJson::array();
    for (const LikelyToken& other : token.top)
      top.push_back(token_json(other.id == token.id ? token.text : other.text, other.log_probability));
    one["top_logprobs"] = std::move(top);
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// said: the message, or what an event adds to it.
ResponseJson choice_json(const ChoicePart& part, const char* key, ResponseJson said) {
  return {{"index", part.index},
          {key, std::move(said)},
          {"logprobs", logprobs_json(part)},
          {"finish_reason", part.finish_reason ? ResponseJson(part.finish_reason) : ResponseJson(nullptr)}};
}

ResponseJson calls_json(const ChoicePart& part, bool is_delta) {
  ResponseJson calls = ResponseJson::array();
  for (const auto& [id, name, arguments] : part.calls) {
    ResponseJson& call = calls.emplace_back(ResponseJson::object());
    if (is_delta) call["index"] = part.first_call + calls.size() - 1;
    call.update({{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}});
  }
  return calls;
}

ResponseJson chat_choice(ChoicePart part) {
  const bool calls_alone = part.text.empty() && !part.calls.empty();
  ResponseJson content = calls_alone ? ResponseJson(nullptr) : ResponseJson(std::move(part.text));
  ResponseJson message{{"role", "assistant"}, {"content", std::move(content)}, {"refusal", nullptr}};
  if (!part.calls.empty()) message["tool_calls"] = calls_json(part, false);
  return choice_json(part, "message", std::move(message));
}

ResponseJson chat_delta(ChoicePart part) {
  ResponseJson delta = ResponseJson::object();
  if (!part.text.empty()) delta["content"] = std::move(part.text);
  if (!part.calls.empty()) delta["tool_calls"] = calls_json(part, true);
  return choice_json(part, "delta", std::move(delta));
}

ResponseJson chat_opening(size_t index) {
  return choice_json({.index = index}, "delta", {{"role", "assistant"}, {"content", ""}});
}

constexpr CompletionForm kChatForm{.id_prefix = "chatcmpl-",
                                   .object = "chat.completion",
                                   .event = "chat.completion.chunk",
                                   .prompt = "messages",
                                   .cached_tokens = true,
                                   .choice = chat_choice,
                                   .delta = chat_delta,
                                   .opening = chat_opening};

// ---- The request

void refuse_unsupported(Fields& fields) {
  for (const char* name : {"functions", "audio", "prediction", "store"}) require_absent(fields, name);
  if (const auto choice = fields.find("function_call");
      choice && choice->string() != "none" && choice->string() != "auto")
    choice->fail("\"none\", as it is not supported: \"tools\" are");
  if (const auto modalities = fields.find("modalities")) {
    for (const JsonValue& one : modalities->items()) {
      if (one.string() != "text") one.fail("\"text\", as no other modality is supported");
    }
  }
  fields.find("metadata");
}

// Without a name: the first model that chats.
ModelHandle chat_model(Service& service, const std::string& name) {
  const std::vector<ModelHandle> all = service.models().all();
  const bool any = std::ranges::any_of(all, [](const ModelHandle& one) { return one->has("chat"); });
  ModelHandle model = service.models().find(name, any && name.empty() ? "chat" : "generate");
  if (!model->has("chat"))
    throw HttpError(400, concat("model '", model->name(), "': ", model->pipelines().no_chat));
  return model;
}

pipelines::ChatTemplateOptions template_options(Fields& fields) {
  pipelines::ChatTemplateOptions options;
  options.add_generation_prompt = fields.boolean("add_generation_prompt");
  options.continue_final_message = fields.boolean("continue_final_message");
  if (const auto variables = fields.find("chat_template_kwargs")) {
    variables->members([&](std::string_view name, const JsonValue& value) { options.set(name, value); });
  }
  return options;
}

// Reads "tools", "tool_choice" and "parallel_tool_calls".
void read_tools(Fields& fields, const ServedModel& model, pipelines::ChatTemplateOptions& prompting,
                CompletionOptions& options) {
  const auto given = fields.find("tools"), choice = fields.find("tool_choice"),
             parallel = fields.find("parallel_tool_calls");
  pipelines::ToolChoice chosen{.parallel = !parallel || parallel->boolean()};
  const bool is_named = choice && choice->is_object();
  const std::string word = is_named ? "" : choice && choice->is_string() ? choice->string() : "auto";
  const bool is_known = is_named || word == "auto" || word == "none" || word == "required";
  if (choice && (!is_known || (!is_named && !choice->is_string())))
    choice->fail(R"("none", "auto", "required" or {"type": "function", "function": {"name": ...}})");
  if (!given || (given->is_array() && given->size() == 0)) {
    if (word != "auto" && word != "none") choice->fail("\"none\" or \"auto\" without tools");
    return;
  }
  std::vector<pipelines::Tool> tools = pipelines::tools_of(*given);
  if (word == "none") return;
  const std::optional<pipelines::CallFormat>& format = model.pipelines().calls;
  if (!format) {
    throw HttpError(400, concat("tools: expected none, as the chat template of model '", model.name(),
                                "' shows none, or calls of an unknown form, found ", tools.size()));
  }
  chosen.required = word != "auto";
  if (is_named) {
    if ((*choice)["type"].string() != "function") (*choice)["type"].fail("\"function\"");
    const JsonValue name = (*choice)["function"]["name"];
    std::erase_if(tools, [only = name.string()](const pipelines::Tool& tool) { return tool.name != only; });
    if (tools.empty()) name.fail("the name of a tool");
    chosen.parallel = false;
  }
  if (!options.generate.json_schema.empty())
    throw HttpError(400, "response_format: expected \"text\" beside tools, found another one");
  prompting.tools = *given;
  std::vector<std::string> names;
  for (const pipelines::Tool& tool : tools) names.push_back(tool.name);
  options.calls.emplace(*format, std::move(names));
  options.generate.grammar =
      std::make_shared<const pipelines::OutputGrammar>(pipelines::tools_grammar(*format, tools, chosen));
}

void set_max_tokens(Fields& fields, search::SearchOptions& search) {
  const auto most = fields.integer("max_completion_tokens");
  if (!most) return;
  if (fields.find("max_tokens") && search.max_new_tokens != *most) {
    throw HttpError(400, concat("max_completion_tokens: expected max_tokens = ", search.max_new_tokens,
                                " or one of the two alone, found ", *most));
  }
  search.max_new_tokens = static_cast<int>(*most);
}

void complete_chat(Service& service, const ExchangeHandle& exchange) {
  Fields fields(*exchange);
  const std::string name = fields.text("model");
  const JsonValue given = fields.required("messages");
  pipelines::ChatTemplateOptions prompting = template_options(fields);
  refuse_unsupported(fields);
  const ModelHandle model = chat_model(service, name);
  ChatMessages messages = messages_of(given, prompting.continue_final_message, *model);
  const pipelines::TextGenerator& generator = *model->pipelines().generator;
  CompletionOptions options;
  options.model = model->name();
  options.generate.search = generator.default_options().search;
  options.generate.search.max_new_tokens = kMostTokens;
  read_completion_fields(fields, chat_names(), pipelines::sampling_defaults(generator.model().generation),
                         options);
  read_tools(fields, *model, prompting, options);
  set_max_tokens(fields, options.generate.search);
  require_min_tokens(options.generate.search);
  options.logprobs = fields.boolean("logprobs");
  if (const auto top = fields.integer("top_logprobs")) {
    if (!options.logprobs && *top > 0)
      throw HttpError(400, "top_logprobs: expected logprobs to be true, found false");
    options.top_logprobs = static_cast<int>(*top);
  }
  fields.done();
  const std::string text = model->pipelines().chat->render(messages.messages, prompting);
  require_result(pipelines::text_error(text), "messages", 0, false);
  pipelines::Prompt prompt{.text = text, .special_tokens = false};
  if (messages.images.empty()) return complete(model, exchange, kChatForm, {&prompt, 1}, std::move(options));
  // The serial worker encodes images, so that neither the handlers nor the decoder wait for them.
  const CallHandle call = exchange->call(model);
  model->serial().submit(
      call, {.run =
                 [model, exchange, call, prompt, options, images = std::move(messages.images)]() mutable {
                   const pipelines::TextGenerator& reader = *model->pipelines().generator;
                   const int64_t most = reader.model().model->config().max_positions;
                   int64_t rows = 0;
                   for (const ImageFile& one : images) {
                     call->require_wanted();
                     prompt.images.push_back(reader.image(one.bytes, one.name));
                     rows += prompt.images.back()->rows.rows();
                     if (rows > most)
                       throw HttpError(400, concat("messages: expected images of at most ", most,
                                                   " tokens (the model's limit), found ", rows, " and more"));
                   }
                   complete(model, exchange, kChatForm, {&prompt, 1}, std::move(options));
                 },
             .on_failed = [exchange](const std::exception_ptr& error) { exchange->fail(error); }});
}

}  // namespace

Route chat_completions_route() {
  RequestFields fields = completion_fields(chat_names(), true);
  fields.insert(fields.begin() + 1,
                required("messages",
                         R"([{role: "system" | "developer" | "user" | "assistant" | "tool",
  content?: string | [{type: "text", text: string} | {type: "image_url", image_url: {url: string, detail?: any}}] | null, name?: string | null, tool_call_id?: string | null,
  reasoning_content?: string | null, tool_calls?: [{id?: string | null, type?: "function" | null,
  function: {name: string, arguments: string}}] | null}](1..))"));
  fields.insert(
      fields.end(),
      {whole("max_completion_tokens", between(1, kMostTokens), "Equal to max_tokens"), flag("logprobs"),
       whole("top_logprobs", between(0, 20)),
       flag("add_generation_prompt", "The prompt ends with the beginning of an answer", "true"),
       flag("continue_final_message", "The answer continues the last message"),
       optional("chat_template_kwargs", "object", "Variables of the chat template"),
       optional("tools",
                R"([{type: "function", function: {name: string, description?: string | null, parameters?: any,
  strict?: boolean | null}}](..128))"),
       optional("tool_choice",
                R"("none" | "auto" | "required" | {type: "function", function: {name: string}})"),
       flag("parallel_tool_calls", "Several calls in an answer", "true"),
       optional("functions", "[any](..0)", kUnsupported), optional("function_call", R"("none" | "auto")"),
       optional("modalities", R"(["text"])"), optional("audio", "{}", kUnsupported),
       optional("prediction", "{}", kUnsupported), optional("store", "false", kUnsupported),
       optional("metadata", "any")});
  return post(
      "/v1/chat/completions", complete_chat, "Answer a conversation.", std::move(fields),
      R"({id: string, object: "chat.completion", created: integer, model: string, seed?: integer(0..) 'Of sampling.',
  choices: [{index: integer(0..), message: {role: "assistant", content: string | null, refusal?: string | null,
      tool_calls?: [{id: string, type: "function", function: {name: string, arguments: string}}]},
    finish_reason: "stop" | "length" | "tool_calls", logprobs: {content: [ChatToken], refusal?: string | null} | null}],
  usage: Usage})",
      {.streams = true});
}

}  // namespace qkv::serve
