#include "qkv/base/error.h"
#include "qkv/kernels/backend.h"

namespace qkv::kernels {

const Backend& reference_backend() {
  throw UsageError("device reference: this build has no reference backend (QKV_REFERENCE_BACKEND is off)");
}

}  // namespace qkv::kernels
