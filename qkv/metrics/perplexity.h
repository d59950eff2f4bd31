#pragma once

#include <cmath>

namespace qkv::metrics {

// exp of the mean negative log-likelihood per token (natural logarithm). A mean above 709.78, where exp
// overflows, gives +infinity; NaN gives NaN.
inline double perplexity(double mean_nll) { return std::exp(mean_nll); }

}  // namespace qkv::metrics
