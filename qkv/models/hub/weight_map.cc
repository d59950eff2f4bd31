#include "qkv/models/hub/weight_map.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/field_text.h"
#include "qkv/base/log.h"
#include "qkv/kernels/pointwise.h"
#include "qkv/models/hub/mxfp4.h"
#include "qkv/ops/quantize.h"

namespace qkv::models {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The numbers for '#' and '*' in a name.
struct Numbers {
  std::string layer, expert;
};

// The numbers with which a pattern is this name; nothing if there are none.
std::optional<Numbers> matched(std::string_view pattern, std::string_view name) {
  Numbers numbers;
  size_t at = 0;
  for (const char c : pattern) {
    if (c == '#' || c == '*') {
      std::string& number = c == '#' ? numbers.layer : numbers.expert;
      while (at < name.size() && is_digit(name[at])) number += name[at++];
      if (number.empty()) return std::nullopt;
    } else if (name.substr(at).starts_with(c)) {
      ++at;
    } else {
      return std::nullopt;
    }
  }
  return at == name.size() ? std::optional(numbers) : std::nullopt;
}

std::string filled(std::string_view pattern, const Numbers& numbers) {
  std::string name;
  for (const char c : pattern) {
    if (c == '#') {
      name += numbers.layer;
    } else if (c == '*') {
      name += numbers.expert;
    } else {
      name += c;
    }
  }
  return name;
}

bool fits_layer(const WeightMap& map, const WeightRule& rule, const Numbers& numbers) {
  if (rule.layer_kind.empty()) return true;
  size_t layer = 0;
  parse_field("layer", numbers.layer, layer);
  return layer < map.layer_kinds.size() && map.layer_kinds[layer] == rule.layer_kind;
}

// The shape of the tensor that contains a parameter.
Shape stored_shape(const Shape& shape, const WeightRule& rule) {
  if (rule.shape.rank() > 0 && shape.numel() == rule.shape.numel()) return rule.shape;
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  if (rule.outputs > 0) extents.front() = rule.outputs;
  if (rule.layout == Layout::transposed && shape.rank() == 2) std::swap(extents[0], extents[1]);
  if (rule.experts > 0) extents.insert(extents.begin(), rule.experts);
  return Shape(extents);
}

// The matrix or vector of the module's expert, in a tensor of all experts; otherwise the whole tensor.
Tensor of_expert(const Tensor& whole, const MappedName& name) {
  if (name.rule.experts == 0) return whole;
  return whole.slice_rows(name.expert, 1).reshape(Shape(whole.shape().extents().subspan(1)));
}

// The outputs in the other order of rotary pairs. `here`: the order of this library.
Tensor reordered(const Tensor& rows, const PairedHeads& paired, bool here) {
  if (paired.heads == 0) return rows;
  const int64_t width = rows.dim(0) / paired.heads, half = paired.rotated / 2;
  Tensor result = rows.clone();
  for (int64_t i = 0; i < paired.heads * paired.rotated; ++i) {
    const int64_t head = i / paired.rotated * width, own = i % paired.rotated;
    const int64_t ours = head + own, theirs = head + 2 * (own % half) + own / half;
    result.slice_rows(here ? ours : theirs, 1).copy_from(rows.slice_rows(here ? theirs : ours, 1));
  }
  return result;
}

Tensor plus(const Tensor& value, float constant) {
  Tensor result = dequantize({value}).clone();
  for (float& x : result.values()) x += constant;
  return result;
}

// The transpose of each of shape[0] matrices.
Tensor blocks_transposed(const Tensor& x, const Shape& shape) {
  const int64_t rows = shape[1], cols = shape[2];
  const Tensor matrices = x.reshape({shape[0], rows * cols});
  Tensor result = Tensor::empty({shape[0], cols, rows}, x.dtype());
  for (int64_t i = 0; i < shape[0]; ++i)
    result.slice_rows(i, 1).copy_from(
        kernels::transposed(matrices.slice_rows(i, 1).reshape({rows, cols})).reshape({1, cols, rows}));
  return result;
}

// Extracts a parameter's values from the whole tensor.
Tensor taken_out(const Tensor& whole, const Shape& shape, const MappedName& name) {
  const WeightRule& rule = name.rule;
  if (rule.layout == Layout::taps_last && shape.rank() == 2)
    return blocks_transposed(whole, rule.shape).reshape(shape);
  if (rule.shape.rank() > 0) return reordered(whole.reshape(shape), rule.paired, true);
  Tensor value = of_expert(whole, name);
  if (rule.layout == Layout::same || shape.rank() != 2) {
    value = own_rows(value, shape[0], rule);
  } else if (rule.groups > 1) {
    value = own_rows(kernels::transposed(value), shape[0], rule);
  } else {
    value = kernels::transposed(rule.outputs == 0 ? value : value.columns(rule.first_output, shape[0]));
  }
  return rule.minus_one ? plus(value, 1) : value;
}

void put_in(const Tensor& parameter, const MappedName& name, const Tensor& all) {
  const WeightRule& rule = name.rule;
  const Tensor host = to_host(parameter), value = rule.minus_one ? plus(host, -1) : host;
  Tensor whole = of_expert(all, name);
  if (rule.layout == Layout::taps_last && value.rank() == 2) {
    const Shape& stored = rule.shape;
    whole.copy_from(blocks_transposed(value, {stored[0], stored[2], stored[1]}));
    return;
  }
  if (rule.shape.rank() > 0) whole = whole.reshape(parameter.shape());
  if (rule.layout == Layout::same || value.rank() != 2) {
    put_rows(value, rule, whole);
  } else if (rule.groups > 1) {
    const Tensor rows = kernels::transposed(whole);
    put_rows(value, rule, rows);
    whole.copy_from(kernels::transposed(rows));
  } else {
    whole.columns(rule.first_output, value.dim(0)).copy_from(kernels::transposed(value));
  }
}

// Up to the rounding of bf16, and of f16, in which a small number has few bits.
void require_constant(const io::TensorFile& file, const std::string& name, float expected) {
  const float found = dequantize({file.as_stored(name, Shape())}).values()[0];
  constexpr float kHalfStep = 0x1p-24f;
  if (!(std::abs(found - expected) <= 0.01f * std::abs(expected) + kHalfStep))
    throw DataError(concat(file.path().string(), ": ", name, ": expected ", expected, ", found ", found));
}

}  // namespace

std::vector<std::string> possible_names(const WeightMap& map, const MappedName& tensor) {
  const std::string& name = tensor.name;
  std::vector<std::string> all{name};
  const auto as = [&](std::string_view from, std::string_view to) {
    if (name.ends_with(from)) all.push_back(name.substr(0, name.size() - from.size()) + std::string(to));
  };
  as("LayerNorm.weight", "LayerNorm.gamma");
  as("LayerNorm.bias", "LayerNorm.beta");
  const std::string suffix = name.substr(std::min(name.rfind('.'), name.size()));
  for (const auto* others : {&tensor.rule.also, &tensor.rule.otherwise}) {
    for (const std::string& other : *others) all.push_back(other + suffix);
  }
  const size_t whole = all.size();
  for (size_t i = 0; i < whole && !map.prefix.empty(); ++i) {
    if (!all[i].starts_with(map.prefix)) continue;
    const std::string rest = all[i].substr(map.prefix.size());
    all.push_back(rest);
    for (const std::string& other : map.other_prefixes) all.push_back(other + rest);
  }
  return all;
}

bool rearranges(const WeightRule& rule) {
  return rule.outputs > 0 || rule.layout != Layout::same || rule.paired.heads > 0 || rule.minus_one ||
         rule.experts > 0;
}

Tensor own_rows(const Tensor& whole, int64_t own, const WeightRule& rule) {
  if (rule.outputs == 0) return reordered(whole, rule.paired, true);
  const int64_t share = own / rule.groups, group = rule.outputs / rule.groups;
  if (rule.groups == 1) return reordered(whole.slice_rows(rule.first_output, own), rule.paired, true);
  std::vector<int64_t> extents(whole.shape().extents().begin(), whole.shape().extents().end());
  extents.front() = own;
  Tensor rows = Tensor::empty(Shape(extents), whole.dtype(), whole.device());
  for (int64_t i = 0; i < rule.groups; ++i)
    rows.slice_rows(i * share, share)
        .copy_from(whole.slice_rows(i * group + rule.first_output / rule.groups, share));
  return reordered(rows, rule.paired, true);
}

void put_rows(const Tensor& own, const WeightRule& rule, Tensor whole) {
  const Tensor rows = reordered(own, rule.paired, false);
  const int64_t count = rows.dim(0), share = count / rule.groups, group = rule.outputs / rule.groups;
  for (int64_t i = 0; i < rule.groups; ++i)
    whole.slice_rows(i * group + rule.first_output / rule.groups, share)
        .copy_from(rows.slice_rows(i * share, share));
}

std::vector<WeightRule> concatenated(const std::string& theirs, Layout layout,
                                     const std::vector<std::pair<std::string, int64_t>>& modules,
                                     int64_t groups) {
  std::vector<WeightRule> rules;
  int64_t outputs = 0;
  for (const auto& [ours, own] : modules) {
    rules.push_back(
        {.ours = ours, .theirs = theirs, .layout = layout, .first_output = outputs, .groups = groups});
    outputs += own;
  }
  for (WeightRule& rule : rules) rule.outputs = outputs;
  return rules;
}

MappedName mapped_name(const WeightMap& map, const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : parameter.substr(dot);
  const std::string module = parameter.substr(0, dot);
  for (const WeightRule& rule : map.rules) {
    const auto whole = matched(rule.ours, parameter);
    const auto numbers = whole ? whole : matched(rule.ours, module);
    if (!numbers || !fits_layer(map, rule, *numbers)) continue;
    MappedName found{filled(rule.theirs, *numbers), rule,
                     filled(rule.module.empty() ? rule.theirs : rule.module, *numbers)};
    if (whole) {
      found.module = found.module.substr(0, found.module.rfind('.'));
    } else if (rule.experts == 0) {
      found.name += suffix;
    } else {
      if (suffix == ".bias") found.name += "_bias";
      parse_field("expert", numbers->expert, found.expert);
    }
    if (suffix == ".bias") found.rule.minus_one = false;
    return found;
  }
  if (map.others_same) return {map.own_prefix + parameter, {}, module};
  throw UsageError(concat("family: expected a rule for the parameter ", parameter, ", found none"));
}

std::pair<std::string, std::string> stored_apart(const TensorFiles& files, const WeightMap& map,
                                                 const std::string& parameter) {
  MappedName mapped = mapped_name(map, parameter);
  if (mapped.rule.also.empty()) return {};
  mapped.rule.otherwise.clear();
  std::string first;
  for (const std::string& name : possible_names(map, mapped)) {
    if (!files.contains(name)) continue;
    if (first.empty()) first = name;
    if (files.differ(first, name)) return {first, name};
  }
  return {};
}

void load_parameters(const TensorFiles& files, const WeightMap& map, const StoredDType& says,
                     const std::function<void(const nn::ParameterVisitor&)>& visit,
                     const LoadOptions& options, const std::function<bool(const std::string&)>& replaced) {
  std::set<std::string> used;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const MappedName from = mapped_name(map, name);
    const std::vector<std::string> names = possible_names(map, from);
    used.insert(names.begin(), names.end());
    if (replaced && replaced(name)) return;
    auto spelling = std::ranges::find_if(names, [&](const auto& one) { return files.contains(one); });
    if (spelling == names.end() && from.rule.optional) {
      Variable(parameter.variable).set_value(Tensor::zeros(parameter.shape));
      return;
    }
    if (spelling == names.end()) spelling = names.begin();  // for the message
    if (const Mxfp4 packed(*spelling); from.rule.experts > 0 && files.contains(packed.blocks)) {
      load_mxfp4(files, packed, from, parameter, options);
      used.insert({packed.blocks, packed.scales});
      return;
    }
    if (const auto [one, other] = stored_apart(files, map, name); !other.empty()) {
      throw DataError(concat(files.file_of(other, parameter.shape).path().string(), ": ", other,
                             ": expected ", one,
                             ", to which config.json ties it, or none, found another tensor"));
    }
    const Shape shape = stored_shape(parameter.shape, from.rule);
    const io::TensorFile& file = files.file_of(*spelling, shape);
    if (rearranges(from.rule) && file.dtype(*spelling) == "I8") {
      throw DataError(concat(file.path().string(), ": ", *spelling,
                             ": expected F32, F16 or BF16, as the tensor is rearranged, found I8"));
    }
    load_parameter(
        file,
        {.name = *spelling,
         .shape = shape,
         .taken_out = [&](const Tensor& whole) { return taken_out(whole, parameter.shape, from); }},
        says, parameter, options);
    used.insert(scales_name(*spelling));
  });
  for (const auto& [name, value] : map.constants) {
    used.insert(name);
    if (files.contains(name)) require_constant(files.file_of(name, Shape()), name, value);
  }
  std::vector<std::string> rest;
  for (const std::string& name : files.names()) {
    const auto ends_name = [&](const std::string& ending) { return name.ends_with(ending); };
    const auto begins_name = [&](const std::string& prefix) { return name.starts_with(prefix); };
    if (!used.contains(name) && std::ranges::none_of(map.computed, ends_name) &&
        std::ranges::none_of(map.other_parts, begins_name))
      rest.push_back(name);
  }
  if (rest.empty()) return;
  log_info(concat("not read, because the opened model has no such part: ", rest.front(),
                  rest.size() > 1 ? concat(" and ", rest.size() - 1, " more") : ""));
}

std::vector<io::NamedTensor> stored_tensors(const WeightMap& map,
                                            const std::function<void(const nn::ParameterVisitor&)>& visit) {
  std::map<std::string, Tensor> tensors;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const MappedName to = mapped_name(map, name);
    if (!parameter.defined() || !parameter.variable.value().defined())
      throw UsageError(
          concat(name, ": expected values to save, found none: initialise the model, or load it"));
    const auto [value, scales] = parameter.weight().value();
    if (scales.defined()) tensors[scales_name(to.name)] = scales;
    if (scales.defined() && rearranges(to.rule))
      throw UsageError(concat(to.name, ": expected f32 or bf16, as the tensor is rearranged, found i8"));
    if (!rearranges(to.rule)) {
      tensors[to.name] = value.reshape(stored_shape(value.shape(), to.rule));
      return;
    }
    Tensor& whole = tensors[to.name];
    if (!whole.defined()) whole = Tensor::empty(stored_shape(parameter.shape, to.rule), value.dtype());
    put_in(value, to, whole);
  });
  for (const auto& [name, value] : map.constants) tensors[name] = Tensor::full(Shape(), value);
  std::vector<io::NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
  return named;
}

}  // namespace qkv::models
