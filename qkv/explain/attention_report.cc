#include "qkv/explain/attention_report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "qkv/base/error.h"
#include "qkv/explain/report_file.h"

namespace qkv::explain {

const std::vector<std::string>& AttentionReport::queries(Part part) const {
  return part == Part::encoder ? source_tokens : target_tokens;
}

const std::vector<std::string>& AttentionReport::keys(Part part) const {
  if (part != Part::decoder) return source_tokens;
  return target_inputs.empty() ? target_tokens : target_inputs;
}

void AttentionReport::validate() const {
  if (layers.empty()) throw UsageError("attention report: expected at least one layer, found none");
  const auto require_marks = [](const char* what, size_t marks, size_t tokens) {
    if (marks != 0 && marks != tokens) {
      throw ShapeError(concat("attention report, ", what, ": expected one for each of ", tokens,
                              " tokens, found ", marks));
    }
  };
  require_marks("source_special", source_special.size(), source_tokens.size());
  require_marks("target_special", target_special.size(), target_tokens.size());
  require_marks("alignment", alignment.size(), target_tokens.size());
  const auto require_position = [this](const char* what, int64_t position) {
    if (position < 0 || position >= std::ssize(source_tokens)) {
      throw UsageError(concat("attention report, ", what, ": expected a position below ",
                              source_tokens.size(), ", found ", position));
    }
  };
  if (second_text) require_position("second_text", *second_text);
  if (tile < 1) throw UsageError(concat("attention report, tile: expected 1 or more tokens, found ", tile));
  for (const int32_t position : alignment) require_position("alignment", position);
  std::map<Part, int64_t> heads_of;
  std::set<std::pair<Part, int>> seen;
  for (const AttentionLayer& layer : layers) {
    const std::string where = concat("attention report, ", name_of(layer.part), " layer ", layer.index);
    if (!layer.weights.defined()) throw ShapeError(concat(where, ": expected weights, found none"));
    if (!seen.emplace(layer.part, layer.index).second) {
      throw UsageError(concat(where, ": expected each layer once, found it twice"));
    }
    const int64_t heads = layer.weights.rank() == 3 ? layer.weights.dim(0) : 0;
    const auto known = heads_of.emplace(layer.part, heads).first;
    const Shape expected{std::max<int64_t>(known->second, 1),
                         static_cast<int64_t>(queries(layer.part).size()),
                         static_cast<int64_t>(keys(layer.part).size())};
    if (layer.weights.dtype() != DType::f32 || layer.weights.shape() != expected || expected.numel() == 0) {
      throw ShapeError(concat(where, ": expected f32 weights [heads, queries, keys] = ", expected,
                              ", according to tokens and previous layers, found ",
                              qkv::name_of(layer.weights.dtype()), " ", layer.weights.shape()));
    }
    if (!layer.statistics.empty() && std::ssize(layer.statistics) != heads) {
      throw ShapeError(concat(where, ", statistics: expected one for each of ", heads, " heads, found ",
                              layer.statistics.size()));
    }
    if (!std::ranges::all_of(layer.weights.clone().values(), [](float w) { return std::isfinite(w); })) {
      throw NumericError(concat(where, ": expected finite weights, found NaN or an infinity"));
    }
  }
}

ReportKind report_kind(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (extension == ".html") return ReportKind::html;
  if (extension == ".json") return ReportKind::json;
  if (extension == ".svg") return ReportKind::svg;
  throw UsageError(concat("attention report ", path.string(),
                          ": expected a file name ending in .html, .json or .svg, found ",
                          extension.empty() ? "none of them" : extension));
}

void write_report(const AttentionReport& report, const std::filesystem::path& path,
                  const SvgOptions& drawing) {
  if (drawing == SvgOptions()) return write_as_named(report, path);
  if (report_kind(path) != ReportKind::svg) {
    throw UsageError(
        concat("part, layer, head and dark: expected a file name ending in .svg, found ", path.string()));
  }
  write_file_atomically(path, to_svg(report, drawing));
}

}  // namespace qkv::explain
