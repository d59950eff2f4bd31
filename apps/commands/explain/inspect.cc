// qkv inspect

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "apps/folder_checks.h"
#include "apps/load_options.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/explain/cost.h"
#include "qkv/explain/parts.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/vision_tower.h"
#include "qkv/ops/quantize.h"
#include "qkv/search/engine/engine.h"

namespace qkv::apps {
namespace {

struct InspectArguments {
  std::string model, preset, layer;
  std::vector<std::string> sets;
  int64_t vocabulary = 8000;
  models::LoadOptions load;
  explain::Workload workload;
  explain::AttentionCostOptions attention;
  explain::FeedForwardCostOptions feed_forward;
  int64_t length = 32;
  bool no_bias = false, no_output_projection = false, json = false, verify = false;
  std::vector<std::pair<const char*, const Option*>> of_runs;  // options of the forward run
};

nlohmann::ordered_json json_of(const explain::Cost& cost, DType dtype) {
  return {{"parameters", cost.parameters},
          {"active_parameters", cost.active_parameters()},
          {"macs", cost.macs},
          {"pointwise", cost.pointwise},
          {"flops", cost.flops()},
          {"weight_bytes", cost.weight_bytes(dtype)},
          {"activation_bytes", cost.activation_bytes()}};
}

nlohmann::ordered_json json_of(const std::vector<explain::PartCost>& parts, DType dtype) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const explain::PartCost& part : parts) {
    nlohmann::ordered_json entry{{"name", part.name}};
    entry.update(json_of(part.cost, dtype));
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> row(const std::string& name, const explain::Cost& cost, DType dtype) {
  return {name,
          cost.inactive_parameters == 0
              ? grouped(cost.parameters)
              : concat(grouped(cost.parameters), " (", grouped(cost.active_parameters()), " active)"),
          bytes_text(cost.weight_bytes(dtype)),
          grouped(cost.macs),
          grouped(cost.flops()),
          bytes_text(cost.activation_bytes())};
}

const std::vector<std::string> kHeadings = {"part", "parameters", "weights", "MACs", "FLOPs", "activations"};

constexpr const char* kInspectNote =
    "\nMACs: multiply-accumulates of all matrix products of one forward run, including attention's.\n"
    "FLOPs: two per MAC, and one for each addition, exp, ... outside the products. Activations: f32\n"
    "results of operations.\n";

void set_fields(models::TransformerConfig& config, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(concat("--set: expected FIELD=VALUE, found '", set, "'"));
    std::string name = set.substr(0, equals);
    if (name.starts_with("model.")) name = name.substr(6);  // as in qkv train
    if (models::set_field(config, name, set.substr(equals + 1))) continue;
    std::vector<std::string> known;
    for (const auto& [field, value] : models::fields(config)) known.push_back(field);
    throw UsageError(concat("--set: ", expected_one_of(known, name)));
  }
}

// The inspected model, and the dtype of its weights.
struct Subject {
  models::TransformerConfig config;
  DType dtype;
};

Subject subject_of(const InspectArguments& arguments) {
  if (!arguments.model.empty()) {
    // Loads the weights too, to show the folder's actual contents.
    const auto model = models::load_transformer(arguments.model, arguments.load);
    return {model->config(), models::weight_dtype(*model)};
  }
  models::TransformerConfig config = models::preset(arguments.preset);
  config.source_vocabulary = config.target_vocabulary = arguments.vocabulary;
  set_fields(config, arguments.sets);
  return {config, arguments.load.dtype.value_or(DType::f32)};
}

// The f32 keys and values of a text with all positions of a language model, as `qkv generate` reserves them.
struct CacheSize {
  int64_t positions = 0, bytes = 0;
  bool in_blocks = false;  // whether q8_0 is possible
};

CacheSize cache_size(const models::LanguageModel& model) {
  const models::LanguageModelConfig& config = model.config();
  const nn::CacheUse use{.prompt = config.max_positions, .chunk = search::EngineOptions().prefill_tokens};
  bool in_blocks = true;
  try {
    nn::cache_bytes(config.decoder, use, 0, DType::q8_0);
  } catch (const UsageError&) {
    in_blocks = false;
  }
  return {config.max_positions, nn::cache_bytes(config.decoder, use, 0, DType::f32), in_blocks};
}

// "q4_1, f32", the dtype of the most parameters first.
std::string dtypes_text(explain::PartCount part) {
  std::ranges::stable_sort(part.dtypes, std::greater(), &std::pair<DType, int64_t>::second);
  std::string text;
  for (const auto& [dtype, parameters] : part.dtypes)
    text += concat(text.empty() ? "" : ", ", name_of(dtype));
  return text;
}

// A GGUF file's metadata, for people or as JSON; others have none.
std::vector<std::pair<std::string, std::string>> metadata_of(const std::string& model, bool json) {
  if (!models::is_gguf(model)) return {};
  const models::GgufModel opened(model);
  const io::GgufFile& file = opened.parts().front();
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& key : opened.summary())
    all.emplace_back(key, json ? file.json(key) : file.shown(key));
  return all;
}

// The part of a language model that reads images; none of a model that reads none.
std::vector<explain::PartCount> vision_parts(const InspectArguments& arguments,
                                             const models::LanguageModel& model) {
  std::optional<models::ImageReading> reading;
  try {
    reading = models::load_image_reading(arguments.model, model.config().embedding.d_model, arguments.load);
  } catch (const Error& error) {  // the language model can be inspected nevertheless
    log_warning(concat("images are not read: ", error.what()));
  }
  if (!reading) return {};
  explain::PartCount tower = explain::total(explain::count_parts(*reading->tower));
  tower.name = "vision_tower";
  return {tower};
}

// A model other than an encoder-decoder: parameters by part.
template <class Model>
void inspect_parts(const InspectArguments& arguments, const Model& model,
                   const std::vector<explain::PartCount>& more = {},
                   const std::optional<CacheSize>& cache = {}) {
  std::vector<explain::PartCount> parts = explain::count_parts(model);
  parts.insert(parts.end(), more.begin(), more.end());
  const auto metadata = metadata_of(arguments.model, arguments.json);
  const explain::PartCount sum = explain::total(parts);
  const int64_t total = sum.parameters, bytes = sum.weight_bytes, active = sum.active;
  if (arguments.json) {
    nlohmann::ordered_json result{{"model", arguments.model},
                                  {"dtype", weight_dtype_name(models::weight_dtype(model))},
                                  {"parameters", total},
                                  {"active_parameters", active},
                                  {"weight_bytes", bytes}};
    for (const auto& [key, value] : metadata) result["metadata"][key] = nlohmann::ordered_json::parse(value);
    if (cache) result["cache"] = {{"positions", cache->positions}, {"bytes", cache->bytes}};
    result["parts"] = nlohmann::ordered_json::parse(explain::to_json(parts));
    std::cout << result.dump(2) << '\n';
    return;
  }
  const Style style = Style::for_stdout();
  std::cout << style.bold(arguments.model) << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : metadata) rows.push_back({"  " + key, value});
  if (!rows.empty()) std::cout << table_text(std::exchange(rows, {})) << '\n';
  const auto add = [&](const std::string& name, const std::string& all, const std::string& own,
                       const std::string& weights, const std::string& dtypes) {
    rows.push_back({name, all});
    if (active != total) rows.back().push_back(own);
    rows.back().push_back(weights);
    if (!metadata.empty()) rows.back().push_back(dtypes);
  };
  add("part", "parameters", "active", "weights", "encodings");
  for (const explain::PartCount& part : parts) {
    add(part.name, grouped(part.parameters), grouped(part.active), bytes_text(part.weight_bytes),
        dtypes_text(part));
  }
  add("total", grouped(total), grouped(active), bytes_text(bytes), "");
  std::cout << table_text(rows);
  if (active < total)
    std::cout << style.dim("\nactive: the parameters that a token uses, of the experts only its own.\n");
  if (!cache) return;
  std::cout << style.dim(concat("\nKV cache: ", bytes_text(cache->bytes), " for a text of ",
                                grouped(cache->positions), " tokens; half of it with --cache-dtype bf16",
                                cache->in_blocks ? ", 0.27 with q8_0.\n" : ".\n"));
}

// The other models' parameters are counted, not the cost of a run.
void require_no_run(const InspectArguments& arguments) {
  for (const auto& [name, option] : arguments.of_runs) {
    if (option->count() > 0) throw UsageError(concat(name, ": only for encoder-decoders"));
  }
}

// The fields' values as text, d_k and d_v as the widths that a 0 stands for.
std::vector<std::vector<std::string>> field_rows(const models::TransformerConfig& config) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : models::fields(config)) {
    const bool follows = (name == "d_k" || name == "d_v") && value == "0";
    rows.push_back({"  " + name, follows ? std::to_string(config.d_model / config.heads) : value});
  }
  return rows;
}

void inspect_model(const InspectArguments& arguments) {
  if (!arguments.model.empty()) {
    const models::FolderKind kind = models::folder_kind(arguments.model);
    if (kind != models::FolderKind::translation) require_no_run(arguments);
    switch (kind) {
      case models::FolderKind::language: {
        const auto model = models::load_language_model(arguments.model, arguments.load);
        return inspect_parts(arguments, *model, vision_parts(arguments, *model), cache_size(*model));
      }
      case models::FolderKind::encoder:
        return inspect_parts(arguments, *models::load_text_encoder(arguments.model, arguments.load));
      case models::FolderKind::image:
        return inspect_parts(arguments, *models::load_image_encoder(arguments.model, arguments.load));
      case models::FolderKind::image_text:
        return inspect_parts(arguments, models::load_dual_encoder(arguments.model, arguments.load));
      case models::FolderKind::speech:
        return inspect_parts(arguments, *models::load_transformer(arguments.model, arguments.load));
      case models::FolderKind::translation:
        break;
    }
  }
  const auto [config, dtype] = subject_of(arguments);
  const explain::Workload& workload = arguments.workload;
  const std::vector<explain::PartCost> parts = explain::transformer_cost(config, workload);
  const explain::Cost total = explain::total(parts);
  if (arguments.json) {
    nlohmann::ordered_json result;
    (arguments.model.empty() ? result["preset"] : result["model"]) =
        arguments.model.empty() ? arguments.preset : arguments.model;
    for (const auto& [name, value] : models::fields(config)) result["config"][name] = value;
    result["dtype"] = weight_dtype_name(dtype);
    result["batch"] = workload.batch;
    result["source_length"] = workload.source_length;
    result["target_length"] = workload.target_length;
    result.update(json_of(total, dtype));
    result["parts"] = json_of(parts, dtype);
    std::cout << result.dump(2) << '\n';
    return;
  }
  const Style style = Style::for_stdout();
  std::cout << style.bold(arguments.model.empty() ? "preset " + arguments.preset : arguments.model) << '\n';
  std::vector<std::vector<std::string>> rows = field_rows(config);
  rows.push_back({"  dtype", weight_dtype_name(dtype)});
  std::cout << table_text(rows) << '\n'
            << style.bold(concat("one forward run: batch ", workload.batch, ", ", workload.source_length,
                                 " source and ", workload.target_length, " target tokens"))
            << '\n';
  rows = {kHeadings};
  for (const explain::PartCost& part : parts) rows.push_back(row(part.name, part.cost, dtype));
  rows.push_back(row("total", total, dtype));
  std::cout << table_text(rows) << style.dim(kInspectNote);
}

std::vector<explain::PartCost> layer_parts(const InspectArguments& arguments,
                                           nlohmann::ordered_json& described) {
  if (arguments.layer == "attention") {
    explain::AttentionCostOptions options = arguments.attention;
    options.batch = arguments.workload.batch;
    options.query_length = arguments.length;
    options.bias = !arguments.no_bias;
    options.output_projection = !arguments.no_output_projection;
    std::vector<explain::PartCost> parts = explain::attention_parts(options);
    described = {{"layer", "attention"},
                 {"d_model", options.d_model},
                 {"heads", options.heads},
                 {"key_heads", options.key_heads ? options.key_heads : options.heads},
                 {"d_k", options.d_k ? options.d_k : options.d_model / options.heads},
                 {"d_v", options.d_v ? options.d_v : options.d_model / options.heads},
                 {"batch", options.batch},
                 {"length", options.query_length},
                 {"key_length", options.key_length ? options.key_length : options.query_length},
                 {"causal", options.causal},
                 {"window", options.window},
                 {"bias", options.bias},
                 {"output_projection", options.output_projection}};
    return parts;
  }
  explain::FeedForwardCostOptions options = arguments.feed_forward;
  options.d_model = arguments.attention.d_model;
  options.bias = !arguments.no_bias;
  if (__builtin_mul_overflow(arguments.workload.batch, arguments.length, &options.tokens)) {
    throw UsageError("--batch and --length: expected smaller sizes, found numbers that overflow");
  }
  const explain::Cost cost = explain::feed_forward_cost(options);
  described = {{"layer", "feed-forward"},           {"d_model", options.d_model}, {"d_ff", options.d_ff},
               {"batch", arguments.workload.batch}, {"length", arguments.length}, {"bias", options.bias}};
  if (options.experts > 0) {
    described["experts"] = options.experts;
    described["experts_per_token"] = options.experts_per_token;
  }
  return {{"feed-forward", cost}};
}

void inspect_layer(const InspectArguments& arguments) {
  nlohmann::ordered_json described;
  const DType dtype = arguments.load.dtype.value_or(DType::f32);
  const std::vector<explain::PartCost> parts = layer_parts(arguments, described);
  const explain::Cost total = explain::total(parts);
  if (arguments.json) {
    described.update(json_of(total, dtype));
    if (parts.size() > 1) described["parts"] = json_of(parts, dtype);
    std::cout << described.dump(2) << '\n';
    return;
  }
  const Style style = Style::for_stdout();
  std::cout << style.bold("one " + arguments.layer + " layer") << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : described.items()) {
    if (name != "layer") rows.push_back({"  " + name, value.dump()});
  }
  std::cout << table_text(rows) << '\n';
  rows = {kHeadings};
  if (parts.size() > 1) {
    for (const explain::PartCost& part : parts) rows.push_back(row(part.name, part.cost, dtype));
  }
  rows.push_back(row(arguments.layer, total, dtype));
  std::cout << table_text(rows) << style.dim(kInspectNote);
}

void inspect(const InspectArguments& arguments) {
  const int subjects = !arguments.model.empty() + !arguments.preset.empty() + !arguments.layer.empty();
  if (subjects != 1) {
    throw UsageError(concat("inspect: expected a model folder, --preset or --layer, found ",
                            subjects == 0 ? "none of them" : "several of them"));
  }
  if (arguments.verify) return verify_folder_weights(arguments.model, arguments.json);
  if (arguments.layer.empty()) {
    inspect_model(arguments);
  } else {
    inspect_layer(arguments);
  }
}

}  // namespace

void add_inspect(Command& app) {
  Command* command = add_command(
      app, "inspect",
      "Show the cost of a model or a layer: parameters, multiplications and bytes, by part. For language\n"
      "models and encoders (gpt2, llama, bert, ...): parameters, and of language models the\n"
      "memory of the KV cache.",
      "qkv inspect model --batch 32 --src-len 30 --tgt-len 30\n"
      "  qkv inspect --preset base --vocab 37000 --set d_ff=4096 --json\n"
      "  qkv inspect --layer attention --d-model 512 --heads 8 --batch 32 --length 1024 --json");
  const auto arguments = std::make_shared<InspectArguments>();
  InspectArguments& a = *arguments;
  Option* model = add_model_option(*command, "model", a.model,
                                   "Model folder, a GGUF file, or the name of a model that qkv pull\n"
                                   "downloaded (default: none, with --preset or --layer)",
                                   "DIR|FILE.gguf");
  Option* preset = add_choice(*command, "--preset", a.preset, names_of(models::preset_names()),
                              "A model by preset, without a folder (default: none)");
  Option* layer = add_choice(*command, "--layer", a.layer, names_of({"attention", "feed-forward"}),
                             "A single layer (default: none)");
  preset->excludes(model);
  layer->excludes(model)->excludes(preset);
  const auto of_run = [&](const char* name, int64_t& value, const char* type, const char* help) {
    Option* option = add_option(*command, name, value, type, help);
    a.of_runs.emplace_back(name, option);
    return option;
  };
  of_run("--batch", a.workload.batch, "N", "Sequences in a batch");
  add_dtype_option(*command, a.load.dtype);
  command->add_flag("--json", a.json, "Print one JSON object");
  command
      ->add_flag("--verify", a.verify,
                 "Compare the weights with the checksums that their files carry, and nothing else;\n"
                 "status 1 where a tensor differs")
      ->needs(model);

  constexpr const char* kModel = "For models";
  of_run("--src-len", a.workload.source_length, "TOKENS", "Tokens of each source")
      ->excludes(layer)
      ->group(kModel);
  of_run("--tgt-len", a.workload.target_length, "TOKENS", "Tokens of each target")
      ->excludes(layer)
      ->group(kModel);
  add_option(*command, "--vocab", a.vocabulary, "TOKENS", "Size of the joint vocabulary")
      ->needs(preset)
      ->group(kModel);
  add_option(*command, "--set", a.sets, "FIELD=VALUE",
             "A field of the model; may be given several times (default: the preset's)")
      ->needs(preset)
      ->group(kModel);

  const auto of_layer = [&](Option* option) { option->needs(layer)->group("For layers"); };
  of_layer(add_option(*command, "--d-model", a.attention.d_model, "N", "Model width"));
  of_layer(add_option(*command, "--length", a.length, "TOKENS", "Tokens of each sequence (queries)"));
  of_layer(add_option(*command, "--heads", a.attention.heads, "N", "Heads"));
  of_layer(add_option(*command, "--key-heads", a.attention.key_heads, "N",
                      "Heads of keys and values, a divisor of --heads; 0: --heads"));
  of_layer(add_option(*command, "--d-k", a.attention.d_k, "N",
                      "Width of queries and keys per head; 0: --d-model / --heads"));
  of_layer(add_option(*command, "--d-v", a.attention.d_v, "N",
                      "Width of values per head; 0: --d-model / --heads"));
  of_layer(add_option(*command, "--key-length", a.attention.key_length, "TOKENS",
                      "Tokens of the keys' sequence; 0: self-attention"));
  of_layer(command->add_flag("--causal", a.attention.causal, "Count only the pairs that causality allows"));
  of_layer(add_option(*command, "--window", a.attention.window, "KEYS",
                      "With --causal: the keys that a query attends to, its own included; 0: all"));
  of_layer(command->add_flag("--no-output-projection", a.no_output_projection, "Without W^O"));
  of_layer(add_option(*command, "--d-ff", a.feed_forward.d_ff, "N", "Inner width of the feed-forward"));
  of_layer(add_option(*command, "--experts", a.feed_forward.experts, "N",
                      "Feed-forwards of which a token uses a few; 0: one for all"));
  of_layer(add_option(*command, "--experts-per-token", a.feed_forward.experts_per_token, "N",
                      "Of those, the ones that a token uses"));
  of_layer(command->add_flag("--no-bias", a.no_bias, "Without biases"));
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace qkv::apps
