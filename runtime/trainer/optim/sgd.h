#pragma once
// Stochastic gradient descent for one parameter: plain, with momentum, Nesterov's, and LARS',
// written once for every device.

#include <cstddef>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

template <typename T>
struct SgdCoefficients {
  T rate;                ///< the parameter loses rate * direction
  T momentum;            ///< what the velocity keeps of itself
  T weight_decay;        ///< L2: added to the gradient as weight_decay * parameter
  T gradient_scale = 1;  ///< the gradient is first multiplied by it
  T inner_rate = 1;      ///< LARS: the layer's rate goes into the velocity, and rate is 1
  T of_gradient = 0;  ///< direction = of_gradient * gradient + of_velocity * velocity: 0 and 1, or
  T of_velocity = 1;  ///< 1 and momentum for Nesterov
};

/// Momentum (Polyak 1964) in the form of Sutskever et al. 2013 that keeps the learning rate outside
/// the velocity:
///   velocity = momentum velocity + g,  p = p - lr velocity;
/// Nesterov's, as frameworks write it: p = p - lr (g + momentum velocity);
/// LARS (You et al. 2017, Algorithm 1): velocity = momentum velocity + lr * local rate * g,  p = p
/// - velocity.
template <typename T>
DLRUN_HOST_DEVICE inline void momentum_element(T& p, T g, T& velocity,
                                               const SgdCoefficients<T>& c) {
  g = c.gradient_scale * g + c.weight_decay * p;
  velocity = c.momentum * velocity + c.inner_rate * g;
  p -= c.rate * (c.of_gradient * g + c.of_velocity * velocity);
}

/// Without momentum there is no state: p = p - lr g.
template <typename T>
DLRUN_HOST_DEVICE inline void sgd_element(T& p, T g, const SgdCoefficients<T>& c) {
  p -= c.rate * (c.gradient_scale * g + c.weight_decay * p);
}

}  // namespace dlrun::trainer
