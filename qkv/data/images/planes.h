#pragma once
// Between interleaved pixels (Image) and planes (ImageSet).

#include "qkv/data/images/image_set.h"

namespace qkv::data {

// Appends the pixels of an image of the set's size: its three planes, or of a set of one channel its red
// plane, as the image is grey.
void append_planes(const Image& image, ImageSet& set);

}  // namespace qkv::data
