#pragma once
// The forms in which a trained model's weights may be kept: what affine maps and tables of embeddings read.
// All else (norms, biases, positions) and everything that is computed stays f32. Only f32 can be trained.

#include <string>
#include <string_view>
#include <vector>

#include "qkv/ops/variable.h"

namespace qkv {

enum class WeightForm {
  f32,
  bf16,  // half the memory; widened to f32 in every product
  int8,  // a quarter: whole numbers with one scale a row, by inputs of 8 bits that are rounded on the fly
};

// "f32", "bf16", "int8".
const char* name_of(WeightForm form);
std::vector<std::string> weight_form_names();
// Throws UsageError naming the known ones.
WeightForm weight_form(std::string_view name);
// What the elements of a form are; and the form of such elements. Throws ShapeError for a dtype that no
// weight has.
DType dtype_of_form(WeightForm form);
WeightForm form_of(DType dtype);

// A weight [rows, cols] and, where it is i8, what one step of each row is worth, f32 [rows].
struct FormedWeight {
  Tensor value;
  Tensor scales = {};
};

// The same weight in another form: rounded to the nearest, or widened. What has the form already is returned
// as it is. Throws NumericError for int8 where a number is not finite, and ShapeError where rows are longer
// than 65,536.
FormedWeight in_form(const FormedWeight& weight, WeightForm form);

}  // namespace qkv
