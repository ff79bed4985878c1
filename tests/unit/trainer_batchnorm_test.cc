// Tests batch normalisation against PyTorch's numbers.

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {
namespace {

namespace batchnorm_reference {
#include "tests/reference/layers.inc"
}  // namespace batchnorm_reference

constexpr std::size_t kImagesPerBatch = 5;
constexpr ImageShape kShape{3, 2, 4};
constexpr std::size_t kElements = kImagesPerBatch * 3 * 2 * 4;
constexpr int kBatches = 3;

/// Returns the i-th number of a batch, as value() in tests/reference/layers.py does.
double value(std::size_t i, int batch) {
  const auto channel = static_cast<double>(i % kShape.channels);
  return std::sin(1.3 * static_cast<double>(i) + batch) * std::pow(10.0, channel - 2) + channel -
         1.5;
}

template <typename T>
void check_near(std::span<const T> got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(got[i]) == doctest::Approx(want[i]).epsilon(tolerance).scale(1));
  }
}

/// The tolerance for T = double. PyTorch rounds the layer's epsilon (1e-5) to float32 even for
/// double tensors, and a channel's variance may be only five times that epsilon.
constexpr double kNormTolerance = 1e-7;

/// Runs forward and backward through a network of a single batchnorm layer on each batch, and
/// compares the results of the last batch and the running statistics with the reference.
template <typename T>
void check_against_reference(double tolerance, int threads) {
  auto kernels = make_cpu_kernels<T>(threads);
  const std::vector<std::string> layer_texts{"batchnorm"};
  Network<T> network(*kernels, *make_layers<T>(layer_texts, kShape, kShape.size()), kShape.size(),
                     kImagesPerBatch, 1);
  network.initialise(1);
  const std::vector<T> parameters{T(1.5), T(-0.5), T(2), T(0.25), T(0.1), T(0.2), T(-0.3), T(0)};
  std::copy(parameters.begin(), parameters.end(), network.parameters().begin());
  for (int batch = 0; batch < kBatches; ++batch) {
    for (std::size_t i = 0; i < kElements; ++i) {
      network.input()[i] = static_cast<T>(value(i, batch));
      network.output_gradient()[i] = static_cast<T>(std::cos(0.7 * static_cast<double>(i)));
    }
    std::fill(network.observed_statistics().begin(), network.observed_statistics().end(), T{0});
    network.forward(kImagesPerBatch, {.is_training = true});
    network.backward(kImagesPerBatch, [](std::size_t) {});
    network.update_running_statistics();
  }
  const std::span<const T> running = network.running_statistics();
  check_near<T>({network.output(), kElements}, batchnorm_reference::kY, tolerance);
  check_near<T>(network.gradients().first(4), batchnorm_reference::kWeightGradient, tolerance);
  check_near<T>(network.gradients().subspan(4), batchnorm_reference::kBiasGradient, tolerance);
  check_near<T>(running.first(4), batchnorm_reference::kRunningMean, tolerance);
  check_near<T>(running.subspan(4), batchnorm_reference::kRunningVariance, tolerance);
  network.forward(kImagesPerBatch);
  check_near<T>({network.output(), kElements}, batchnorm_reference::kEvaluated, tolerance);
}

}  // namespace

TEST_CASE("batchnorm gives PyTorch's outputs, gradients and running statistics") {
  check_against_reference<double>(kNormTolerance, 1);
  check_against_reference<float>(2e-5, 1);
  check_against_reference<float>(2e-5, 3);
}

TEST_CASE("batchnorm gives PyTorch's gradient of the layer's input") {
  auto kernels = make_cpu_kernels<double>(1);
  const auto layer = make_batchnorm<double>(kShape.height * kShape.width, kShape.channels, false);
  const std::vector<double> parameters{1.5, -0.5, 2, 0.25, 0.1, 0.2, -0.3, 0};
  const std::vector<double> running{-2, 0.5, 1, 3, 1, 1, 1, 1};  // has no effect in training
  std::vector<double> workspace(kImagesPerBatch * layer->workspace_size());
  std::vector<double> x(kElements), y(kElements), dy(kElements), dx(kElements),
      gradients(parameters.size());
  for (std::size_t i = 0; i < kElements; ++i) {
    x[i] = value(i, kBatches - 1);
    dy[i] = std::cos(0.7 * static_cast<double>(i));
  }
  const BatchInfo batch{.is_training = true};
  const LayerCall<double> call{*kernels, parameters.data(), workspace.data(), kImagesPerBatch,
                               batch,    running.data()};
  layer->forward(call, x.data(), y.data());
  layer->backward(call, x.data(), y.data(), dy.data(), gradients.data(), dx.data());
  check_near<double>(dx, batchnorm_reference::kInputGradient, kNormTolerance);
}

TEST_CASE(
    "synchronised batchnorm uses the statistics of all ranks, and a rank without samples takes "
    "part in the sums") {
  auto kernels = make_cpu_kernels<double>(1);
  constexpr std::size_t kWidth = 3;
  const auto layer = make_batchnorm<double>(1, kWidth, true);
  const std::vector<double> parameters{1, 1, 1, 0, 0, 0};
  const std::vector<double> running{0, 0, 0, 1, 1, 1};
  const std::vector<double> x{1, 2, 3, 4, 5, 9};
  std::vector<double> workspace(2 * layer->workspace_size()), y(2 * kWidth), observed(2 * kWidth),
      gradients(2 * kWidth);
  int sum_call_count = 0;
  // The other rank has two samples, all zero: it adds only to the last sum, the sample count.
  const SumOverRanks sum = [&](std::span<double> sums) {
    ++sum_call_count;
    sums.back() += 2;
  };
  const BatchInfo batch{.is_training = true, .step_samples = 4, .sum_over_ranks = &sum};
  layer->forward(
      {*kernels, parameters.data(), workspace.data(), 2, batch, running.data(), observed.data()},
      x.data(), y.data());
  CHECK(sum_call_count == 1);
  CHECK(y[0] == doctest::Approx((1 - 1.25) / std::sqrt(17.0 / 4 - 1.25 * 1.25 + 1e-5)));
  CHECK(observed[0] == doctest::Approx(1.25 * 2 / 4));  // this rank's half
  CHECK(observed[kWidth] == doctest::Approx((17.0 / 4 - 1.25 * 1.25) * 4 / 3 * 2 / 4));

  const LayerCall<double> empty{*kernels, parameters.data(), workspace.data(), 0,
                                batch,    running.data(),    observed.data()};
  layer->forward(empty, x.data(), y.data());
  layer->backward(empty, x.data(), y.data(), y.data(), gradients.data(), nullptr);
  CHECK(sum_call_count == 3);
  CHECK(observed[0] == doctest::Approx(1.25 * 2 / 4));
  CHECK(gradients == std::vector<double>(2 * kWidth, 0));
}

}  // namespace dlrun::trainer
