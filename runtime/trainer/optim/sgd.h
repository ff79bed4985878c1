#pragma once
// Stochastic gradient descent with momentum for one parameter, written once for every device.

#include <cstddef>

#include "runtime/trainer/optim/host_device.h"

namespace dlrun::trainer {

template <typename T>
struct SgdCoefficients {
  T rate;
  T momentum;
  T weight_decay;  ///< L2: added to the gradient as weight_decay * parameter
};

/// Momentum (Polyak 1964) in the form of Sutskever et al. 2013 that keeps the learning rate outside the velocity:
///   velocity = momentum velocity + g,  p = p - lr velocity.
template <typename T>
DLRUN_HOST_DEVICE inline void momentum_element(T& p, T g, T& velocity, const SgdCoefficients<T>& c) {
  velocity = c.momentum * velocity + (g + c.weight_decay * p);
  p -= c.rate * velocity;
}

/// Without momentum there is no state: p = p - lr g.
template <typename T>
DLRUN_HOST_DEVICE inline void sgd_element(T& p, T g, const SgdCoefficients<T>& c) {
  p -= c.rate * (g + c.weight_decay * p);
}

}  // namespace dlrun::trainer
