// Tests the sigmoid loss against PyTorch's numbers and against finite differences.

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

namespace loss_reference {
#include "tests/reference/layers.inc"
}  // namespace loss_reference

constexpr std::size_t kLossSamples = 3;
constexpr std::size_t kLossClasses = 4;

template <typename T>
void check_against_reference(double epsilon) {
  auto kernels = make_cpu_kernels<T>(1);
  const std::vector<T> logits(loss_reference::kLogits.begin(), loss_reference::kLogits.end());
  const std::vector<std::uint8_t> labels(loss_reference::kLabels.begin(),
                                         loss_reference::kLabels.end());
  std::vector<T> gradient(logits.size());
  T totals[2] = {0, 0};
  kernels->layer_kernels().sigmoid_cross_entropy(logits.data(), labels.data(), kLossSamples,
                                                 kLossClasses, T{1} / kLossSamples, gradient.data(),
                                                 totals);
  CHECK(static_cast<double>(totals[0]) / kLossSamples ==
        doctest::Approx(loss_reference::kSigmoidLoss[0]).epsilon(epsilon));
  // Each sample counts with its fraction of right answers.
  CHECK(static_cast<double>(totals[1]) == doctest::Approx(0 + 2.0 / 4 + 2.0 / 4));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(gradient[i]) ==
          doctest::Approx(loss_reference::kSigmoidGradient[i]).epsilon(epsilon).scale(0.1));
  }
}

}  // namespace

TEST_CASE(
    "the sigmoid loss and its gradient match PyTorch's for small and huge logits, and right "
    "answers are counted") {
  check_against_reference<double>(1e-14);
  check_against_reference<float>(1e-6);
}

TEST_CASE(
    "the gradient of the sigmoid loss equals the loss's derivative, by central differences in "
    "double") {
  auto kernels = make_cpu_kernels<double>(1);
  std::vector<double> logits{0.3, -1.2, 2.5, 0.0, -0.7, 4.0};
  const std::vector<std::uint8_t> labels{1, 0, 0, 1, 1, 0};
  std::vector<double> gradient(logits.size());
  const auto loss = [&](double* gradient_or_null) {
    double totals[2] = {0, 0};
    kernels->layer_kernels().sigmoid_cross_entropy(logits.data(), labels.data(), 2, 3, 0.5,
                                                   gradient_or_null, totals);
    return totals[0] / 2;
  };
  static_cast<void>(loss(gradient.data()));
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double kept = logits[i];
    logits[i] = kept + kStep;
    const double above = loss(nullptr);
    logits[i] = kept - kStep;
    const double below = loss(nullptr);
    logits[i] = kept;
    CHECK(gradient[i] == doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-8));
  }
}

}  // namespace dlrun::trainer
