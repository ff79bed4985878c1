#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/text.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/schedule.h"

namespace dlrun::trainer {
namespace {

struct Case {
  const char* name;
  double momentum;
  double weight_decay;
  double clip_norm;
  std::array<double, 8> expected_parameters;
};

const Case kCases[] = {
#include "tests/reference/optimizers.inc"
};

/// Returns the i-th gradient of step t, as gradient() in tests/reference/optimizers.py does.
double gradient(std::size_t i, int t) {
  if ((static_cast<int>(i) + t) % 5 == 0) return 0;
  return std::sin(1.7 * static_cast<double>(i) + 0.3 * t) *
         std::pow(10.0, static_cast<double>(i % 4) - 2);
}

/// Lets the optimizer do ten steps on an array with `copies` copies of the reference's eight
/// parameters: each copy is a weight with six elements and a bias with two. Returns the parameters.
template <typename T>
std::vector<T> trained_parameters(const Case& reference, std::size_t copies, int threads) {
  OptimizerOptions options;
  options.name = reference.name;
  options.momentum = reference.momentum;
  options.weight_decay = reference.weight_decay;
  options.trust = 0.05;
  auto optimizer = make_optimizer<T>(options);
  REQUIRE(optimizer.has_value());
  auto kernels = make_cpu_kernels<T>(threads);
  const std::size_t count = 8 * copies;
  std::vector<T> parameters(count);
  std::vector<T> gradients(count);
  std::vector<TensorRange> tensors;
  for (std::size_t i = 0; i < count; ++i)
    parameters[i] = static_cast<T>(0.1 * (static_cast<double>(i % 8) - 3));
  for (std::size_t i = 0; i < count; i += 8)
    tensors.insert(tensors.end(), {{i, 6, true}, {i + 6, 2, false}});
  std::vector<std::vector<T>> states;
  for (const StateArrayInfo& state : (*optimizer)->states())
    states.emplace_back(state.is_per_tensor ? tensors.size() : count);
  std::vector<T*> pointers;
  for (auto& state : states) pointers.push_back(state.data());
  for (int t = 1; t <= 10; ++t) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = static_cast<T>(gradient(i % 8, t));
    StepInfo info{0.01, static_cast<std::uint64_t>(t), 1};
    // Uses the norm of a single copy, so that the scale does not depend on the number of copies.
    if (reference.clip_norm > 0)
      info.gradient_scale = clipping_scale(*kernels, gradients.data(), 8, reference.clip_norm);
    (*optimizer)
        ->step(*kernels, {parameters.data(), gradients.data(), pointers, count, tensors}, info);
  }
  return parameters;
}

}  // namespace

TEST_CASE("optimizers give the reference's numbers, in double and in float") {
  for (const Case& reference : kCases) {
    CAPTURE(reference.name);
    CAPTURE(reference.momentum);
    CAPTURE(reference.weight_decay);
    CAPTURE(reference.clip_norm);
    const auto doubles = trained_parameters<double>(reference, 1, 1);
    const auto floats = trained_parameters<float>(reference, 1, 1);
    for (std::size_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(doubles[i] ==
            doctest::Approx(reference.expected_parameters[i]).epsilon(1e-12).scale(1));
      // The tolerance covers the float rounding of ten steps.
      CHECK(floats[i] == doctest::Approx(reference.expected_parameters[i]).epsilon(2e-5).scale(1));
    }
  }
}

TEST_CASE(
    "an optimizer gives the same bits for an element at any position and with any number of "
    "threads") {
  // An element may be in a vector loop or in its scalar remainder, and in the range of any thread.
  // The ranks keep equal parameters only if this does not affect the bits.
  constexpr std::size_t kCopies = 5003;
  for (const Case& reference : kCases) {
    CAPTURE(reference.name);
    const auto one = trained_parameters<float>(reference, 1, 1);
    for (const int threads : {1, 2, 3}) {
      const auto many = trained_parameters<float>(reference, kCopies, threads);
      for (std::size_t i = 0; i < many.size(); ++i) REQUIRE(many[i] == one[i % 8]);
    }
  }
}

TEST_CASE(
    "make_optimizer() accepts every name of optimizer_names(), and lists them for an unknown "
    "name") {
  std::string listed;
  for (const auto name : split(optimizer_names(), '|')) {
    OptimizerOptions options;
    options.name = name;
    CHECK_MESSAGE(make_optimizer<float>(options).has_value(), options.name);
    listed += (listed.empty() ? "" : ", ") + options.name;
  }
  OptimizerOptions unknown;
  unknown.name = "adamm";
  CHECK(make_optimizer<float>(unknown).error().message ==
        "--optimizer adamm: expected one of " + listed);
}

TEST_CASE("every optimizer has reference cases, also with weight decay and with clipping") {
  for (const auto name : split(optimizer_names(), '|')) {
    CAPTURE(std::string(name));
    const auto has_case = [&](auto is_wanted) {
      return std::any_of(std::begin(kCases), std::end(kCases), [&](const Case& reference) {
        return reference.name == name && is_wanted(reference);
      });
    };
    constexpr const char* kRemedy =
        "add the case to tests/reference/optimizers.py, and let this script write optimizers.inc "
        "again";
    CHECK_MESSAGE(has_case([](const Case&) { return true; }), kRemedy);
    CHECK_MESSAGE(has_case([](const Case& one) { return one.weight_decay > 0; }), kRemedy);
    CHECK_MESSAGE(has_case([](const Case& one) { return one.clip_norm > 0; }), kRemedy);
  }
}

TEST_CASE(
    "sums of squares have the same bits for any number of threads, and are exact if all partial "
    "sums are exact") {
  std::vector<float> x(100'003);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  const std::array<TensorRange, 3> ranges{{{0, 17}, {17, 99'000}, {99'017, 0}}};
  std::array<double, 3> one{};
  make_cpu_kernels<float>(1)->sums_of_squares(x.data(), ranges, one.data());
  double direct = 0;
  for (std::size_t i = 17; i < 99'017; ++i) direct += double{x[i]} * double{x[i]};
  CHECK(one[1] == doctest::Approx(direct).epsilon(1e-13));
  CHECK(one[2] == 0);
  for (const int threads : {2, 3}) {
    std::array<double, 3> many{};
    make_cpu_kernels<float>(threads)->sums_of_squares(x.data(), ranges, many.data());
    CHECK(many == one);
  }
  const std::vector<float> threes(70'000, 3);
  const TensorRange all{0, threes.size()};
  double sum = 0;
  make_cpu_kernels<float>(1)->sums_of_squares(threes.data(), std::span(&all, 1), &sum);
  CHECK(sum == 630'000);
}

TEST_CASE("clipping keeps small gradients, and scales larger ones to the limit") {
  auto kernels = make_cpu_kernels<double>(1);
  const std::array<double, 2> gradients{3, 4};
  CHECK(clipping_scale(*kernels, gradients.data(), 2, 5.1) == 1);
  CHECK(clipping_scale(*kernels, gradients.data(), 2, 2.5) == doctest::Approx(0.5).epsilon(1e-6));
}

TEST_CASE("lars and lamb use the unscaled learning rate for a weight of zeros") {
  // The rate of other weights is proportional to the weight's norm. With this rule, a weight of
  // zeros would never change.
  for (const char* name : {"lars", "lamb"}) {
    CAPTURE(name);
    OptimizerOptions options;
    options.name = name;
    auto optimizer = make_optimizer<double>(options);
    REQUIRE(optimizer.has_value());
    auto kernels = make_cpu_kernels<double>(1);
    std::array<double, 2> parameters{};
    std::array<double, 2> gradients{1, -1};
    std::array<double, 2> first{};
    std::array<double, 2> second{};
    const std::array<double*, 2> states{first.data(), second.data()};
    const TensorRange weight{0, 2};
    (*optimizer)
        ->step(*kernels,
               {parameters.data(), gradients.data(),
                std::span(states).first((*optimizer)->states().size()), 2, std::span(&weight, 1)},
               {0.1, 1, 1});
    CHECK(parameters[0] == doctest::Approx(-0.1).epsilon(1e-5));
    CHECK(parameters[1] == doctest::Approx(0.1).epsilon(1e-5));
  }
}

TEST_CASE("the learning rate is scaled with the ranks, warms up and decays") {
  Schedule schedule;
  schedule.base_rate = 0.1;
  schedule.epochs = 10;
  schedule.rank_count = 4;
  CHECK(learning_rate(schedule, 0) == doctest::Approx(0.1));
  schedule.scaling = LrScaling::kSqrt;
  CHECK(learning_rate(schedule, 9.9) == doctest::Approx(0.2));
  schedule.scaling = LrScaling::kLinear;
  CHECK(learning_rate(schedule, 5) == doctest::Approx(0.4));

  schedule.warmup_epochs = 2;
  CHECK(learning_rate(schedule, 0) == doctest::Approx(0.1));
  CHECK(learning_rate(schedule, 1) == doctest::Approx(0.25));
  CHECK(learning_rate(schedule, 2) == doctest::Approx(0.4));

  schedule.decay = LrDecay::kLinear;
  CHECK(learning_rate(schedule, 6) == doctest::Approx(0.2));
  CHECK(learning_rate(schedule, 10) == doctest::Approx(0));
  schedule.decay = LrDecay::kCosine;
  CHECK(learning_rate(schedule, 2) == doctest::Approx(0.4));
  CHECK(learning_rate(schedule, 4) == doctest::Approx(0.2 * (1 + std::cos(std::acos(-1.0) / 4))));
  CHECK(learning_rate(schedule, 6) == doctest::Approx(0.2));
  schedule.decay = LrDecay::kPolynomial;
  CHECK(learning_rate(schedule, 2) == doctest::Approx(0.4));
  CHECK(learning_rate(schedule, 6) == doctest::Approx(0.1));
  schedule.power = 1;
  CHECK(learning_rate(schedule, 6) == doctest::Approx(0.2));
  schedule.decay = LrDecay::kStep;
  schedule.step_epochs = {3, 6};
  CHECK(learning_rate(schedule, 2.999) == doctest::Approx(0.4));
  CHECK(learning_rate(schedule, 3) == doctest::Approx(0.04));
  CHECK(learning_rate(schedule, 9.9) == doctest::Approx(0.004));

  schedule.scaling = LrScaling::kNone;
  CHECK(learning_rate(schedule, 0) == 0);
  CHECK(learning_rate(schedule, 1) == doctest::Approx(0.05));
  CHECK(learning_rate(schedule, 2) == doctest::Approx(0.1));
}

}  // namespace dlrun::trainer
