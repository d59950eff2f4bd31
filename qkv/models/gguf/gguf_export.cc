#include "qkv/models/gguf/gguf_export.h"

#include <algorithm>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/models/gguf/gguf_parts.h"
#include "qkv/ops/quantize.h"
#include "qkv/tensor/quantize_blocks.h"

namespace qkv::models {
namespace {

constexpr const char *kFileType = "general.file_type", *kQuantization = "general.quantization_version";

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

// The encodings of all tensors. `output`: of the output projection, or of the table that is tied to it.
void choose_encodings(std::vector<GgufPart>& parts, const GgufExport& options, GgufReport& report) {
  const bool untied =
      std::ranges::count(parts, "output.weight", [](const GgufPart& part) { return part.as.name; }) > 0;
  const std::string output = untied ? "output.weight" : "token_embd.weight";
  for (GgufPart& part : parts) {
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

void write_tensor(const GgufPart& part, io::GgufWriter& writer, const std::function<void(int64_t)>& wrote) {
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

}  // namespace

GgufReport write_gguf(const std::filesystem::path& to, io::GgufMetadata& metadata,
                      std::vector<GgufPart>& parts, const GgufExport& options,
                      const std::function<void(const GgufModel&)>& check) {
  GgufReport report;
  choose_encodings(parts, options, report);
  metadata.integer(kFileType, file_type(options.encoding));
  if (in_blocks(options.encoding)) metadata.integer(kQuantization, 2);
  std::vector<io::GgufWriter::Tensor> tensors;
  tensors.reserve(parts.size());
  for (const GgufPart& part : parts) tensors.push_back(part.as);
  if (check) {
    std::string beginning = io::gguf_header(to, metadata, tensors);
    for (const GgufPart& part : parts) {
      if (!part.describes) break;
      const QuantizedTensor numbers = part.numbers();
      const auto bytes = numbers.values.as_bytes();
      beginning.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      beginning.append(io::gguf_padding(beginning.size()), '\0');
    }
    check(GgufModel(io::GgufFile(to, std::move(beginning))));
  }
  io::GgufWriter writer(to, metadata, std::move(tensors));
  int64_t done = 0;
  for (const GgufPart& part : parts) {
    write_tensor(part, writer, [&](int64_t numbers) {
      done += numbers;
      if (options.progress) options.progress(done, report.numbers);
    });
  }
  writer.commit();
  report.bytes = static_cast<int64_t>(std::filesystem::file_size(to));
  return report;
}

namespace {

GgufReport from_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                     const GgufExport& options) {
  const GgufModel model(from);
  io::GgufMetadata metadata;
  const io::GgufFile& first = model.parts().front();
  for (const std::string& key : first.keys()) {
    if (key != kQuantization && key != "general.alignment" && !key.starts_with("split."))
      metadata.stored(key, first.stored(key));
  }
  std::vector<GgufPart> parts;
  for (const io::GgufFile& file : model.parts()) {
    for (const std::string& name : file.names()) {
      const io::GgufFile::Entry& entry = file.entry(name);
      if (!entry.dtype)
        throw DataError(concat(file.path().string(), ": ", name,
                               ": expected a type that is read here, found ", entry.type));
      GgufPart& part = parts.emplace_back();
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
  return write_gguf(to, metadata, parts, options);
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
    const bool is_folder = std::filesystem::is_directory(to, ignored);
    if (to.extension() != ".gguf" || is_folder) {
      throw UsageError(concat("to: expected a file whose name ends in .gguf, found ",
                              is_folder ? "the folder " : "", to.string()));
    }
    if (files_of_gguf(to).size() > 1)
      throw UsageError(
          concat("to: expected the name of a whole file, found that of one of several parts, ", to.string()));
    remove_partial_files_of(to);
    return is_gguf(from) ? from_gguf(from, to, options) : gguf_from_folder(from, to, options);
  });
}

}  // namespace qkv::models
