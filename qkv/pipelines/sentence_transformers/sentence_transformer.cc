#include "qkv/pipelines/sentence_transformers/sentence_transformer.h"

#include <algorithm>
#include <array>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/pipelines/sentence_transformers/dense.h"

namespace qkv::pipelines {
namespace {

using models::ConfigReader;
using std::filesystem::path;

constexpr const char* kModules = "modules.json";

std::optional<ConfigReader> open_if_there(const path& model, const path& name) {
  const auto text = models::read_model_file(model, name.string());
  if (!text) return std::nullopt;
  return ConfigReader(*text, models::model_file_name(model, name.string()));
}

ConfigReader open(const path& model, const path& name) {
  if (auto reader = open_if_there(model, name)) return *reader;
  return {read_file(model / name), ""};  // throws
}

// A pooling mode: its name since version 6, and its flag in older versions.
struct Mode {
  const char* name;
  const char* flag;
  Pooling pooling;
};

constexpr std::array<Mode, 6> kModes{
    {{"mean", "pooling_mode_mean_tokens", Pooling::mean},
     {"cls", "pooling_mode_cls_token", Pooling::cls},
     {"max", "pooling_mode_max_tokens", Pooling::max},
     {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_len},
     {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
     {"lasttoken", "pooling_mode_lasttoken", Pooling::last_token}}};

Pooling named_pooling(const ConfigReader& reader) {
  const std::string name = reader.string("pooling_mode");
  for (const Mode& mode : kModes) {
    if (name == mode.name) return mode.pooling;
  }
  reader.reject("pooling_mode", "mean, cls, max, mean_sqrt_len_tokens, weightedmean or lasttoken");
}

// Several flags would concatenate several vectors, which is not supported.
Pooling flagged_pooling(const ConfigReader& reader) {
  std::optional<Pooling> found;
  for (const Mode& mode : kModes) {
    if (found) {
      reader.require_boolean(mode.flag, false);
    } else if (reader.boolean(mode.flag, false)) {
      found = mode.pooling;
    }
  }
  return found.value_or(Pooling::mean);
}

void require_width(const ConfigReader& reader, int64_t width) {
  for (const char* size : {"word_embedding_dimension", "embedding_dimension"}) {
    if (reader.has(size)) reader.require_integer(size, width);
  }
}

Pooling pooling_of(const ConfigReader& reader, int64_t d_model) {
  require_width(reader, d_model);
  reader.require_boolean("include_prompt", true);
  const Pooling pooling = reader.has("pooling_mode") ? named_pooling(reader) : flagged_pooling(reader);
  reader.reject_unknown_fields();
  return pooling;
}

// The last part of "sentence_transformers.models.Pooling", whose path other versions of that package change.
std::string class_of(const ConfigReader& module) {
  const std::string type = module.string("type");
  return type.substr(type.rfind('.') + 1);
}

std::optional<ConfigReader> transformer_config(const path& folder) {
  // Early versions of the package named the file after the family.
  for (const char* file :
       {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json"}) {
    if (auto reader = open_if_there(folder, file)) return reader;
  }
  return std::nullopt;
}

// What a Transformer hands to the pooling: hidden states, or logits of the task fill-mask.
void require_task(const path& folder, const std::string& task) {
  const auto reader = transformer_config(folder);
  if (!reader) return;
  reader->require_string("transformer_task", task);
  reader->require_string("module_output_name", "token_embeddings");
}

// Reads the modules, which are listed in execution order: a Transformer, a Pooling, any number of Dense,
// optionally a Normalize.
TextEmbedOptions modules_of(const path& folder, const std::string& modules, int64_t d_model) {
  const std::string file = models::model_file_name(folder, kModules);
  const std::vector<ConfigReader> all = ConfigReader::list(modules, file);
  if (all.size() < 2) {
    throw DataError(concat(file, ": expected a Transformer and a Pooling, found ", all.size(), " modules"));
  }
  TextEmbedOptions options;
  std::vector<DenseLayer> dense;
  for (size_t i = 0; i < all.size(); ++i) {
    const ConfigReader& module = all[i];
    if (options.vector.normalize) module.reject("type", "no module after Normalize");
    const std::string name = class_of(module);
    const path at = path(module.string("path"));
    if (i == 0) {
      if (name != "Transformer") module.reject("type", "a Transformer");
      module.require_string("path", "");
    } else if (i == 1) {
      if (name != "Pooling") module.reject("type", "a Pooling");
      options.vector.pooling = pooling_of(open(folder, at / "config.json"), d_model);
    } else if (name == "Dense") {
      dense.emplace_back(folder / at, dense.empty() ? d_model : dense.back().outputs());
    } else if (name == "Normalize") {
      options.vector.normalize = true;
      const auto reader = open_if_there(folder, at / "config.json");
      for (const char* end : {"module_input_name", "module_output_name"}) {
        if (reader) reader->require_string(end, "sentence_embedding");
      }
    } else {
      module.reject("type", "a Dense or a Normalize");
    }
  }
  require_task(folder, "feature-extraction");
  if (!dense.empty()) options.dense = std::make_shared<const std::vector<DenseLayer>>(std::move(dense));
  return options;
}

// Reads the modules of a SparseEncoder: a Transformer with its masked-language head, and a SpladePooling.
SparseEmbedOptions sparse_modules_of(const path& folder, const std::string& modules, int64_t vocabulary) {
  const std::string file = models::model_file_name(folder, kModules);
  const std::vector<ConfigReader> all = ConfigReader::list(modules, file);
  if (all.size() != 2)
    throw DataError(
        concat(file, ": expected an MLMTransformer and a SpladePooling, found ", all.size(), " modules"));
  const auto transformer = transformer_config(folder);
  const bool states_task = transformer && transformer->has("transformer_task");  // since version 6
  const std::string first = class_of(all[0]);
  if (first != "MLMTransformer" && !(first == "Transformer" && states_task))
    all[0].reject("type", "an MLMTransformer, or a Transformer of the task fill-mask");
  all[0].require_string("path", "");
  if (class_of(all[1]) != "SpladePooling") all[1].reject("type", "a SpladePooling, for sparse embeddings");
  require_task(folder, "fill-mask");
  const ConfigReader reader = open(folder, path(all[1].string("path")) / "config.json");
  const std::string strategy = reader.string("pooling_strategy", "max"),
                    activation = reader.string("activation_function", "relu");
  if (strategy != "max" && strategy != "sum") reader.reject("pooling_strategy", "max or sum");
  if (activation != "relu" && activation != "log1p_relu")
    reader.reject("activation_function", "relu or log1p_relu");
  require_width(reader, vocabulary);
  reader.reject_unknown_fields();
  return {.pooling = strategy == "sum" ? SparsePooling::sum : SparsePooling::max,
          .log_twice = activation == "log1p_relu"};
}

// do_lower_case has no effect on a tokenizer that lowercases by itself.
void require_case(const ConfigReader& reader, const text::Tokenizer& tokenizer) {
  if (reader.boolean("do_lower_case", false) && tokenizer.encode("A").ids != tokenizer.encode("a").ids) {
    reader.reject("do_lower_case", "false, because the tokenizer does not lowercase");
  }
}

}  // namespace

int64_t max_text_length(const path& folder, const models::TextEncoderConfig& config,
                        const text::Tokenizer& tokenizer) {
  const int64_t most = config.max_positions.value_or(INT64_MAX);
  const int64_t least = std::max<int64_t>(1, std::ssize(tokenizer.encode("").ids));  // with [CLS] and [SEP]
  const std::string expected = concat("at least ", least, " tokens");
  if (const auto reader = transformer_config(folder)) {
    require_case(*reader, tokenizer);
    if (reader->has("max_seq_length")) {
      if (reader->integer("max_seq_length") < least) reader->reject("max_seq_length", expected);
      return std::min(reader->integer("max_seq_length"), most);
    }
  }
  const auto reader = open_if_there(folder, "tokenizer_config.json");
  // Tokenizers without a limit write a number here that exceeds every integer type.
  const double limit = reader ? reader->number("model_max_length", 1e30) : 1e30;
  if (limit < static_cast<double>(least)) reader->reject("model_max_length", expected);
  return limit < static_cast<double>(most) ? static_cast<int64_t>(limit) : most;
}

namespace {

std::string prompt_of(const path& folder) {
  const auto reader = open_if_there(folder, "config_sentence_transformers.json");
  if (!reader || !reader->has("default_prompt_name")) return {};
  return reader->object("prompts").string(reader->string("default_prompt_name"));
}

}  // namespace

TextEmbedOptions sentence_transformer_options(const path& folder, const models::TextEncoder& model,
                                              const text::Tokenizer& tokenizer) {
  const auto modules = models::read_model_file(folder, kModules);
  if (!modules && model.config().pooled_row == models::PooledRow::last) {
    // Of models with encoders of images, whose processors cut texts.
    return {.vector = {.pooling = model.config().pooler ? Pooling::pooler : Pooling::last_token},
            .max_length = max_text_length(folder, model.config(), tokenizer)};
  }
  if (!modules) return {};
  TextEmbedOptions options = modules_of(folder, *modules, model.config().embedding.d_model);
  options.max_length = max_text_length(folder, model.config(), tokenizer);
  options.prompt = prompt_of(folder);
  return options;
}

SentenceModules sentence_modules(const path& folder) {
  const auto modules = models::read_model_file(folder, kModules);
  if (!modules) return SentenceModules::none;
  for (const ConfigReader& module : ConfigReader::list(*modules, models::model_file_name(folder, kModules))) {
    if (class_of(module) == "Pooling") return SentenceModules::dense;
    if (class_of(module) == "SpladePooling") return SentenceModules::sparse;
  }
  return SentenceModules::other;
}

SparseEmbedOptions sparse_encoder_options(const path& folder, const models::TextEncoder& model,
                                          const text::Tokenizer& tokenizer) {
  const auto modules = models::read_model_file(folder, kModules);
  if (!modules) return {};
  SparseEmbedOptions options = sparse_modules_of(folder, *modules, model.config().vocabulary);
  options.max_length = max_text_length(folder, model.config(), tokenizer);
  options.prompt = prompt_of(folder);
  return options;
}

std::string gguf_pooling(const path& folder) {
  const auto modules = models::read_model_file(folder, kModules);
  if (!modules) return "";
  const std::string file = models::model_file_name(folder, kModules);
  const models::TextEncoderConfig config = models::read_text_encoder_config(folder);
  const TextEmbedOptions options = modules_of(folder, *modules, config.embedding.d_model);
  if (options.dense)
    throw UsageError(concat(file, ": expected no Dense, which GGUF files do not have, found one"));
  if (!options.vector.normalize)
    log_warning(concat(file, ": there is no Normalize, but readers of GGUF files scale vectors to length 1"));
  if (!prompt_of(folder).empty())
    log_warning(concat(file, ": GGUF files have no prompt; prepend it to each text: ", prompt_of(folder)));
  const int64_t length = max_text_length(folder, config, models::load_tokenizer(folder));
  if (length < config.max_positions.value_or(INT64_MAX)) {
    log_warning(
        concat(file, ": GGUF files have no length to which texts are cut; cut them to ", length, " tokens"));
  }
  constexpr std::array kNames{std::pair{Pooling::mean, "mean"}, std::pair{Pooling::cls, "cls"},
                              std::pair{Pooling::last_token, "lasttoken"}};
  for (const auto& [pooling, name] : kNames) {
    if (pooling == options.vector.pooling) return name;
  }
  throw UsageError(
      concat(file, ": pooling: expected mean, cls or lasttoken, which GGUF files have, found another"));
}

std::string named_prompt(const path& folder, const std::string& name) {
  const auto reader = open_if_there(folder, "config_sentence_transformers.json");
  if (!reader || !reader->has("prompts")) {
    throw UsageError(
        concat("expected a model with prompts in config_sentence_transformers.json, found none in ",
               folder.filename().string()));
  }
  return reader->object("prompts").string(name);
}

void write_sentence_transformer(const path& folder, const TextEmbedOptions& options, int64_t d_model) {
  if (options.vector.pooling == Pooling::pooler || !options.prompt.empty()) {
    throw UsageError(concat("sentence-transformers: expected a pooling of tokens and no prompt, found ",
                            options.prompt.empty() ? "the pooler" : "a prompt"));
  }
  // The older names of modules and pooling modes, which newer versions read too.
  std::string modules;
  const auto add = [&modules](int index, const char* at, const char* type) {
    modules += concat(index > 0 ? ",\n" : "", "  {\n    \"idx\": ", index, ",\n    \"name\": \"", index,
                      "\",\n    \"path\": \"", at, "\",\n    \"type\": \"sentence_transformers.models.", type,
                      "\"\n  }");
  };
  add(0, "", "Transformer");
  add(1, "1_Pooling", "Pooling");
  if (options.vector.normalize) add(2, "2_Normalize", "Normalize");
  models::ConfigWriter pooling;
  pooling.integer("word_embedding_dimension", d_model);
  for (const Mode& mode : kModes) pooling.boolean(mode.flag, mode.pooling == options.vector.pooling);
  pooling.boolean("include_prompt", true);
  models::ConfigWriter transformer;
  if (options.max_length) transformer.integer("max_seq_length", *options.max_length);
  transformer.boolean("do_lower_case", false);

  make_writable_folder(folder / "1_Pooling");
  write_file_atomically(folder / "1_Pooling/config.json", pooling.json());
  write_file_atomically(folder / "sentence_bert_config.json", transformer.json());
  write_file_atomically(folder / kModules, concat("[\n", modules, "\n]\n"));
  std::filesystem::remove(folder / "config_sentence_transformers.json");
}

}  // namespace qkv::pipelines
