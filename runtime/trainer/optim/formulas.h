#pragma once
// All formulas. Devices compile an update for each of them. nvcc compiles this file as C++17.

#include <variant>

#include "runtime/trainer/optim/adam.h"
#include "runtime/trainer/optim/formula.h"
#include "runtime/trainer/optim/lamb.h"
#include "runtime/trainer/optim/rmsprop.h"
#include "runtime/trainer/optim/sgd.h"

namespace dlrun::trainer {

template <typename T>
using AnyFormula = std::variant<AdamFormula<T>, LambFormula<T>, RmspropFormula<T>, SgdFormula<T>>;

/// The formula of one update, with its coefficients. This is a separate type, so that nn/kernels.h
/// can declare it.
template <typename T>
struct Update : AnyFormula<T> {
  using Base = AnyFormula<T>;
  using Base::Base;
};

}  // namespace dlrun::trainer
