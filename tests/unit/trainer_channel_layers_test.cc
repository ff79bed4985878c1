// Tests silu, squeeze-excite and global means against plain loops.

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kSamples = 3;
constexpr std::size_t kPixels = 6;
constexpr std::size_t kChannels = 5;
constexpr std::size_t kSqueezed = 2;

std::vector<double> drawn(std::size_t count, std::uint64_t seed) {
  Random random(seed, Purpose::kInit);
  std::vector<double> values(count);
  for (double& value : values) value = random.uniform(-2, 2);
  return values;
}

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Returns the mean of channel k of sample i.
double mean_of(const std::vector<double>& x, std::size_t i, std::size_t k) {
  double sum = 0;
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel)
    sum += x[(i * kPixels + pixel) * kChannels + k];
  return sum / kPixels;
}

}  // namespace

TEST_CASE_TEMPLATE("silu is x times the logistic of x, and finite for huge numbers", T, float,
                   double) {
  const auto kernels = make_cpu_kernels<T>(1);
  const std::vector<T> x{0, 1, -1, T(2.5), -30, 800, -800};
  std::vector<T> y(x.size());
  kernels->layer_kernels().silu(x.data(), y.data(), x.size());
  const std::vector<T> dy(x.size(), 2);
  std::vector<T> dx(x.size());
  kernels->layer_kernels().silu_backward(x.data(), dy.data(), dx.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const auto value = static_cast<double>(x[i]);
    const double factor = value < -700 ? 0 : logistic(value);
    CHECK(static_cast<double>(y[i]) == doctest::Approx(value * factor).epsilon(1e-6));
    CHECK(static_cast<double>(dx[i]) ==
          doctest::Approx(2 * (factor + value * factor * (1 - factor))).epsilon(1e-6));
  }
}

TEST_CASE(
    "squeeze-excite gives the outputs of plain loops, and its parameters have the names that "
    "checkpoints use") {
  const auto kernels = make_cpu_kernels<double>(1);
  const auto layer = make_squeeze_excite<double>(kPixels, kChannels, kSqueezed);
  const auto x = drawn(kSamples * kPixels * kChannels, 1);
  const auto parameters = drawn(2 * kChannels * kSqueezed + kChannels + kSqueezed, 2);
  std::vector<double> y(x.size());
  std::vector<double> workspace(kSamples * layer->workspace_size());
  const BatchInfo batch;
  layer->forward({*kernels, parameters.data(), workspace.data(), kSamples, batch}, x.data(),
                 y.data());
  const double* const w1 = parameters.data();
  const double* const b1 = w1 + kChannels * kSqueezed;
  const double* const w2 = b1 + kSqueezed;
  const double* const b2 = w2 + kSqueezed * kChannels;
  for (std::size_t i = 0; i < kSamples; ++i) {
    std::vector<double> hidden(b1, b1 + kSqueezed);
    for (std::size_t j = 0; j < kSqueezed; ++j) {
      for (std::size_t k = 0; k < kChannels; ++k)
        hidden[j] += mean_of(x, i, k) * w1[k * kSqueezed + j];
      hidden[j] *= logistic(hidden[j]);
    }
    for (std::size_t k = 0; k < kChannels; ++k) {
      double sum = b2[k];
      for (std::size_t j = 0; j < kSqueezed; ++j) sum += hidden[j] * w2[j * kChannels + k];
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
        const std::size_t at = (i * kPixels + pixel) * kChannels + k;
        CHECK(y[at] == doctest::Approx(x[at] * logistic(sum)).epsilon(1e-12));
      }
    }
  }
  const auto shapes = layer->parameters();
  REQUIRE(shapes.size() == 4);
  CHECK(shapes[0].name == "squeeze.weight");
  CHECK(shapes[0].shape == std::vector<std::size_t>{kChannels, kSqueezed});
  CHECK(shapes[3].name == "expand.bias");
}

TEST_CASE(
    "`avgpool all` gives each channel's mean, and distributes the mean's gradient evenly, with 1 "
    "and 2 threads") {
  for (const int threads : {1, 2}) {
    const auto kernels = make_cpu_kernels<double>(threads);
    const auto layer = make_global_average_pool<double>({2, 3, kChannels});
    const auto x = drawn(kSamples * kPixels * kChannels, 3);
    std::vector<double> y(kSamples * kChannels);
    const BatchInfo batch;
    layer->forward({*kernels, nullptr, nullptr, kSamples, batch}, x.data(), y.data());
    std::vector<double> dx(x.size());
    layer->backward({*kernels, nullptr, nullptr, kSamples, batch}, x.data(), y.data(), y.data(),
                    nullptr, dx.data());
    for (std::size_t i = 0; i < kSamples; ++i) {
      for (std::size_t k = 0; k < kChannels; ++k) {
        CHECK(y[i * kChannels + k] == doctest::Approx(mean_of(x, i, k)).epsilon(1e-12));
        CHECK(dx[(i * kPixels + 4) * kChannels + k] ==
              doctest::Approx(mean_of(x, i, k) / kPixels).epsilon(1e-12));
      }
    }
  }
}

}  // namespace dlrun::trainer
