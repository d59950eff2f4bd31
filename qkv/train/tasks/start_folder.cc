#include "qkv/train/tasks/start_folder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/model_file.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/nn/named_parameters.h"
#include "qkv/ops/quantize.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;
using models::FolderKind;

// Of one tokenizer: a folder may have several formats of it.
constexpr std::array<std::string_view, 16> kTokenizerFiles{"tokenizer.json",
                                                           "tokenizer_config.json",
                                                           "special_tokens_map.json",
                                                           "added_tokens.json",
                                                           "vocab.txt",
                                                           "vocab.json",
                                                           "merges.txt",
                                                           "tokenizer.model",
                                                           "spiece.model",
                                                           "sentencepiece.bpe.model",
                                                           "spm.model",
                                                           "source.spm",
                                                           "target.spm",
                                                           "target_vocab.json",
                                                           "chat_template.jinja",
                                                           "chat_template.json"};
// config.json, and what other tasks read.
constexpr std::array<std::string_view, 7> kOtherFiles{
    "config.json",  "generation_config.json",    "preprocessor_config.json",         "processor_config.json",
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"};

// Settings of the modules of sentence-transformers: 1_Pooling/config.json.
void take_modules(const fs::path& folder, FileContents& files) {
  if (!fs::exists(folder / "modules.json")) return;
  for (const fs::path& module : files_in(folder)) {
    if (fs::is_directory(module)) take_file(folder, module.filename() / "config.json", files);
  }
}

const char* name_of(FolderKind kind) {
  switch (kind) {
    case FolderKind::translation:
      return "an encoder-decoder";
    case FolderKind::language:
      return "a language model";
    case FolderKind::encoder:
      return "a text encoder";
    case FolderKind::image:
      return "an image encoder";
    case FolderKind::image_text:
      return "an encoder of texts and one of images";
    case FolderKind::speech:
      return "an encoder-decoder of audio";
  }
  return "";
}

// Names of parameters begin with the part.
bool belongs_to(const std::string& name, std::string_view part) {
  return name.size() > part.size() && name.starts_with(part) && name[part.size()] == '.';
}

// `heads`: parts that the source may lack. `replaced`: those that it has for another purpose.
template <class Model>
void adopt(const fs::path& from, const Model& source, const Model& model, uint64_t seed,
           const std::vector<std::string_view>& heads, const std::vector<std::string_view>& replaced) {
  if (const DType dtype = models::weight_dtype(source); dtype == DType::i8 || in_blocks(dtype)) {
    log_warning(concat(from.string(), ": its weights are ", weight_dtype_name(dtype),
                       ": training starts from the rounded values, as f32; the folder "
                       "that they were made from is a better start"));
  }
  std::map<std::string, nn::Parameter> known;
  source.visit([&](const std::string& name, const nn::Parameter& parameter) { known[name] = parameter; });
  std::vector<std::string> fresh;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    const auto is_in = [&](std::string_view part) { return belongs_to(name, part); };
    const auto found = known.find(name);
    const bool missing = found == known.end() || std::ranges::any_of(replaced, is_in);
    if (missing && std::ranges::any_of(heads, is_in)) {
      nn::initialise(name, parameter, seed);
      const std::string part = name.substr(0, name.rfind('.'));
      if (fresh.empty() || fresh.back() != part) fresh.push_back(part);
      return;
    }
    if (missing || found->second.shape != parameter.shape) {
      throw DataError(concat(from.string(), ": ", name, ": expected ", parameter.shape, ", found ",
                             found == known.end() ? std::string("none") : concat(found->second.shape),
                             "; is it another model than when the run was set up?"));
    }
    const MemoryScope memory(MemoryUse::weights);
    const QuantizedTensor value = found->second.weight().value();
    const Tensor wide = dequantize(value);
    // The folder's file stays as it is, and may change or vanish.
    parameter.set_value({value.dtype() == DType::f32 ? wide.clone() : wide});
  });
  std::string list;
  for (const std::string& part : fresh) list += (list.empty() ? "" : ", ") + part;
  log_info(concat("weights from ", from.string(),
                  list.empty() ? "" : "; initialised at random from the seed: ", list));
}

template <class Config>
std::vector<std::string_view> replaced_labels(const Config& source, const Config& own) {
  if (source.labels == own.labels) return {};
  return {"classifier"};
}

}  // namespace

bool take_file(const fs::path& folder, const fs::path& name, FileContents& files) {
  if (!fs::is_regular_file(folder / name)) return false;
  files.emplace_back(name.string(), read_file(folder / name));
  return true;
}

FileContents read_tokenizer_files(const fs::path& folder) {
  FileContents files;
  for (const std::string_view name : kTokenizerFiles) take_file(folder, name, files);
  return files;
}

void write_tokenizer_files(const fs::path& run, const FileContents& files) {
  for (const std::string_view name : kTokenizerFiles) {
    const auto own = std::ranges::find(files, name, [](const auto& file) { return file.first; });
    if (own == files.end()) {
      fs::remove(run / name);
    } else {
      write_file_atomically(run / name, own->second);
    }
  }
}

StartFolder::StartFolder(fs::path from, FolderKind kind, const fs::path& run, bool resumes)
    : from_(std::move(from)), files_at_(resumes ? run / kStartCopies : from_) {
  models::refuse_gguf(from_, "model.from");
  const FolderKind found = models::folder_kind(files_at_);
  family_ = models::family_of(files_at_);
  // A language model is an encoder whose tokens attend to earlier ones alone.
  const bool reads_texts = kind == FolderKind::encoder && found == FolderKind::language &&
                           models::find_family(models::encoder_families(), family_) != nullptr;
  if (found != kind && !reads_texts) {
    throw UsageError(concat("model.from ", from_.string(), ": expected the folder of ", name_of(kind),
                            ", found \"", family_, "\", ", name_of(found)));
  }
  files_ = read_tokenizer_files(files_at_);
  for (const std::string_view name : kOtherFiles) take_file(files_at_, name, files_);
  take_modules(files_at_, files_);
}

models::LanguageModelConfig StartFolder::language_model_config() const {
  return models::read_language_model_config(files_at_);
}

models::TextEncoderConfig StartFolder::text_encoder_config() const {
  models::TextEncoderConfig config = models::read_text_encoder_config(files_at_);
  if (config.padded)
    throw UsageError(concat("model.from ", from_.string(),
                            ": expected an encoder that reads no pad tokens, found \"", family_, "\""));
  return config;
}

models::ImageEncoderConfig StartFolder::image_encoder_config() const {
  return models::read_image_encoder_config(files_at_);
}

models::TransformerConfig StartFolder::transformer_config() const {
  return models::read_transformer_config(files_at_);
}

text::Tokenizer StartFolder::tokenizer(int64_t vocabulary) const {
  text::Tokenizer tokenizer = text::Tokenizer::load(files_at_);
  if (tokenizer.size() > vocabulary) {
    throw DataError(concat(from_.string(), ": expected a tokenizer of at most the model's ", vocabulary,
                           " tokens, found ", tokenizer.size()));
  }
  return tokenizer;
}

void StartFolder::begin(const fs::path& run) const {
  fs::remove_all(run / kStartCopies);
  make_writable_folder(run / kStartCopies);
  for (const auto& [name, content] : files_) {
    const fs::path file = run / kStartCopies / name;
    fs::create_directories(file.parent_path());
    write_file_atomically(file, content);
  }
  write_tokenizer_files(run, files_);
}

void initialise_from(const fs::path& from, const models::LanguageModel& model, uint64_t seed) {
  adopt(from, *models::load_language_model(from), model, seed, {}, {});
}

void initialise_from(const fs::path& from, const models::TextEncoder& model, uint64_t seed) {
  const auto source = models::load_text_encoder(from, {.heads = &model.config()});
  const models::TextEncoderConfig &own = model.config(), &other = source->config();
  std::vector<std::string_view> replaced = replaced_labels(other, own);
  if (other.labelled != own.labelled) replaced = {"classifier"};
  adopt(from, *source, model, seed, {"classifier", "pooler", "masked_language", "next_sentence"}, replaced);
}

void initialise_from(const fs::path& from, const models::ImageEncoder& model, uint64_t seed) {
  const auto source = models::load_image_encoder(from);
  adopt(from, *source, model, seed, {"classifier", "pooler"},
        replaced_labels(source->config(), model.config()));
}

void initialise_from(const fs::path& from, const models::Transformer& model, uint64_t seed) {
  adopt(from, *models::load_transformer(from), model, seed, {}, {});
}

bool is_dropout_rate(std::string_view field) {
  return field == "model.drop_path" || field.ends_with("dropout");
}

void refuse_settings_of_folder(const std::set<std::string>& given,
                               std::initializer_list<std::string_view> others) {
  for (const std::string& name : given) {
    if (name == "model.from" || is_dropout_rate(name)) continue;
    const auto begins = [&name](std::string_view part) { return name.starts_with(part); };
    if (begins(kModelFields) || std::ranges::any_of(others, begins))
      throw UsageError(concat(name, ": expected none with model.from, whose folder has its own, found one"));
  }
}

models::ModelShape shape_of(const nn::StackOptions& stack, int64_t max_positions) {
  const nn::LayerOptions& layer = stack.first();
  return {.layers = stack.size(),
          .d_model = layer.d_model,
          .heads = layer.heads,
          .key_heads = layer.key_heads,
          .d_ff = layer.d_ff,
          .experts = layer.experts.count,
          .experts_per_token = layer.experts.per_token,
          .max_positions = max_positions,
          .dropout = layer.dropout,
          .attention_dropout = layer.attention_dropout,
          .drop_path = stack.drop_path};
}

void complete_fine_tuning(TrainOptions& options, const std::set<std::string>& given) {
  for (const auto& [name, value] : {std::pair("schedule.kind", "linear"),
                                    {"schedule.learning_rate", "5e-5"},
                                    {"schedule.warmup_steps", "0"},
                                    {"adam.beta2", "0.999"},
                                    {"adam.epsilon", "1e-8"},
                                    {"adam.weight_decay", "0.01"}}) {
    if (!given.contains(name)) set_field(options, name, value);
  }
  limit_fine_tuning(options, given);
}

void limit_fine_tuning(TrainOptions& options, const std::set<std::string>& given) {
  const bool limited = std::ranges::any_of(given, [](const std::string& name) {
    return name.starts_with("train.max_") && name != "train.max_length";
  });
  if (!limited) options.max_epochs = 3;
}

}  // namespace qkv::train
