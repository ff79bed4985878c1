#pragma once
// Applies a formula of an optimizer to flat arrays. nvcc compiles this file as C++17.
//
// A formula is a struct of the numbers that an update uses for all parameters, such as the learning
// rate. Its operator() updates one parameter in place:
//   operator()(p, g)                  without state,
//   operator()(p, g, first)           with one state array,
//   operator()(p, g, first, second)   with two.
// A formula may have several of these operators. CPU and GPU compile the same operator.

#include <cstddef>
#include <type_traits>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

/// The arrays of an update: [count] each, on the same device.
template <typename T>
struct UpdateArrays {
  T* parameters = nullptr;
  T* gradients = nullptr;  ///< a formula may overwrite them
  T* first = nullptr;      ///< first state array; nullptr: the update has none
  T* second = nullptr;     ///< second state array; nullptr: the update has at most one
  std::size_t count = 0;

  /// Returns elements [at, at + n) of the arrays.
  [[nodiscard]] UpdateArrays part(std::size_t at, std::size_t n) const {
    return {parameters + at, gradients + at, first == nullptr ? nullptr : first + at,
            second == nullptr ? nullptr : second + at, n};
  }
  [[nodiscard]] int state_count() const { return first == nullptr ? 0 : second == nullptr ? 1 : 2; }
};

/// True if the formula has an operator() for this number of state arrays.
template <typename Formula, typename T, int kStates>
constexpr bool kTakesStates = kStates == 0   ? std::is_invocable_v<const Formula&, T&, T&>
                              : kStates == 1 ? std::is_invocable_v<const Formula&, T&, T&, T&>
                                             : std::is_invocable_v<const Formula&, T&, T&, T&, T&>;

/// Applies the formula to element i of the arrays, in place.
template <int kStates, typename Formula, typename T>
DLRUN_HOST_DEVICE inline void update_element(const Formula& formula, const UpdateArrays<T>& arrays,
                                             std::size_t i) {
  if constexpr (kStates == 0) {
    formula(arrays.parameters[i], arrays.gradients[i]);
  } else if constexpr (kStates == 1) {
    formula(arrays.parameters[i], arrays.gradients[i], arrays.first[i]);
  } else {
    formula(arrays.parameters[i], arrays.gradients[i], arrays.first[i], arrays.second[i]);
  }
}

}  // namespace dlrun::trainer
