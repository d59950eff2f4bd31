#pragma once
// The fields of a classifier's labels.

#include <string>
#include <vector>

#include "qkv/models/hub/config_fields.h"
#include "qkv/models/problem_type.h"

namespace qkv::models {

// "id2label" (and "label2id", for other programs): the labels in order of their numbers, 0 to n - 1. Without
// it, "num_labels" (default 2) labels with transformers' default names. "problem_type": its default is that
// of transformers' pipelines.
void label_fields(const Fields& fields, std::vector<std::string>& labels, ProblemType& problem);

}  // namespace qkv::models
