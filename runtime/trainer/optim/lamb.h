#pragma once
// LAMB's direction for one parameter, shared by all devices.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

template <typename T>
struct LambCoefficients {
  T beta1;
  T beta2;
  T mean;  ///< 1 / (1 - beta1^t)
  T root;  ///< 1 / sqrt(1 - beta2^t)
  T epsilon;
  T weight_decay;    ///< decoupled: part of the direction
  T gradient_scale;  ///< the gradient is first multiplied by this
};

/// Computes the direction u, which LAMB (You et al. 2020, Algorithm 2) then scales per layer:
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
///   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay p.
/// u replaces g.
template <typename T>
DLRUN_HOST_DEVICE inline void lamb_element(T p, T& g_then_u, T& m, T& v,
                                           const LambCoefficients<T>& c) {
  const T g = c.gradient_scale * g_then_u;
  m = c.beta1 * m + (1 - c.beta1) * g;
  v = c.beta2 * v + (1 - c.beta2) * g * g;
  g_then_u = c.mean * m / (std::sqrt(v) * c.root + c.epsilon) + c.weight_decay * p;
}

}  // namespace dlrun::trainer
