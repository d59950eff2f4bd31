#pragma once
// Weights of a language model in blocks, rounded for the inputs that a text gives them.

#include <functional>

#include "qkv/data/token_documents.h"
#include "qkv/models/language_model.h"

namespace qkv::train {

struct LmCalibration {
  DType dtype = DType::q4_0;
  int64_t tokens = 65536;  // of the documents, from the first one on
  int64_t batch_tokens = 4096;
  size_t most_bytes = size_t{1} << 29;  // of the sums of squared inputs that are kept at a time
  // Called after each matrix.
  std::function<void(int64_t done, int64_t all)> on_progress = {};
};

// Rounds the matrices of the decoder's layers, as many at a time as most_bytes allow, by
// quantize_calibrated() with the inputs that the model, with the earlier ones rounded, has on the documents.
// Token table and output matrix are rounded by to_dtype(), as are matrices without inputs (experts that no
// token chose) or whose rows do not divide into blocks. The weights must be f32. Throws the errors of
// score_documents().
void calibrate(const models::LanguageModel& model, const data::TokenDocuments& documents,
               const LmCalibration& options);

}  // namespace qkv::train
