#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/optim/schedule.h"

namespace dlrun::trainer {
namespace {

struct Case {
  const char* name;
  double momentum;
  double weight_decay;
  std::array<double, 8> parameters;
};

const Case kCases[] = {
#include "tests/reference/optimizers.inc"
};

/// As tests/reference/optimizers.py has it.
double gradient(std::size_t i, int t) {
  if ((static_cast<int>(i) + t) % 5 == 0) return 0;
  return std::sin(1.7 * static_cast<double>(i) + 0.3 * t) * std::pow(10.0, static_cast<double>(i % 4) - 2);
}

/// count copies of the reference's eight parameters, stepped ten times.
template <typename T>
std::vector<T> stepped(const Case& reference, std::size_t copies, int threads) {
  OptimizerOptions options;
  options.name = reference.name;
  options.momentum = reference.momentum;
  options.weight_decay = reference.weight_decay;
  auto optimizer = make_optimizer<T>(options);
  REQUIRE(optimizer.has_value());
  auto kernels = make_cpu_kernels<T>(threads);
  const std::size_t count = 8 * copies;
  std::vector<T> parameters(count);
  std::vector<T> gradients(count);
  for (std::size_t i = 0; i < count; ++i) parameters[i] = static_cast<T>(0.1 * (static_cast<double>(i % 8) - 3));
  std::vector<std::vector<T>> states((*optimizer)->states().size(), std::vector<T>(count));
  std::vector<T*> pointers;
  for (auto& state : states) pointers.push_back(state.data());
  for (int t = 1; t <= 10; ++t) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = static_cast<T>(gradient(i % 8, t));
    (*optimizer)
        ->step(*kernels, parameters.data(), gradients.data(), pointers, count, 0.01, static_cast<std::uint64_t>(t));
  }
  return parameters;
}

}  // namespace

TEST_CASE("optimizers give the reference's numbers, in double and in float") {
  for (const Case& reference : kCases) {
    CAPTURE(reference.name);
    CAPTURE(reference.momentum);
    CAPTURE(reference.weight_decay);
    const auto exact = stepped<double>(reference, 1, 1);
    const auto single = stepped<float>(reference, 1, 1);
    for (std::size_t i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(exact[i] == doctest::Approx(reference.parameters[i]).epsilon(1e-12).scale(1));
      CHECK(single[i] ==
            doctest::Approx(reference.parameters[i]).epsilon(2e-5).scale(1));  // ten steps of float rounding
    }
  }
}

TEST_CASE("an optimizer gives every element the same bits wherever it lies and however many threads there are") {
  // Vector loops have a scalar rest, and threads have borders; ranks hold the same parameters only if neither shows.
  constexpr std::size_t kCopies = 5003;
  for (const Case& reference : kCases) {
    CAPTURE(reference.name);
    const auto one = stepped<float>(reference, 1, 1);
    for (const int threads : {1, 2, 3}) {
      const auto many = stepped<float>(reference, kCopies, threads);
      for (std::size_t i = 0; i < many.size(); ++i) REQUIRE(many[i] == one[i % 8]);
    }
  }
}

TEST_CASE("an unknown optimizer is refused with the names that there are") {
  OptimizerOptions options;
  options.name = "adamm";
  const auto none = make_optimizer<float>(options);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().message == "--optimizer adamm: expected one of adam, sgd");
}

TEST_CASE("the learning rate scales with the ranks, warms up and decays") {
  Schedule schedule;
  schedule.base = 0.1;
  schedule.epochs = 10;
  schedule.size = 4;
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
}

}  // namespace dlrun::trainer
