#include "qkv/models/hub/adapters/adapter_files.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/hub/cache.h"
#include "qkv/io/checksums.h"
#include "qkv/io/crc32c.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/config_writer.h"
#include "qkv/models/hub/tensor_files.h"
#include "qkv/ops/quantize.h"
#include "qkv/text/steps/pattern.h"

namespace qkv::models {
namespace {

constexpr std::string_view kModel = "base_model.model.";  // PEFT's name of the base model
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr const char* kBaseKey = "qkv:base";  // in the metadata: the checksum of the base's weights

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

// The outputs of the tensor that contains a weight.
int64_t outputs_of(const WeightRule& rule, int64_t own) { return rule.outputs > 0 ? rule.outputs : own; }

// The updates of one module of the family, which may be parts of one weight there (GPT-2's c_attn).
struct Module {
  int64_t outputs = 0;  // of the whole weight
  std::vector<std::pair<WeightRule, const nn::LowRankUpdate*>> updates;
};

// Several parts as one update of the whole weight: A's are stacked, and B is zero outside the diagonal
// blocks.
void add_tensors(const std::string& name, const Module& module, std::vector<io::NamedTensor>& tensors) {
  const Tensor& first_a = module.updates.front().second->a.variable.value();
  const int64_t rank = first_a.rows(), count = std::ssize(module.updates);
  Tensor a = Tensor::zeros({count * rank, first_a.cols()});
  Tensor b = Tensor::zeros({module.outputs, count * rank});
  int64_t first = 0;
  for (const auto& [rule, update] : module.updates) {
    a.slice_rows(first, rank).copy_from(update->a.variable.value());
    put_rows(update->b.variable.value(), rule, b.columns(first, rank));
    first += rank;
  }
  tensors.push_back({concat(kModel, name, kA), a});
  tensors.push_back({concat(kModel, name, kB), b});
}

// Fields of other methods, whose updates are computed differently.
void require_plain_lora(const ConfigReader& config) {
  config.require_string("peft_type", "LORA");
  config.require_string("bias", "none");
  for (const char* flag : {"use_dora", "use_qalora", "lora_bias"}) config.require_boolean(flag, false);
  for (const char* field : {"layer_replication", "target_parameters", "trainable_token_indices",
                            "alora_invocation_tokens", "use_bdlora"}) {
    if (config.has(field)) config.reject(field, "null");
  }
}

// The file of weights; model.safetensors' name if there is none.
std::filesystem::path weights_of(const std::filesystem::path& folder) {
  const std::filesystem::path of_pytorch = folder / kPytorchAdapter;
  return !std::filesystem::exists(folder / kAdapterWeights) && std::filesystem::exists(of_pytorch)
             ? of_pytorch
             : folder / kAdapterWeights;
}

Tensor widened(const io::TensorFile& file, const std::string& name, const Shape& expected) {
  const Tensor stored = file.as_stored(name, expected);
  if (stored.dtype() != DType::f32 && stored.dtype() != DType::f16 && stored.dtype() != DType::bf16)
    throw DataError(
        concat(file.path().string(), ": ", name, ": expected F32, F16 or BF16, found ", file.dtype(name)));
  return dequantize({stored});
}

void require_base(const io::TensorFile& opened, const ConfigReader& config,
                  const std::filesystem::path& base) {
  const auto* const file = dynamic_cast<const io::SafetensorsFile*>(&opened);
  if (file == nullptr) return;
  const auto found = file->metadata().find(kBaseKey);
  if (found == file->metadata().end()) return;  // of another program
  const std::string own = base_checksum(base);
  if (found->second == own) return;
  throw DataError(concat(file->path().string(), ": expected the base model that the adapter was trained on (",
                         config.string("base_model_name_or_path", "unknown"), ", checksum ", found->second,
                         "), found ", base.string(), " (checksum ", own, ")"));
}

}  // namespace

void write_adapter(const std::filesystem::path& folder, const nn::LowRankAdapter& adapter,
                   const VisitHead& visit_head, const WeightMap& map, const AdapterBase& base) {
  // A model without heads is not within another.
  const size_t within = base.task_type == "FEATURE_EXTRACTION" ? map.prefix.size() : 0;
  std::map<std::string, Module> modules;
  for (const nn::LowRankUpdate& update : adapter.updates()) {
    const MappedName mapped = mapped_name(map, update.name + ".weight");
    if (mapped.rule.experts > 0) {
      throw UsageError(concat(update.name, ": expected a weight with a tensor of its own, found one of ",
                              mapped.name,
                              ", which all experts share: an adapter's file has no place for it"));
    }
    const size_t begin = mapped.module.starts_with(map.prefix) ? within : 0;
    Module& module = modules[mapped.module.substr(begin)];
    module.outputs = outputs_of(mapped.rule, update.b.shape[0]);
    module.updates.emplace_back(mapped.rule, &update);
  }
  if (base.only_check) return;
  std::vector<io::NamedTensor> tensors;
  std::vector<std::string> targets;
  std::vector<std::pair<std::string, int64_t>> ranks;
  ConfigWriter alphas;
  const nn::LowRankOptions& options = adapter.options();
  for (const auto& [name, module] : modules) {
    add_tensors(name, module, tensors);
    targets.push_back(name);
    if (const int64_t count = std::ssize(module.updates); count > 1) {
      ranks.emplace_back(name, count * options.rank);
      alphas.number(name, static_cast<float>(count) * options.alpha);
    }
  }
  std::set<std::string> heads;
  for (const auto& [name, tensor] : stored_tensors(map, visit_head)) {
    tensors.push_back({concat(kModel, name), tensor});
    heads.insert(module_of(name));
  }
  // A module is saved with those within it.
  std::erase_if(heads, [&](const std::string& name) {
    return std::ranges::any_of(heads, [&](const auto& outer) { return name.starts_with(outer + "."); });
  });

  ConfigWriter config;
  config.string("peft_type", "LORA");
  if (!base.task_type.empty()) config.string("task_type", base.task_type);
  config.string("base_model_name_or_path",
                std::filesystem::absolute(base.folder).lexically_normal().string());
  config.integer("r", options.rank);
  config.number("lora_alpha", options.alpha);
  config.number("lora_dropout", 0.0f);
  config.string("bias", "none");
  config.boolean("inference_mode", true);
  config.boolean("fan_in_fan_out", std::ranges::any_of(map.rules, [](const WeightRule& rule) {
                   return rule.layout == Layout::transposed;
                 }));
  config.list("target_modules", targets);
  if (!heads.empty()) config.list("modules_to_save", {heads.begin(), heads.end()});
  config.integers("rank_pattern", ranks);
  config.object("alpha_pattern", alphas);
  make_writable_folder(folder);
  write_file_atomically(folder / kAdapterConfig, config.json());
  io::write_safetensors(
      folder / kAdapterWeights, tensors,
      io::with_checksums({{"format", "pt"}, {kBaseKey, base_checksum(base.folder)}}, tensors));
}

AdapterFiles::AdapterFiles(const std::filesystem::path& folder, WeightMap map,
                           const std::filesystem::path& base)
    : config_(read_file(folder / kAdapterConfig), (folder / kAdapterConfig).string()),
      file_(open_weights(weights_of(folder), MapFor::writing)),
      map_(std::move(map)) {
  require_plain_lora(config_);
  require_base(*file_, config_, base);
}

// PEFT's name of a tensor, in a model with its heads or alone.
std::string AdapterFiles::spelling(const std::string& name) const {
  std::string whole = concat(kModel, name);
  if (file_->contains(whole) || map_.prefix.empty() || !name.starts_with(map_.prefix)) return whole;
  return concat(kModel, name.substr(map_.prefix.size()));
}

// A pattern maps regular expressions of ends of module names to numbers; the first that matches counts, as in
// PEFT's get_pattern_key().
double AdapterFiles::number_of(const std::string& module, const char* pattern, double usual) const {
  if (!config_.has(pattern)) return usual;
  const ConfigReader numbers = config_.object(pattern);
  const std::string where = concat((file_->path().parent_path() / kAdapterConfig).string(), ": ", pattern);
  for (const auto& [key, value] : config_.entries(pattern)) {
    if (text::matches_python(concat("(.*\\.)?(", key, ")"), module, where)) return numbers.number(key, usual);
  }
  return usual;
}

bool AdapterFiles::replaces(const std::string& parameter) const {
  return file_->contains(spelling(mapped_name(map_, parameter).name));
}

void AdapterFiles::add_to(const std::string& name, const nn::Parameter& parameter,
                          std::set<std::string>& used) const {
  const MappedName mapped = mapped_name(map_, name);
  if (const std::string whole = spelling(mapped.name); file_->contains(whole)) {
    if (rearranges(mapped.rule))
      throw DataError(
          concat(file_->path().string(), ": ", whole, ": expected a low-rank update, found a weight"));
    parameter.set_value({widened(*file_, whole, parameter.shape).clone()});
    used.insert(whole);
  }
  if (!parameter.low_rank || !name.ends_with(".weight")) return;
  // Adapters made with transformers before its version 5 are named after the tensors.
  std::string module = mapped.module;
  if (!file_->contains(spelling(concat(module, kA)))) module = module_of(mapped.name);
  const std::string a_name = spelling(concat(module, kA));
  if (!file_->contains(a_name)) return;
  const std::string b_name = spelling(concat(module, kB));
  const int64_t outputs = parameter.shape[0], inputs = parameter.shape[1];
  const Shape found = file_->shape(a_name);
  const int64_t rank = found.rank() == 2 ? found[0] : 0;
  const Tensor a = widened(*file_, a_name, Shape{rank, inputs});
  const Tensor b = widened(*file_, b_name, Shape{outputs_of(mapped.rule, outputs), rank});
  const auto columns = static_cast<double>(rank);
  const std::string own = a_name.substr(kModel.size(), a_name.size() - kModel.size() - kA.size());
  if (const double said = number_of(own, "rank_pattern", config_.number("r", 8)); said != columns)
    throw DataError(concat(file_->path().string(), ": ", a_name, ": expected the rank ", said, " of ",
                           kAdapterConfig, ", found ", rank));
  const double alpha = number_of(own, "alpha_pattern", config_.number("lora_alpha", 8));
  const double scale = alpha / (config_.boolean("use_rslora", false) ? std::sqrt(columns) : columns);
  *parameter.low_rank = {Variable(a.clone()), Variable(own_rows(b, outputs, mapped.rule).clone()),
                         static_cast<float>(scale)};
  used.insert({a_name, b_name});
}

void AdapterFiles::add_to(const std::function<void(const nn::ParameterVisitor&)>& visit) const {
  const MemoryScope memory(MemoryUse::weights);
  std::set<std::string> used;
  visit([&](const std::string& name, const nn::Parameter& parameter) { add_to(name, parameter, used); });
  for (const std::string& name : file_->names()) {
    if (used.contains(name)) continue;
    throw DataError(
        concat(file_->path().string(), ": ", name,
               ": expected a tensor of a module that the model has (an adapter of another model, or "
               "of one with another head?)"));
  }
}

std::string base_checksum(const std::filesystem::path& folder) {
  const TensorFiles files(folder, MapFor::reading);
  std::string text;
  for (const auto& file : files.files()) {
    const MappedFile bytes(file->path(), MapFor::reading);
    text += io::checksum_text(io::crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return text;
}

bool is_adapter(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kAdapterConfig) && std::filesystem::exists(weights_of(folder));
}

std::filesystem::path base_folder(const std::filesystem::path& adapter) {
  const std::filesystem::path path = adapter / kAdapterConfig;
  const std::string name = ConfigReader(read_file(path), path.string()).string("base_model_name_or_path", "");
  std::string folder;
  try {
    folder = hub::model_folder(name);
  } catch (const IoError& error) {
    throw IoError(concat(path.string(),
                         ": base_model_name_or_path: expected the folder of the base model, found \"", name,
                         "\": ", error.what()));
  }
  if (std::filesystem::is_directory(folder)) return folder;
  throw IoError(concat(path.string(),
                       ": base_model_name_or_path: expected the folder of the base model, found \"", name,
                       "\", which is none on this machine"));
}

}  // namespace qkv::models
