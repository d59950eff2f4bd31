#include "qkv/models/gguf/gguf_export.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/base/log.h"
#include "qkv/models/gguf/gguf_model.h"
#include "qkv/models/hub/config_reader.h"
#include "qkv/models/hub/family.h"
#include "qkv/models/hub/pretrained.h"
#include "qkv/models/hub/read_config.h"
#include "qkv/models/hub/settings.h"
#include "qkv/ops/quantize.h"
#include "qkv/tensor/quantize_blocks.h"

namespace qkv::models {
namespace {

constexpr const char *kFileType = "general.file_type", *kQuantization = "general.quantization_version";
// Of gguf_architectures(), those that are written.
constexpr std::array<std::string_view, 3> kFamilies{"llama", "qwen2", "qwen3"};
constexpr const char *kTokenizerFile = "tokenizer.json", *kGenerationFile = "generation_config.json";

// llama.h, enum llama_ftype.
int64_t file_type(DType encoding) {
  switch (encoding) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::q4_0:
      return 2;
    case DType::q4_1:
      return 3;
    case DType::q8_0:
      return 7;
    case DType::q5_0:
      return 8;
    case DType::q5_1:
      return 9;
    case DType::q4_k:
      return 14;  // Q4_K_S, as all layers have the same type
    case DType::q5_k:
      return 16;
    case DType::q6_k:
      return 18;
    case DType::iq4_nl:
      return 25;
    default:
      return 32;  // bf16
  }
}

// Fewer than six bits a number.
bool is_coarse(DType encoding) {
  return in_blocks(encoding) && encoding != DType::q8_0 && encoding != DType::q6_k;
}

// A tensor of the file, and its numbers in any dtype.
struct Part {
  io::GgufWriter::Tensor as;
  std::function<QuantizedTensor()> numbers;
};

// The encodings of all tensors. `output`: of the output projection, or of the table that is tied to it.
void choose_encodings(std::vector<Part>& parts, const GgufExport& options, GgufReport& report) {
  const bool untied =
      std::ranges::count(parts, "output.weight", [](const Part& part) { return part.as.name; }) > 0;
  const std::string output = untied ? "output.weight" : "token_embd.weight";
  for (Part& part : parts) {
    auto& [name, shape, dtype] = part.as;
    const bool is_matrix = shape.rank() > 1 && name.ends_with(".weight") && name != "position_embd.weight" &&
                           name != "token_types.weight";
    dtype = DType::f32;
    if (is_matrix) {
      const DType wanted = name == output && is_coarse(options.encoding) ? DType::q6_k : options.encoding;
      dtype = fitting_encoding(wanted, shape[-1]);
      if (dtype != wanted) report.fallbacks[shape[-1]] = dtype;
    }
    report.numbers += shape.numel();
    ++report.tensors[dtype];
  }
}

void write_tensor(const Part& part, io::GgufWriter& writer, const std::function<void(int64_t)>& wrote) {
  const auto& [name, shape, dtype] = part.as;
  const QuantizedTensor stored = part.numbers();
  const int64_t columns = shape[-1], rows = shape.numel() / columns;
  const QuantizedTensor whole{stored.values.reshape({rows, columns}), stored.scales};
  constexpr int64_t kNumbersAtOnce = 1 << 22;
  const int64_t rows_at_once = std::max<int64_t>(1, kNumbersAtOnce / columns);
  std::vector<std::byte> encoded;
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows - row), numbers = count * columns;
    const QuantizedTensor some{whole.values.slice_rows(row, count),
                               whole.scales.defined() ? whole.scales.slice_rows(row, count) : Tensor()};
    if (some.dtype() == dtype && in_blocks(dtype)) {  // as they are
      writer.write(some.values.as_bytes().data(), some.values.bytes());
    } else {
      const Tensor widened = dequantize(some);
      encoded.resize(bytes_of(dtype, numbers));
      try {
        quantize_blocks(dtype, widened.values().data(), numbers, encoded.data());
      } catch (const NumericError& error) {
        throw NumericError(concat(name, ": ", error.what()));
      }
      writer.write(encoded.data(), encoded.size());
    }
    wrote(numbers);
  }
}

GgufReport write_file(const std::filesystem::path& to, io::GgufMetadata& metadata, std::vector<Part>& parts,
                      const GgufExport& options) {
  GgufReport report;
  choose_encodings(parts, options, report);
  metadata.integer(kFileType, file_type(options.encoding));
  if (in_blocks(options.encoding)) metadata.integer(kQuantization, 2);
  std::vector<io::GgufWriter::Tensor> tensors;
  tensors.reserve(parts.size());
  for (const Part& part : parts) tensors.push_back(part.as);
  io::GgufWriter writer(to, metadata, std::move(tensors));
  int64_t done = 0;
  for (const Part& part : parts) {
    write_tensor(part, writer, [&](int64_t numbers) {
      done += numbers;
      if (options.progress) options.progress(done, report.numbers);
    });
  }
  writer.commit();
  report.bytes = static_cast<int64_t>(std::filesystem::file_size(to));
  return report;
}

GgufReport from_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                     const GgufExport& options) {
  const GgufModel model(from);
  io::GgufMetadata metadata;
  const io::GgufFile& first = model.parts().front();
  for (const std::string& key : first.keys()) {
    if (key != kQuantization && key != "general.alignment" && !key.starts_with("split."))
      metadata.stored(key, first.stored(key));
  }
  std::vector<Part> parts;
  for (const io::GgufFile& file : model.parts()) {
    for (const std::string& name : file.names()) {
      const io::GgufFile::Entry& entry = file.entry(name);
      if (!entry.dtype)
        throw DataError(concat(file.path().string(), ": ", name,
                               ": expected a type that is read here, found ", entry.type));
      Part& part = parts.emplace_back();
      part.as.name = name;
      part.as.shape = entry.shape;
      part.numbers = [&file, &entry] {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): read-only below
        auto* const bytes = const_cast<std::byte*>(entry.bytes.data());
        return QuantizedTensor{Tensor::wrap(Storage(file.mapping(), bytes), entry.shape, *entry.dtype)
                                   .as_read_only(file.path().string())};
      };
    }
  }
  return write_file(to, metadata, parts, options);
}

// Outputs are rows in GGUF files, LLaMA's rotary pairs are side by side, and norms' weights whole.
WeightMap own_layout(WeightMap map, const LanguageModelConfig& config, std::string_view model_type) {
  const nn::LayerOptions layer = resolved(config.decoder.first());
  for (WeightRule& rule : map.rules) {
    rule.layout = Layout::same;
    rule.minus_one = false;
    const bool query = rule.ours.ends_with("q_proj"), key = rule.ours.ends_with("k_proj");
    if (model_type == "llama" && (query || key))
      rule.paired = {query ? layer.heads : layer.key_heads, layer.d_k};
  }
  return map;
}

// A tensor of a GGUF file, and the parameters in it.
struct Source {
  std::vector<std::pair<nn::Parameter, WeightRule>> parameters;
  Shape shape;

  QuantizedTensor numbers() const {
    const auto& [first, of_first] = parameters.front();
    if (parameters.size() == 1 && !rearranges(of_first)) return first.weight().value();
    const Tensor whole = Tensor::empty(shape, DType::f32);
    for (const auto& [parameter, own] : parameters)
      put_rows(dequantize(parameter.weight().value()), own, whole);
    return {whole};
  }
};

std::vector<Part> parts_of_model(const LanguageModel& model, const LanguageFamily& family) {
  const WeightMap map = own_layout(family.weight_map(model.config()), model.config(), family.model_type);
  std::map<std::string, Source> sources;
  std::vector<std::string> order;
  model.visit([&](const std::string& name, const nn::Parameter& parameter) {
    if (!parameter.defined()) return;
    const MappedName to = mapped_name(map, name);
    std::string own = GgufModel::own_name(family.model_type, to.name);
    if (own.empty()) {
      throw UsageError(concat(to.name, ": expected a tensor of ", family.model_type,
                              " that GGUF files have a name for, found none"));
    }
    Source& source = sources[own];
    if (source.parameters.empty()) order.push_back(own);
    source.parameters.emplace_back(parameter, to.rule);
    std::vector<int64_t> extents(parameter.shape.extents().begin(), parameter.shape.extents().end());
    if (to.rule.outputs > 0) extents.front() = to.rule.outputs;
    source.shape = Shape(extents);
  });
  std::vector<Part> parts(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Source& source = sources.at(order[i]);
    parts[i].as.name = order[i];
    parts[i].as.shape = source.shape;
    parts[i].numbers = [source] { return source.numbers(); };
  }
  return parts;
}

// The sampling that generation_config.json recommends, as llama.cpp's converter has it.
void put_sampling(const std::filesystem::path& folder, io::GgufMetadata& metadata) {
  const std::filesystem::path path = folder / kGenerationFile;
  if (!std::filesystem::exists(path)) return;
  const ConfigReader file(read_file(path), path.string());
  constexpr std::array<std::pair<const char*, const char*>, 3> kNumbers{
      {{"temperature", "temp"}, {"top_p", "top_p"}, {"min_p", "min_p"}}};
  const bool samples = file.boolean("do_sample", false);
  const auto put = [&](const char* theirs, const char* own) {
    if (file.has(theirs)) metadata.number(concat("general.sampling.", own), file.number(theirs, 0));
  };
  for (const auto& [theirs, own] : kNumbers) {
    if (samples) put(theirs, own);
  }
  if (samples && file.has("top_k")) metadata.integer("general.sampling.top_k", file.integer("top_k"));
  if (!samples && file.has("repetition_penalty")) metadata.number("general.sampling.temp", 0);
  put("repetition_penalty", "penalty_repeat");
  file.ignore(
      "temperature top_p min_p top_k do_sample bos_token_id eos_token_id pad_token_id transformers_version "
      "_from_model_config max_length max_new_tokens");
  for (const std::string& key : file.unread())
    log_warning(concat(path.string(), ": ", key, " has no counterpart in GGUF files"));
}

void put_special_tokens(const LanguageModelConfig& config, const text::SpecialTokens& tokens,
                        const std::string& where, io::GgufMetadata& metadata) {
  const auto put = [&](const char* name, std::optional<int32_t> id) {
    const std::string key = concat("tokenizer.ggml.", name);
    if (id) metadata.integer(key, *id);
  };
  if (!config.bos_ids.empty()) put("bos_token_id", config.bos_ids.front());
  constexpr std::array kEnds{"eos_token_id", "eot_token_id", "eom_token_id"};
  if (config.eos_ids.size() > kEnds.size())
    throw UsageError(concat(where, ": eos_token_id: expected up to ", kEnds.size(),
                            " end tokens, for which GGUF files have keys, found ", config.eos_ids.size()));
  for (size_t i = 0; i < config.eos_ids.size(); ++i) put(kEnds[i], config.eos_ids[i]);
  put("unknown_token_id", tokens.unk);
  put("padding_token_id", tokens.pad);
}

// Texts whose ids the two tokenizers must agree on, beyond the structure that put_gguf_tokenizer() checks.
constexpr std::array kProbes{
    "Hello, world!  It's 2024 -- 12345 apples\tand\n\n3 pears. ",
    " leading space, trailing space ",
    "Gr\xC3\xBC\xC3\x9F"
    "e aus \xE6\x9D\xB1\xE4\xBA\xAC \xF0\x9F\x99\x82\xF0\x9F\x8F\xBD e\xCC\x81 \xC3\xA9",
    "x=[1,2];\r\nif (a<b) { return \"q\"; } // 'tis\r\n",
    "WE'LL can't I'D  they've    \n  \n",
    ""};

void require_same_tokenizer(const std::filesystem::path& folder, const io::GgufMetadata& metadata,
                            const std::filesystem::path& to) {
  if (const auto parent = to.parent_path(); !parent.empty() && !std::filesystem::is_directory(parent))
    throw IoError(concat("cannot write ", to.string(), ": there is no folder ", parent.string()));
  const std::filesystem::path check = concat(to.string(), ".tokenizer-", getpid(), ".gguf");
  io::GgufWriter(check, metadata, {}).commit();
  std::optional<text::Tokenizer> theirs;
  try {
    theirs = load_tokenizer(check);
  } catch (const Error&) {
    std::filesystem::remove(check);
    throw;
  }
  std::filesystem::remove(check);
  const text::Tokenizer ours = load_tokenizer(folder);
  std::vector<std::string> probes(kProbes.begin(), kProbes.end());
  constexpr size_t kMost = 100;
  for (int32_t id = 0; id < ours.size() && probes.size() < kMost; ++id) {
    if (ours.is_special(id)) probes.push_back(concat("a ", ours.token(id).value_or(""), " b"));
  }
  for (const std::string& probe : probes) {
    if (ours.encode(probe).ids != theirs->encode(probe).ids)
      throw DataError(
          concat((folder / kTokenizerFile).string(),
                 ": expected a tokenizer with a counterpart in GGUF files, found one that gives other "
                 "ids than its counterpart, of: ",
                 probe));
  }
}

// Of ids, each a number or a list, or null.
bool has_all(const nlohmann::json& ids, const nlohmann::json& some) {
  const auto list = [](const nlohmann::json& one) {
    return one.is_number()  ? std::vector{one.get<int64_t>()}
           : one.is_array() ? one.get<std::vector<int64_t>>()
                            : std::vector<int64_t>();
  };
  const std::vector<int64_t> all = list(ids);
  return std::ranges::all_of(list(some), [&](int64_t id) { return std::ranges::count(all, id) > 0; });
}

// What qkv reads from the file is what was written, but for dropout, which is of training, and end tokens
// that are found by their texts.
void require_same_settings(const std::string& written, const std::string& read, const std::string& where) {
  const auto ours = nlohmann::json::parse(written), theirs = nlohmann::json::parse(read);
  for (const auto& [key, value] : ours.items()) {
    const nlohmann::json found = theirs.value(key, nlohmann::json());
    if (key.ends_with("dropout") || key.ends_with("pdrop") || found == value) continue;
    if (key == "eos_token_id" && has_all(found, value)) continue;
    throw UsageError(concat(where, ": ", key, ": expected a value that GGUF files have, found ", value.dump(),
                            ", which would be read as ", found.dump()));
  }
}

GgufReport from_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                       const GgufExport& options) {
  const std::string type = family_of(from);
  if (std::ranges::count(kFamilies, type) == 0) {
    std::string known;
    for (const std::string_view one : kFamilies) known += concat(known.empty() ? "" : ", ", one);
    throw UsageError(concat((from / "config.json").string(),
                            ": model_type: expected one that is written as a GGUF file (", known, "), found ",
                            type));
  }
  const LanguageFamily* const family = find_family(language_families(), type);
  if (family == nullptr || folder_kind(from) != FolderKind::language)
    throw UsageError(concat(from.string(), ": expected a language model, found another kind of ", type));
  const auto model = load_language_model(from);
  const std::string where = (from / "config.json").string();
  io::GgufMetadata metadata;
  const std::vector<float> divisors =
      put_gguf_config(family->serialize(model->config()).json(), where, metadata);
  metadata.text("general.type", "model");
  metadata.text("general.name", std::filesystem::absolute(from).lexically_normal().filename().string());
  const std::filesystem::path tokenizer = from / kTokenizerFile;
  if (!std::filesystem::exists(tokenizer))
    throw DataError(
        concat(tokenizer.string(), ": expected this file, of which GGUF files have a copy, found none"));
  put_gguf_tokenizer(read_file(tokenizer), tokenizer.string(), model->config().vocabulary, metadata);
  put_special_tokens(model->config(), load_tokenizer(from).special_tokens(), where, metadata);
  require_same_tokenizer(from, metadata, to);
  std::vector<std::string> other_templates;
  for (const auto& [name, source] : options.chat_templates) {
    const bool usual = name == "default";
    metadata.text(concat("tokenizer.chat_template", usual ? "" : ".", usual ? "" : name), source);
    if (!usual) other_templates.push_back(name);
  }
  if (!other_templates.empty()) metadata.texts("tokenizer.chat_templates", other_templates);
  put_sampling(from, metadata);
  std::vector<Part> parts = parts_of_model(*model, *family);
  if (!divisors.empty()) {
    Tensor values = Tensor::empty(Shape{std::ssize(divisors)}, DType::f32);
    std::ranges::copy(divisors, values.values().begin());
    Part& part = parts.emplace_back();
    part.as.name = "rope_freqs.weight";
    part.as.shape = values.shape();
    part.numbers = [values] { return QuantizedTensor{values}; };
  }
  GgufReport report = write_file(to, metadata, parts, options);
  try {
    require_same_settings(family->serialize(model->config()).json(),
                          family->serialize(read_language_model_config(to)).json(), where);
  } catch (const Error&) {
    std::filesystem::remove(to);
    throw;
  }
  return report;
}

}  // namespace

DType fitting_encoding(DType encoding, int64_t columns) {
  const auto fits = [&](DType one) { return columns % layout_of(one).block == 0; };
  if (fits(encoding)) return encoding;
  const DType next = encoding == DType::q4_k   ? DType::q5_0
                     : encoding == DType::q5_k ? DType::q5_1
                                               : DType::q8_0;
  return fits(next) ? next : DType::f16;
}

GgufReport export_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                       const GgufExport& options) {
  return with_io_errors([&] {
    std::error_code ignored;
    if (to.extension() != ".gguf" || std::filesystem::is_directory(to, ignored))
      throw UsageError(concat("to: expected a file whose name ends in .gguf, found ", to.string()));
    return is_gguf(from) ? from_gguf(from, to, options) : from_folder(from, to, options);
  });
}

}  // namespace qkv::models
