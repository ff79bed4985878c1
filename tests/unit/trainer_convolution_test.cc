// Tests convolutions of many window sizes and channel counts, because oneDNN chooses its
// implementation by these sizes and counts, and by the processor.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

/// An array that ends at the end of a page. The next page is inaccessible, so that reading or
/// writing past the array faults.
class GuardedArray {
 public:
  explicit GuardedArray(std::size_t count) : count_(count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (count * sizeof(float) + page - 1) / page * page;
    bytes_ = used + page;
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(static_cast<char*>(memory_) + used, page, PROT_NONE) == 0);
    begin_ = reinterpret_cast<float*>(static_cast<char*>(memory_) + used) - count;
  }
  explicit GuardedArray(const std::vector<double>& values) : GuardedArray(values.size()) {
    std::transform(values.begin(), values.end(), begin_,
                   [](double value) { return static_cast<float>(value); });
  }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;
  ~GuardedArray() { munmap(memory_, bytes_); }

  [[nodiscard]] float* data() { return begin_; }

  /// Returns the largest difference from `values`, relative to their largest absolute value (at
  /// least 1). Returns infinity if an element of the array is not finite.
  [[nodiscard]] double distance(const std::vector<double>& values) const {
    double largest = 0;
    double scale = 1;
    for (std::size_t i = 0; i < count_; ++i) {
      largest =
          std::max(largest, std::isfinite(begin_[i]) ? std::abs(begin_[i] - values[i]) : INFINITY);
      scale = std::max(scale, std::abs(values[i]));
    }
    return largest / scale;
  }

 private:
  std::size_t count_;
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
  float* begin_ = nullptr;
};

/// Returns numbers from -1 to 1 that are exact in float.
std::vector<double> drawn_float_values(std::size_t count, std::uint64_t stream) {
  Random random(1, Purpose::kInit, stream);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

/// The kernels that are tested, and those in double, which use plain loops.
struct KernelPair {
  std::unique_ptr<Kernels<float>> kernels = make_cpu_kernels<float>(1);
  std::unique_ptr<Kernels<double>> reference = make_cpu_kernels<double>(1);
};

/// Compares the convolution of n images and its gradients in float with those in double.
void check_convolution(KernelPair& pair, const Window& window, std::size_t n) {
  CAPTURE(window.size);
  CAPTURE(window.stride);
  CAPTURE(window.padding);
  CAPTURE(window.input.channels);
  CAPTURE(window.output.channels);
  CAPTURE(window.input.height);
  CAPTURE(n);
  const std::size_t input_count = n * window.input.size();
  const std::size_t output_count = n * window.output.size();
  const std::size_t weight_count = window.weight_count();
  const auto x = drawn_float_values(input_count, 1);
  const auto w = drawn_float_values(weight_count, 2);
  const auto bias = drawn_float_values(window.output.channels, 3);
  const auto dy = drawn_float_values(output_count, 4);
  std::vector<double> y(output_count);
  std::vector<double> dx(input_count);
  std::vector<double> dw(weight_count);
  std::vector<double> dbias(window.output.channels);
  LayerKernels<double>& exact = pair.reference->layer_kernels();
  exact.convolve(window, n, x.data(), w.data(), bias.data(), false, y.data());
  exact.convolve_backward_input(window, n, w.data(), dy.data(), dx.data());
  exact.convolve_backward_weights(window, n, x.data(), dy.data(), dw.data(), dbias.data());

  GuardedArray float_x(x);
  GuardedArray float_w(w);
  GuardedArray float_bias(bias);
  GuardedArray float_dy(dy);
  GuardedArray float_y(output_count);
  GuardedArray float_dx(input_count);
  GuardedArray float_dw(weight_count);
  GuardedArray float_dbias(dbias.size());
  LayerKernels<float>& layers = pair.kernels->layer_kernels();
  constexpr double kClose = 1e-5;
  layers.convolve(window, n, float_x.data(), float_w.data(), float_bias.data(), false,
                  float_y.data());
  CHECK(float_y.distance(y) < kClose);
  for (double& value : y) value = std::max(value, 0.0);
  layers.convolve(window, n, float_x.data(), float_w.data(), float_bias.data(), true,
                  float_y.data());
  CHECK(float_y.distance(y) < kClose);
  layers.convolve_backward_input(window, n, float_w.data(), float_dy.data(), float_dx.data());
  CHECK(float_dx.distance(dx) < kClose);
  layers.convolve_backward_weights(window, n, float_x.data(), float_dy.data(), float_dw.data(),
                                   float_dbias.data());
  CHECK(float_dw.distance(dw) < kClose);
  CHECK(float_dbias.distance(dbias) < kClose);
  for (const bool with_relu : {false, true}) {
    exact.convolve(window, n, x.data(), w.data(), nullptr, with_relu, y.data());
    layers.convolve(window, n, float_x.data(), float_w.data(), nullptr, with_relu, float_y.data());
    CHECK(float_y.distance(y) < kClose);
  }
  layers.convolve_backward_weights(window, n, float_x.data(), float_dy.data(), float_dw.data(),
                                   nullptr);
  CHECK(float_dw.distance(dw) < kClose);
  CHECK(layers.status().has_value());
}

}  // namespace

TEST_CASE(
    "convolutions of many sizes, strides and channel counts match plain loops, and stay within "
    "their arrays") {
  for (const std::size_t size : {1U, 2U, 3U, 5U}) {
    for (const std::size_t stride : {1U, 2U, 3U}) {
      for (const std::size_t padding : {std::size_t{0}, size / 2}) {
        // Kernels keep the objects of all their convolutions, so a single pair would need too much
        // memory.
        KernelPair pair;
        for (const std::size_t in_channels : {1U, 3U, 4U, 8U, 12U, 16U, 17U, 33U}) {
          for (const std::size_t out_channels : {1U, 4U, 6U, 8U, 16U, 21U}) {
            const std::size_t edge = 8;
            const std::size_t out = (edge + 2 * padding - size) / stride + 1;
            check_convolution(
                pair, {{edge, edge, in_channels}, {out, out, out_channels}, size, stride, padding},
                5);
          }
        }
      }
    }
  }
}

TEST_CASE("depthwise convolutions match plain loops, and none uses oneDNN's slow reference") {
  KernelPair pair;
  for (const std::size_t size : {1U, 3U, 5U}) {
    for (const std::size_t stride : {1U, 2U}) {
      for (const std::size_t channels : {1U, 3U, 8U, 16U, 33U, 96U}) {
        const std::size_t out = (8 + 2 * (size / 2) - size) / stride + 1;
        check_convolution(
            pair, {{8, 8, channels}, {out, out, channels}, size, stride, size / 2, true}, 5);
      }
    }
  }
  for (const std::string& name : pair.kernels->layer_kernels().implementations())
    CHECK_MESSAGE(name.find("ref") == std::string::npos, name);
}

TEST_CASE("convolutions of many channels match plain loops, and use a matrix product or Winograd") {
  struct Case {
    std::size_t edge, in_channels, out_channels, size, stride, padding;
    const char* implementation;
  };
  // "winograd" uses tiles of 4 x 4. The last tiles end with the image or reach beyond it, with and
  // without padding.
  for (const Case& c : {Case{8, 64, 64, 3, 1, 1, "winograd"},
                        {11, 64, 80, 3, 1, 1, "winograd"},
                        {12, 80, 64, 3, 1, 0, "winograd"},
                        {9, 64, 64, 3, 1, 2, "winograd"},
                        {7, 64, 70, 1, 1, 0, "product"},
                        {7, 70, 64, 1, 2, 0, "product"},
                        {8, 64, 64, 1, 3, 0, "product"},
                        {9, 64, 64, 3, 2, 1, "product"},
                        {4, 64, 65, 3, 1, 1, "product"},
                        {6, 64, 64, 3, 1, 0, "product"}}) {
    for (const int threads : {1, 2}) {
      CAPTURE(threads);
      KernelPair pair;
      pair.kernels = make_cpu_kernels<float>(threads);
      const std::size_t out = (c.edge + 2 * c.padding - c.size) / c.stride + 1;
      check_convolution(pair,
                        {{c.edge, c.edge, c.in_channels},
                         {out, out, c.out_channels},
                         c.size,
                         c.stride,
                         c.padding},
                        3);
      CHECK(pair.kernels->layer_kernels().implementations() ==
            std::vector<std::string>{c.implementation});
    }
  }
}

TEST_CASE("convolutions that compute a batch in several groups of images match plain loops") {
  KernelPair pair;
  // With 9 tiles per image, a group has 28 images. With a matrix of 576 KiB per image, a group has
  // at most 14 images; the 15 images make groups of 8 and 7.
  check_convolution(pair, {{12, 12, 64}, {12, 12, 64}, 3, 1, 1}, 30);
  check_convolution(pair, {{31, 31, 64}, {16, 16, 64}, 3, 2, 1}, 15);
}

}  // namespace dlrun::trainer
