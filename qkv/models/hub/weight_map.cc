#include "qkv/models/hub/weight_map.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/log.h"
#include "qkv/kernels/pointwise.h"

namespace qkv::models {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "layers.12.fc1" as "layers.#.fc1", and "12". Only the first number is the layer's.
struct Generic {
  std::string name, number;
};

Generic generic(const std::string& name) {
  for (size_t begin = 0; begin < name.size(); ++begin) {
    if (!is_digit(name[begin]) || begin == 0 || name[begin - 1] != '.') continue;
    size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end < name.size() && name[end] != '.') continue;
    return {name.substr(0, begin) + "#" + name.substr(end), name.substr(begin, end - begin)};
  }
  return {name, ""};
}

std::string with_number(std::string_view pattern, const std::string& number) {
  std::string name(pattern);
  if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, number);
  return name;
}

// The possible names of a tensor: with and without prefix, and TensorFlow's names for a norm's weight and
// bias, which BERT's first folders have.
std::vector<std::string> spellings(const WeightMap& map, const MappedName& tensor) {
  const std::string& name = tensor.name;
  std::vector<std::string> all{name};
  const auto as = [&](std::string_view from, std::string_view to) {
    if (name.ends_with(from)) all.push_back(name.substr(0, name.size() - from.size()) + std::string(to));
  };
  as("LayerNorm.weight", "LayerNorm.gamma");
  as("LayerNorm.bias", "LayerNorm.beta");
  for (const auto* others : {&tensor.rule.also, &tensor.rule.otherwise}) {
    for (const std::string& other : *others) all.push_back(other + name.substr(name.rfind('.')));
  }
  const size_t whole = all.size();
  for (size_t i = 0; i < whole && !map.prefix.empty(); ++i) {
    if (all[i].starts_with(map.prefix)) all.push_back(all[i].substr(map.prefix.size()));
  }
  return all;
}

// The shape of the tensor that contains a parameter.
Shape stored_shape(const Shape& shape, const WeightRule& rule) {
  if (rule.shape.rank() > 0 && shape.rank() == 2) return rule.shape;
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents.front() *= rule.parts;
  if (rule.layout == Layout::transposed && shape.rank() == 2) std::swap(extents[0], extents[1]);
  return Shape(extents);
}

// Extracts a parameter's values from the whole tensor.
Tensor taken_out(const Tensor& whole, const Shape& shape, const WeightRule& rule) {
  if (rule.shape.rank() > 0) return whole.reshape(shape);
  const int64_t outputs = shape[0];
  if (rule.layout == Layout::transposed && shape.rank() == 2) {
    return kernels::transposed(rule.parts == 1 ? whole : whole.columns(rule.part * outputs, outputs));
  }
  return rule.parts == 1 ? whole : whole.slice_rows(rule.part * outputs, outputs);
}

void put_in(const Tensor& value, const WeightRule& rule, Tensor& whole) {
  const int64_t outputs = value.dim(0);
  if (rule.layout == Layout::transposed && value.rank() == 2) {
    whole.columns(rule.part * outputs, outputs).copy_from(kernels::transposed(value));
  } else {
    whole.slice_rows(rule.part * outputs, outputs).copy_from(value);
  }
}

}  // namespace

MappedName mapped_name(const WeightMap& map, const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : parameter.substr(dot);
  const Generic module = generic(parameter.substr(0, dot));
  for (const WeightRule& rule : map.rules) {
    if (rule.ours != module.name) continue;
    return {with_number(rule.theirs, module.number) + suffix, rule,
            with_number(rule.module.empty() ? rule.theirs : rule.module, module.number)};
  }
  if (map.others_same) return {parameter, {}, parameter.substr(0, dot)};
  throw UsageError(concat("family: expected a rule for the parameter ", parameter, ", found none"));
}

std::pair<std::string, std::string> stored_apart(const TensorFiles& files, const WeightMap& map,
                                                 const std::string& parameter) {
  MappedName mapped = mapped_name(map, parameter);
  if (mapped.rule.also.empty()) return {};
  mapped.rule.otherwise.clear();
  std::string first;
  for (const std::string& name : spellings(map, mapped)) {
    if (!files.contains(name)) continue;
    if (first.empty()) first = name;
    if (files.differ(first, name)) return {first, name};
  }
  return {};
}

void load_parameters(const TensorFiles& files, const WeightMap& map, const StoredDType& says,
                     const std::function<void(const nn::ParameterVisitor&)>& visit,
                     const LoadOptions& options) {
  std::set<std::string> used;
  visit([&](const std::string& name, const nn::Parameter& parameter) {
    const MappedName from = mapped_name(map, name);
    const std::vector<std::string> names = spellings(map, from);
    used.insert(names.begin(), names.end());
    auto spelling = std::ranges::find_if(names, [&](const auto& one) { return files.contains(one); });
    if (spelling == names.end() && from.rule.optional) {
      Variable(parameter.variable).set_value(Tensor::zeros(parameter.shape));
      return;
    }
    if (spelling == names.end()) spelling = names.begin();  // for the message
    if (const auto [one, other] = stored_apart(files, map, name); !other.empty()) {
      throw DataError(concat(files.file_of(other, parameter.shape).path().string(), ": ", other,
                             ": expected ", one,
                             ", to which config.json ties it, or none, found another tensor"));
    }
    const Shape shape = stored_shape(parameter.shape, from.rule);
    load_parameter(
        files.file_of(*spelling, shape),
        {.name = *spelling,
         .shape = shape,
         .taken_out = [&](const Tensor& whole) { return taken_out(whole, parameter.shape, from.rule); }},
        says, parameter, options);
    used.insert(scales_name(*spelling));
  });
  std::vector<std::string> rest;
  for (const std::string& name : files.names()) {
    const auto ends_name = [&](const std::string& ending) { return name.ends_with(ending); };
    if (!used.contains(name) && std::ranges::none_of(map.computed, ends_name)) rest.push_back(name);
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
    if (to.rule.parts == 1 && to.rule.layout == Layout::same) {
      tensors[to.name] = value.reshape(stored_shape(value.shape(), to.rule));
      return;
    }
    Tensor& whole = tensors[to.name];
    if (!whole.defined()) whole = Tensor::empty(stored_shape(parameter.shape, to.rule), value.dtype());
    put_in(value, to.rule, whole);
  });
  std::vector<io::NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
  return named;
}

}  // namespace qkv::models
