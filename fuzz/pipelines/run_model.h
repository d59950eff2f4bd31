#pragma once
// Runs a model that a hostile folder or file describes.

#include "qkv/pipelines/open_model.h"

namespace qkv::fuzz {

// A short text, or a small image, through the model: three tokens of a translation or text, or a vector.
void run_model(const pipelines::OpenedModel& model);

}  // namespace qkv::fuzz
