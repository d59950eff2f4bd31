#pragma once
// Maps a model's parameters to the tensors of a family's files, which differ in names and sometimes in
// layout.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/models/hub/tensor_files.h"
#include "qkv/models/hub/weights.h"

namespace qkv::models {

enum class Layout {
  same,
  transposed,  // stored as [inputs, outputs]
  taps_last,   // stored as [outputs, inputs, taps], a convolution's; here [outputs, taps * inputs]
};

// Heads whose first outputs are rotated (rotary positions), in pairs. Here a pair is output i and
// i + rotated / 2 of a head; stored are pairs side by side, 2 i and 2 i + 1 (GPT-J, GLM, Meta's own LLaMA).
struct PairedHeads {
  int64_t heads = 0;    // 0: stored as here
  int64_t rotated = 0;  // outputs of a head that are rotated
};

// A module's name here and in the family's files, without ".weight" and ".bias", or the whole names of a
// parameter; '#' stands for a layer's number, '*' for an expert's. The first rule that fits counts.
struct WeightRule {
  std::string ours, theirs;
  Layout layout = Layout::same;
  // For a tensor that concatenates the weights (or biases) of several modules along the outputs: the first
  // output of this one, and the number of all. 0: the tensor is this module's alone.
  int64_t first_output = 0, outputs = 0;
  // The number of groups (heads) in the tensor. Each group holds an equal share of each module's outputs.
  int64_t groups = 1;
  // For a tensor [experts, ...] of the module of all experts: their number. `theirs` is the tensor's whole
  // name, and that of the biases' with "_bias" after it. Weights may be stored as MXFP4 (mxfp4.h) instead.
  int64_t experts = 0;
  // The tensor's shape in the file, if it differs; always with taps_last.
  Shape shape = {};
  // Names of tied tensors, tried in this order if the first is missing: files store one of them, or equal
  // ones.
  std::vector<std::string> also = {};
  // Names of other tensors, tried if all of these are missing.
  std::vector<std::string> otherwise = {};
  // May be missing from the files, which means zeros.
  bool optional = false;
  // The module in transformers, after which adapters are named, if it is not that of the tensor.
  std::string module = {};
  PairedHeads paired = {};
  bool minus_one = false;  // the file stores weight - 1 (Gemma's norms)
  // Fits only layers of this kind (WeightMap::layer_kinds); empty: all.
  std::string layer_kind = {};
};

// The rules of modules, each with its number of outputs, whose tensors are concatenated as `theirs`, in each
// of `groups` (WeightRule::groups; 1 if transposed).
std::vector<WeightRule> concatenated(const std::string& theirs, Layout layout,
                                     const std::vector<std::pair<std::string, int64_t>>& modules,
                                     int64_t groups = 1);

// Whether a tensor has other rows or values than the parameter.
bool rearranges(const WeightRule& rule);
// The rows (outputs) of a module with `own` outputs, in the order of this library, from those of the tensor;
// and the inverse, which leaves the other rows of the tensor as they are.
Tensor own_rows(const Tensor& whole, int64_t own, const WeightRule& rule);
void put_rows(const Tensor& own, const WeightRule& rule, Tensor whole);

// A tensor of one element that files have and of which models here know one value.
struct ConstantTensor {
  std::string name;
  float value = 0;
};

struct WeightMap {
  std::vector<WeightRule> rules = {};
  // A prefix of the names that files may omit: the name of the model within its heads.
  std::string prefix = {};
  // Parameters without a rule have the same names in the files, after a prefix.
  bool others_same = false;
  std::string own_prefix = {};
  // Suffixes of tensor names that files may have but are not read, because the model computes their contents.
  std::vector<std::string> computed = {};
  // Written; a file may lack them, but may not have another value.
  std::vector<ConstantTensor> constants = {};
  // The kind of each layer, if their tensors have different names ("sliding_attention").
  std::vector<std::string> layer_kinds = {};
  // Prefixes of tensors that are of another part of the folder's model.
  std::vector<std::string> other_parts = {};
  // Other prefixes, in the files of other programs.
  std::vector<std::string> other_prefixes = {};
};

// The tensor that contains a parameter, and its rule.
struct MappedName {
  std::string name;  // in the family's files: "bert.encoder.layer.0.attention.self.query.weight"
  WeightRule rule;
  std::string module;  // in transformers: "bert.encoder.layer.0.attention.self.query"
  int64_t expert = 0;  // the module's, in a tensor of all
};

// Throws UsageError for a parameter without a rule, which is an error in the family's table.
MappedName mapped_name(const WeightMap& map, const std::string& parameter);

// The names that the tensor may have in files, the map's own first: with and without prefix, those of tied
// tensors, and TensorFlow's for a norm's weight and bias, which BERT's first folders have.
std::vector<std::string> possible_names(const WeightMap& map, const MappedName& tensor);

// The names of two tensors in the files that should be equal, as the parameter's tied tensors, but differ;
// empty: none.
std::pair<std::string, std::string> stored_apart(const TensorFiles& files, const WeightMap& map,
                                                 const std::string& parameter);

// Loads every parameter that `visit` enumerates with load_parameter(). Throws DataError for a tensor that is
// missing or of another shape, under its name in the file, and for tied tensors that differ. Surplus tensors
// are logged. `replaced`: parameters that are not loaded, because an adapter has them.
void load_parameters(const TensorFiles& files, const WeightMap& map, const StoredDType& says,
                     const std::function<void(const nn::ParameterVisitor&)>& visit,
                     const LoadOptions& options,
                     const std::function<bool(const std::string& parameter)>& replaced = {});

// The inverse: the tensors in the family's format, weights in their current dtypes. Throws UsageError for an
// int8 weight whose rule rearranges it, because its scales belong to rows; load_parameters() throws
// DataError.
std::vector<io::NamedTensor> stored_tensors(const WeightMap& map,
                                            const std::function<void(const nn::ParameterVisitor&)>& visit);

}  // namespace qkv::models
