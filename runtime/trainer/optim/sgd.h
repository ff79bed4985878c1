#pragma once
// Stochastic gradient descent for one parameter, shared by all devices: plain, with momentum,
// Nesterov's, and for LARS.

#include <cstddef>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

template <typename T>
struct SgdCoefficients {
  T rate;                ///< the parameter loses rate * direction
  T momentum;            ///< factor of the old velocity
  T weight_decay;        ///< L2: weight_decay * parameter is added to the gradient
  T gradient_scale = 1;  ///< the gradient is first multiplied by this
  T inner_rate = 1;      ///< for LARS, the layer's rate: it is part of the velocity, and rate is 1
  T of_gradient = 0;     ///< direction = of_gradient * gradient + of_velocity * velocity;
  T of_velocity = 1;     ///< 0 and 1 for momentum, 1 and momentum for Nesterov
};

/// Momentum (Polyak 1964) in the form of Sutskever et al. 2013, which keeps the learning rate
/// outside the velocity:
///   velocity = momentum velocity + g,  p = p - lr velocity.
/// Nesterov's momentum, as frameworks write it:
///   p = p - lr (g + momentum velocity).
/// LARS (You et al. 2017, Algorithm 1):
///   velocity = momentum velocity + lr * local rate * g,  p = p - velocity.
template <typename T>
DLRUN_HOST_DEVICE inline void momentum_element(T& p, T g, T& velocity,
                                               const SgdCoefficients<T>& c) {
  g = c.gradient_scale * g + c.weight_decay * p;
  velocity = c.momentum * velocity + c.inner_rate * g;
  p -= c.rate * (c.of_gradient * g + c.of_velocity * velocity);
}

/// Plain descent, without state: p = p - lr g.
template <typename T>
DLRUN_HOST_DEVICE inline void sgd_element(T& p, T g, const SgdCoefficients<T>& c) {
  p -= c.rate * (c.gradient_scale * g + c.weight_decay * p);
}

}  // namespace dlrun::trainer
