// Tests, on the CPU, the functions with which the GPU computes single elements: the results equal
// those of the CPU's own loops, which use other algorithms.

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_elements.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kImages = 3;

/// Returns windows that tile the image, overlap, leave gaps, leave a remainder, or are as wide as
/// the image.
std::vector<Window> windows() {
  constexpr ImageShape kImage{7, 6, 3};
  std::vector<Window> all;
  for (const auto& [size, stride] : std::array<std::array<std::size_t, 2>, 7>{
           {{1, 1}, {2, 2}, {3, 3}, {3, 1}, {3, 2}, {2, 3}, {6, 1}}}) {
    all.push_back(
        {kImage,
         {(kImage.height - size) / stride + 1, (kImage.width - size) / stride + 1, kImage.channels},
         size,
         stride,
         0});
  }
  return all;
}

/// Returns windows with padding, for maxima and depthwise convolutions.
std::vector<Window> padded_windows() {
  constexpr ImageShape kImage{7, 6, 3};
  std::vector<Window> all;
  for (const auto& [size, stride] :
       std::array<std::array<std::size_t, 2>, 5>{{{3, 1}, {3, 2}, {3, 4}, {5, 1}, {5, 3}}}) {
    const std::size_t padding = size / 2;
    all.push_back({kImage,
                   {(kImage.height + 2 * padding - size) / stride + 1,
                    (kImage.width + 2 * padding - size) / stride + 1, kImage.channels},
                   size,
                   stride,
                   padding});
  }
  return all;
}

/// Returns values from -2 to 2 in steps of 0.5, so that most windows hold their largest value more
/// than once.
std::vector<float> coarse_values(std::size_t count, std::uint64_t seed) {
  Random random(seed, Purpose::kInit);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.below(9)) / 2 - 2;
  return values;
}

/// Returns value(image, row, column, k) for every element of images of this shape.
template <typename Value>
std::vector<float> element_values(const ImageShape& shape, const Value& value) {
  std::vector<float> all;
  for (std::size_t image = 0; image < kImages; ++image) {
    for (std::size_t row = 0; row < shape.height; ++row) {
      for (std::size_t column = 0; column < shape.width; ++column) {
        for (std::size_t k = 0; k < shape.channels; ++k) {
          REQUIRE(element_index(shape, image, row, column, k) == all.size());
          all.push_back(value(image, row, column, k));
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("windows_over() returns exactly the windows that contain the pixel") {
  for (std::size_t size = 1; size <= 5; ++size) {
    for (std::size_t stride = 1; stride <= 6; ++stride) {
      for (std::size_t inputs = size; inputs <= 14; ++inputs) {
        const std::size_t outputs = (inputs - size) / stride + 1;
        const Window window{{}, {}, size, stride, 0};
        for (std::size_t pixel = 0; pixel < inputs; ++pixel) {
          const Positions found = windows_over(pixel, window, outputs);
          for (std::size_t i = 0; i < outputs; ++i) {
            const bool contains_pixel = i * stride <= pixel && pixel < i * stride + size;
            CHECK((found.first <= i && i < found.end) == contains_pixel);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "pooling element by element gives the same bits as the CPU's loops, even with equal numbers in "
    "a window") {
  const auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  for (const Window& window : windows()) {
    CAPTURE(window.size);
    CAPTURE(window.stride);
    const std::vector<float> x = coarse_values(kImages * window.input.size(), window.size);
    const std::vector<float> dy =
        coarse_values(kImages * window.output.size(), 100 + window.stride);
    std::vector<float> y(dy.size());
    std::vector<float> dx(x.size(), -1);
    layers.max_pool(window, kImages, x.data(), y.data());
    CHECK(y == element_values(window.output, [&](auto... at) {
            return max_pool_element(window, x.data(), at...);
          }));
    layers.max_pool_backward(window, kImages, x.data(), y.data(), dy.data(), dx.data());
    CHECK(dx == element_values(window.input, [&](auto... at) {
            return max_pool_backward_element(window, x.data(), y.data(), dy.data(), at...);
          }));
    layers.average_pool(window, kImages, x.data(), y.data());
    CHECK(y == element_values(window.output, [&](auto... at) {
            return average_pool_element(window, x.data(), at...);
          }));
    layers.average_pool_backward(window, kImages, dy.data(), dx.data());
    CHECK(dx == element_values(window.input, [&](auto... at) {
            return average_pool_backward_element(window, dy.data(), at...);
          }));
  }
}

TEST_CASE(
    "maxima of padded windows, element by element, match the CPU's loops and never come from the "
    "padding") {
  const auto kernels = make_cpu_kernels<float>(1);
  LayerKernels<float>& layers = kernels->layer_kernels();
  for (const Window& window : padded_windows()) {
    CAPTURE(window.size);
    CAPTURE(window.stride);
    std::vector<float> x = coarse_values(kImages * window.input.size(), window.size);
    for (float& value : x) value -= 3;  // all below zero
    const std::vector<float> dy =
        coarse_values(kImages * window.output.size(), 100 + window.stride);
    std::vector<float> y(dy.size());
    std::vector<float> dx(x.size(), -1);
    layers.max_pool(window, kImages, x.data(), y.data());
    CHECK(y == element_values(window.output, [&](auto... at) {
            return max_pool_element(window, x.data(), at...);
          }));
    for (const float value : y) CHECK(value < 0);
    layers.max_pool_backward(window, kImages, x.data(), y.data(), dy.data(), dx.data());
    CHECK(dx == element_values(window.input, [&](auto... at) {
            return max_pool_backward_element(window, x.data(), y.data(), dy.data(), at...);
          }));
  }
}

TEST_CASE(
    "depthwise convolutions and their gradients, element by element, match the CPU's plain loops") {
  const auto kernels = make_cpu_kernels<double>(1);
  LayerKernels<double>& layers = kernels->layer_kernels();
  for (Window window : padded_windows()) {
    window.is_depthwise = true;
    CAPTURE(window.size);
    CAPTURE(window.stride);
    const auto drawn = [](std::size_t count, std::uint64_t seed) {
      const std::vector<float> values = coarse_values(count, seed);
      return std::vector<double>(values.begin(), values.end());
    };
    // The products are multiples of 1/4, so that sums in any order are exact.
    const auto x = drawn(kImages * window.input.size(), 1);
    const auto weights = drawn(window.weight_count(), 2);
    const auto dy = drawn(kImages * window.output.size(), 3);
    const auto are_equal = [](const std::vector<float>& a, const std::vector<double>& b) {
      return std::vector<double>(a.begin(), a.end()) == b;
    };
    std::vector<double> y(dy.size());
    std::vector<double> dx(x.size());
    std::vector<double> dw(weights.size());
    layers.convolve(window, kImages, x.data(), weights.data(), nullptr, false, y.data());
    CHECK(are_equal(element_values(window.output,
                                   [&](auto... at) {
                                     return static_cast<float>(depthwise_element(
                                         window, x.data(), weights.data(), at...));
                                   }),
                    y));
    layers.convolve_backward_input(window, kImages, weights.data(), dy.data(), dx.data());
    CHECK(are_equal(element_values(window.input,
                                   [&](auto... at) {
                                     return static_cast<float>(depthwise_backward_element(
                                         window, weights.data(), dy.data(), at...));
                                   }),
                    dx));
    layers.convolve_backward_weights(window, kImages, x.data(), dy.data(), dw.data(), nullptr);
    for (std::size_t row = 0; row < window.size; ++row) {
      for (std::size_t column = 0; column < window.size; ++column) {
        for (std::size_t k = 0; k < window.input.channels; ++k) {
          double sum = 0;
          for (std::size_t pixel = 0; pixel * window.output.channels < dy.size(); ++pixel)
            sum += depthwise_input(window, x.data(), pixel, k, row, column) *
                   dy[pixel * window.output.channels + k];
          CHECK(sum == dw[(row * window.size + column) * window.input.channels + k]);
        }
      }
    }
  }
}

TEST_CASE(
    "the numbers of a random stream can be computed in any order, and compared exactly with a "
    "bound") {
  Random random(7, Purpose::kDropout, 3);
  const Random start = random;
  for (std::uint64_t i = 0; i < 1000; ++i) CHECK(start.uniform_at(i) == random.uniform());
  CHECK(random.uniform_at(5) == start.uniform_at(1005));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double value = start.uniform_at(i);
    for (const double bound :
         {0.0, 0.25, 0.5, 0.9, 1.0, std::nextafter(value, 0.0), value, std::nextafter(value, 1.0)})
      CHECK(start.is_below_at(i, Random::threshold_of(bound)) == (value < bound));
  }
}

}  // namespace dlrun::trainer
