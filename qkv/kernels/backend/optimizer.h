#pragma once
// Optimizer update rules, and a parameter by addresses.

#include <array>
#include <cstdint>
#include <span>

namespace qkv::kernels {

// Operations in the same loop as the rule.
struct OptimizerPass {
  float gradient_factor = 1;  // multiplies g first, for clipping
  float average_decay = 0;    // average <- average + (1 - average_decay) * (w - average)
};

// A parameter w with its gradient g and the rule's state.
struct ParameterUpdate {
  float* value = nullptr;
  const float* gradient = nullptr;
  std::array<float*, 3> state = {};  // in the rule's order; null if unused
  float* average = nullptr;          // an exponential moving average of the values, or null
  // Parameters of two or more axes are stacked matrices; a vector is one row.
  bool matrix = false;
  int64_t matrices = 1, rows = 1, cols = 0;
  float learning_rate = 0;
  float weight_decay = 0;
  int64_t step = 1;  // of this parameter, from 1

  int64_t count() const { return matrices * rows * cols; }
};

// Adam (Kingma and Ba 2015, algorithm 1): m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr * m^
// / (sqrt(v^) + epsilon). Weight decay is decoupled, w <- (1 - lr * decay) w first (Loshchilov and Hutter
// 2019), or coupled, g <- g + decay * w. AMSGrad (Reddi et al. 2018) replaces v by its maximum so far. State:
// m, v, with AMSGrad the maximum of v.
struct AdamRule {
  float beta1 = 0.9f, beta2 = 0.98f, epsilon = 1e-9f;
  bool decoupled = true, amsgrad = false;
};

// Gradient descent: g <- g + decay * w; with momentum b <- momentum * b + (1 - dampening) * g (initially b =
// g), and g <- b, or with Nesterov momentum (Sutskever et al. 2013) g <- g + momentum * b; w <- w - lr * g.
// State: b, with momentum.
struct SgdRule {
  float momentum = 0, dampening = 0;
  bool nesterov = false;
};

// RMSprop (Hinton 2012): g <- g + decay * w, v <- alpha v + (1 - alpha) g^2; if centered (Graves 2013), with
// a <- alpha a + (1 - alpha) g, v - a^2 replaces v below; u = g / (sqrt(v) + epsilon); with momentum u <- b
// <- momentum * b + u; w <- w - lr * u. State: v, a (centered), b (with momentum).
struct RmspropRule {
  float alpha = 0.99f, epsilon = 1e-8f, momentum = 0;
  bool centered = false;
};

// Adagrad (Duchi et al. 2011): g <- g + decay * w, v <- v + g^2,
// w <- w - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(v) + epsilon). State: v.
struct AdagradRule {
  float lr_decay = 0, epsilon = 1e-10f;
};

// Adafactor (Shazeer and Stern 2018, algorithms 4 and 5): for a matrix [..., rows, columns], only the means
// of g^2 over rows and columns are stored, r and c, and v = r c / mean(r); for a vector, v itself. They are
// moving averages with b2 = 1 - step^beta2_decay; u = g / sqrt(v), scaled down to a root mean square of
// clip_threshold; w <- (1 - lr * decay) w - u * max(epsilon2, rms(w)) * min(lr, 1 / sqrt(step)). State: for a
// matrix r [..., rows] and c [..., columns], for a vector v.
struct AdafactorRule {
  float beta2_decay = -0.8f;
  float epsilon1 = 1.1920929e-7f;  // lower bound: v >= epsilon1^2, mean(r) >= epsilon1
  float epsilon2 = 1e-3f;
  float clip_threshold = 1;
};

}  // namespace qkv::kernels
