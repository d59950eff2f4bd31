#pragma once

#include "qkv/kernels/dropout.h"

namespace qkv {

using kernels::Dropout;

}  // namespace qkv
