#pragma once
// The list of all formulas (formula.h). Each device compiles an update loop for each formula. nvcc
// compiles this file as C++17.

#include <variant>

#include "runtime/trainer/optim/adam.h"
#include "runtime/trainer/optim/formula.h"
#include "runtime/trainer/optim/lamb.h"
#include "runtime/trainer/optim/lion.h"
#include "runtime/trainer/optim/rmsprop.h"
#include "runtime/trainer/optim/sgd.h"

namespace dlrun::trainer {

template <typename T>
using AnyFormula =
    std::variant<AdamFormula<T>, LambFormula<T>, LionFormula<T>, RmspropFormula<T>, SgdFormula<T>>;

/// The formula of one update, with its coefficients. It is a struct, and not an alias of
/// AnyFormula, so that nn/kernels.h can declare it without this file.
template <typename T>
struct Update : AnyFormula<T> {
  using Base = AnyFormula<T>;
  using Base::Base;
};

}  // namespace dlrun::trainer
