#pragma once
// RMSprop's step for one parameter, shared by all devices.

#include <cmath>
#include <cstddef>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

template <typename T>
struct RmspropCoefficients {
  T rate;
  T alpha;  ///< factor of the old mean square
  T epsilon;
  T momentum;
  T weight_decay;    ///< L2: weight_decay * parameter is added to the gradient
  T gradient_scale;  ///< the gradient is first multiplied by this
};

/// RMSprop (Tieleman & Hinton 2012, lecture 6.5):
///   v = alpha v + (1 - alpha) g^2,  p = p - lr g / (sqrt(v) + epsilon).
template <typename T>
DLRUN_HOST_DEVICE inline void rmsprop_element(T& p, T g, T& v, const RmspropCoefficients<T>& c) {
  g = c.gradient_scale * g + c.weight_decay * p;
  v = c.alpha * v + (1 - c.alpha) * g * g;
  p -= c.rate * g / (std::sqrt(v) + c.epsilon);
}

/// Uses momentum on the scaled gradient (Graves 2013, eq. 38-45, without its mean of gradients).
template <typename T>
DLRUN_HOST_DEVICE inline void rmsprop_momentum_element(T& p, T g, T& v, T& velocity,
                                                       const RmspropCoefficients<T>& c) {
  g = c.gradient_scale * g + c.weight_decay * p;
  v = c.alpha * v + (1 - c.alpha) * g * g;
  velocity = c.momentum * velocity + g / (std::sqrt(v) + c.epsilon);
  p -= c.rate * velocity;
}

}  // namespace dlrun::trainer
