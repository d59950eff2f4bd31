#pragma once
// Initial values of a ViT that is trained from random weights, where they differ from those of its layers.

#include <cstdint>

#include "qkv/models/image_encoder.h"

namespace qkv::train {

// Initialises a model with a classifier.
// - The classifier's matrix is normal with deviation 0.02, that of all of a ViT's matrices in transformers,
//   so that the first loss is that of equal probabilities: the classifier's input has a norm of
//   sqrt(d_model).
// - Learned positions of patches are sinusoids of their rows and columns (models::sinusoidal_grid()), as
//   strong as the embeddings of patches whose pixels are independent with deviation 1. Normal ones of
//   deviation 0.02, as in transformers, drown in the patches until hundreds of steps have enlarged them, and
//   know no distances.
void initialise_vit(const models::ImageEncoder& model, uint64_t seed);

}  // namespace qkv::train
