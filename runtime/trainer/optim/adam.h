#pragma once
// Adam's and AdamW's step for one parameter, shared by all devices.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// The numbers that are equal for all parameters of a step.
template <typename T>
struct AdamCoefficients {
  T beta1;
  T beta2;
  T rate;  ///< learning rate / (1 - beta1^t)
  T root;  ///< 1 / sqrt(1 - beta2^t)
  T epsilon;
  T weight_decay;  ///< Adam, L2: weight_decay * parameter is added to the gradient
  /// AdamW, decoupled: the parameter is first multiplied by keep = 1 - learning rate * weight decay
  T keep;
  T gradient_scale;  ///< the gradient is first multiplied by this
};

/// Computes the coefficients of a step in double. t is the step, from 1.
///
/// Adam (Kingma & Ba 2015, Algorithm 1, with epsilon outside the bias correction
/// as in its section 2):
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
///   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon).
/// AdamW (Loshchilov & Hutter 2019, Algorithm 2) subtracts lr * weight decay * p from the parameter
/// instead of adding the decay to the gradient.
template <typename T>
[[nodiscard]] AdamCoefficients<T> adam_coefficients(double learning_rate, double beta1,
                                                    double beta2, double epsilon,
                                                    double weight_decay, bool is_decoupled,
                                                    double gradient_scale, std::uint64_t t) {
  const auto steps = static_cast<double>(t);
  return {static_cast<T>(beta1),
          static_cast<T>(beta2),
          static_cast<T>(learning_rate / (1 - std::pow(beta1, steps))),
          static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, steps))),
          static_cast<T>(epsilon),
          static_cast<T>(is_decoupled ? 0 : weight_decay),
          static_cast<T>(is_decoupled ? 1 - learning_rate * weight_decay : 1),
          static_cast<T>(gradient_scale)};
}

/// Updates parameter p with gradient g, first moment m and second moment v, in place.
template <typename T>
DLRUN_HOST_DEVICE inline void adam_element(T& p, T g, T& m, T& v, const AdamCoefficients<T>& c) {
  g = c.gradient_scale * g + c.weight_decay * p;
  m = c.beta1 * m + (1 - c.beta1) * g;
  v = c.beta2 * v + (1 - c.beta2) * g * g;
  p = c.keep * p - c.rate * m / (std::sqrt(v) * c.root + c.epsilon);
}

}  // namespace dlrun::trainer
