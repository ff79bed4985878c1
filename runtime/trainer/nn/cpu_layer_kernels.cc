// The CPU's implementation of layer_kernels.h.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/convolution.h"
#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/nn/layer_elements.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

/// Calls visit(a, b, r, c) with window row and column and input row and column, for each element of
/// the window at output row i and column j that lies inside the image.
template <typename Visit>
void for_each_inside(const Window& w, std::size_t i, std::size_t j, const Visit& visit) {
  for (std::size_t a = 0; a < w.size; ++a) {
    const std::size_t r = i * w.stride + a;
    if (r < w.padding || r - w.padding >= w.input.height) continue;
    for (std::size_t b = 0; b < w.size; ++b) {
      const std::size_t c = j * w.stride + b;
      if (c < w.padding || c - w.padding >= w.input.width) continue;
      visit(a, b, r - w.padding, c - w.padding);
    }
  }
}

/// Returns a pointer to the channels of a pixel.
template <typename T>
T* pixel(T* images, const ImageShape& shape, std::size_t image, std::size_t row,
         std::size_t column) {
  return images + ((image * shape.height + row) * shape.width + column) * shape.channels;
}

/// Calls visit(row, column) for every output pixel of an image.
template <typename Visit>
void for_each_output(const Window& w, const Visit& visit) {
  for (std::size_t i = 0; i < w.output.height; ++i) {
    for (std::size_t j = 0; j < w.output.width; ++j) visit(i, j);
  }
}

/// The tests' reference, which follows the definition.
struct PlainConvolutions {
  static Result<> forward(const Window& w, std::size_t n, const double* x, const double* weights,
                          const double* bias, bool with_relu, double* y) {
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        double* out = pixel(y, w.output, image, i, j);
        std::copy_n(bias, w.output.channels, out);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          const double* from = pixel(x, w.input, image, r, c);
          for (std::size_t k = 0; k < w.input.channels; ++k) {
            for (std::size_t o = 0; o < w.output.channels; ++o)
              out[o] += from[k] * weights[at(w, a, b, k, o)];
          }
        });
        if (with_relu) loops::relu(out, out, w.output.channels);
      });
    }
    return {};
  }

  static Result<> backward_input(const Window& w, std::size_t n, const double* weights,
                                 const double* dy, double* dx) {
    std::fill_n(dx, n * w.input.size(), 0);
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const double* out = pixel(dy, w.output, image, i, j);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          double* to = pixel(dx, w.input, image, r, c);
          for (std::size_t k = 0; k < w.input.channels; ++k) {
            for (std::size_t o = 0; o < w.output.channels; ++o)
              to[k] += out[o] * weights[at(w, a, b, k, o)];
          }
        });
      });
    }
    return {};
  }

  static Result<> backward_weights(const Window& w, std::size_t n, const double* x,
                                   const double* dy, double* dw) {
    std::fill_n(dw, w.size * w.size * w.input.channels * w.output.channels, 0);
    for (std::size_t image = 0; image < n; ++image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const double* out = pixel(dy, w.output, image, i, j);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          const double* from = pixel(x, w.input, image, r, c);
          for (std::size_t k = 0; k < w.input.channels; ++k) {
            for (std::size_t o = 0; o < w.output.channels; ++o)
              dw[at(w, a, b, k, o)] += from[k] * out[o];
          }
        });
      });
    }
    return {};
  }

  [[nodiscard]] static std::vector<std::string> implementations() { return {}; }

 private:
  static std::size_t at(const Window& w, std::size_t a, std::size_t b, std::size_t k,
                        std::size_t o) {
    return ((a * w.size + b) * w.input.channels + k) * w.output.channels + o;
  }
};

template <typename T>
class CpuLayerKernels final : public LayerKernels<T> {
 public:
  explicit CpuLayerKernels(int threads) : threads_(threads) {}

  [[nodiscard]] std::size_t samples_at_once(std::size_t bytes) const override {
    // Measured on cores with 1 MiB of cache each: cnn is equally fast with 7 and 8 samples, and
    // slower with 14 and 28.
    constexpr std::size_t kCacheBytes = std::size_t{1280} << 10U;
    return static_cast<std::size_t>(threads_) *
           std::max<std::size_t>(kCacheBytes / std::max<std::size_t>(bytes, 1), 1);
  }

  void convolve(const Window& window, std::size_t n, const T* x, const T* w, const T* bias,
                bool with_relu, T* y) override {
    keep(convolutions_.forward(window, n, x, w, bias, with_relu, y));
  }
  void convolve_backward_input(const Window& window, std::size_t n, const T* w, const T* dy,
                               T* dx) override {
    keep(convolutions_.backward_input(window, n, w, dy, dx));
  }
  void convolve_backward_weights(const Window& window, std::size_t n, const T* x, const T* dy,
                                 T* dw, T* dbias) override {
    keep(convolutions_.backward_weights(window, n, x, dy, dw));
    sum_columns(dy, n * window.output.height * window.output.width, window.output.channels, dbias);
  }

  void max_pool(const Window& w, std::size_t n, const T* x, T* y) override {
    const std::size_t channels = w.input.channels;
    for_each_of(n, [&](std::size_t image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        T* out = pixel(y, w.output, image, i, j);
        for_each_inside(w, i, j, [&](std::size_t a, std::size_t b, std::size_t r, std::size_t c) {
          const T* from = pixel(x, w.input, image, r, c);
          if (a == 0 && b == 0) {
            std::copy_n(from, channels, out);
          } else {
            loops::keep_larger(from, out, channels);
          }
        });
      });
    });
  }

  void max_pool_backward(const Window& w, std::size_t n, const T* x, const T* y, const T* dy,
                         T* dx) override {
    const std::size_t channels = w.input.channels;
    // If windows tile the image, each element is in exactly one window, and dx is overwritten.
    const bool is_tiling = w.stride == w.size && w.output.height * w.size == w.input.height &&
                           w.output.width * w.size == w.input.width;
    for_each_of(n, [&](std::size_t image) {
      if (!is_tiling) std::fill_n(dx + image * w.input.size(), w.input.size(), T{0});
      std::vector<T> left(channels);  // rest of dy; 0 once it was added to an element
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const T* out = pixel(y, w.output, image, i, j);
        std::copy_n(pixel(dy, w.output, image, i, j), channels, left.data());
        for_each_inside(w, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          const T* from = pixel(x, w.input, image, r, c);
                          T* to = pixel(dx, w.input, image, r, c);
                          if (is_tiling) {
                            loops::give_to_equal(from, out, left.data(), to, channels);
                          } else {
                            loops::add_to_equal(from, out, left.data(), to, channels);
                          }
                        });
      });
    });
  }

  void average_pool(const Window& w, std::size_t n, const T* x, T* y) override {
    const std::size_t channels = w.input.channels;
    const T part = T{1} / static_cast<T>(w.size * w.size);
    for_each_of(n, [&](std::size_t image) {
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        T* out = pixel(y, w.output, image, i, j);
        std::fill_n(out, channels, T{0});
        for_each_inside(w, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          const T* from = pixel(x, w.input, image, r, c);
                          for (std::size_t k = 0; k < channels; ++k) out[k] += part * from[k];
                        });
      });
    });
  }

  void average_pool_backward(const Window& w, std::size_t n, const T* dy, T* dx) override {
    const std::size_t channels = w.input.channels;
    const T part = T{1} / static_cast<T>(w.size * w.size);
    for_each_of(n, [&](std::size_t image) {
      std::fill_n(dx + image * w.input.size(), w.input.size(), T{0});
      for_each_output(w, [&](std::size_t i, std::size_t j) {
        const T* out = pixel(dy, w.output, image, i, j);
        for_each_inside(w, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          T* to = pixel(dx, w.input, image, r, c);
                          for (std::size_t k = 0; k < channels; ++k) to[k] += part * out[k];
                        });
      });
    });
  }

  void batch_statistics(const T* x, std::size_t rows, std::size_t channels,
                        const SumOverRanks* sum_over_ranks, double share, const T* running,
                        T* statistics, T* observed) override {
    sum_blocks(rows, channels, [&](std::size_t row, double* block) {
      const T* from = x + row * channels;
      for (std::size_t k = 0; k < channels; ++k) {
        const double value = double{from[k]} - double{running[k]};
        block[k] += value;
        block[channels + k] += value * value;
      }
    });
    const double all_rows = add_up(rows, sum_over_ranks);
    if (rows == 0) return;
    for (std::size_t k = 0; k < channels; ++k)
      batch_statistics_element(k, channels, sums_.data(), all_rows, share, running, statistics,
                               observed);
  }

  void running_statistics(const T* running, std::size_t channels, T* statistics) override {
    for (std::size_t k = 0; k < channels; ++k)
      running_statistics_element(k, channels, running, statistics);
  }

  void normalise(const T* x, const T* statistics, const T* parameters, std::size_t rows,
                 std::size_t channels, T* y) override {
    for_each_of(rows, [&](std::size_t row) {
      const T* from = x + row * channels;
      T* to = y + row * channels;
      for (std::size_t k = 0; k < channels; ++k)
        to[k] = normalised(from[k], k, channels, statistics, parameters);
    });
  }

  void normalise_backward_sums(const T* x, const T* dy, const T* statistics, std::size_t rows,
                               std::size_t channels, const SumOverRanks* sum_over_ranks,
                               T* gradients, T* means) override {
    sum_blocks(rows, channels, [&](std::size_t row, double* block) {
      const T* from = x + row * channels;
      const T* delta = dy + row * channels;
      for (std::size_t k = 0; k < channels; ++k) {
        block[k] += double{delta[k]};
        block[channels + k] +=
            double{delta[k]} * double{(from[k] - statistics[k]) * statistics[channels + k]};
      }
    });
    for (std::size_t k = 0; k < channels; ++k) {
      gradients[k] = static_cast<T>(sums_[channels + k]);
      gradients[channels + k] = static_cast<T>(sums_[k]);
    }
    const double all_rows = add_up(rows, sum_over_ranks);
    for (std::size_t k = 0; k < 2 * channels && rows > 0; ++k)
      means[k] = static_cast<T>(sums_[k] / all_rows);
  }

  void normalise_backward_input(const T* x, const T* dy, const T* statistics, const T* gamma,
                                const T* means, std::size_t rows, std::size_t channels,
                                T* dx) override {
    for_each_of(rows, [&](std::size_t row) {
      const T* from = x + row * channels;
      const T* delta = dy + row * channels;
      T* to = dx + row * channels;
      for (std::size_t k = 0; k < channels; ++k)
        to[k] = normalised_backward(from[k], delta[k], k, channels, statistics, gamma, means);
    });
  }

  void dropout_factors(std::uint64_t seed, std::uint64_t key,
                       std::span<const std::uint32_t> samples, std::size_t n, std::size_t width,
                       double rate, T* factors) override {
    const T kept = static_cast<T>(1 / (1 - rate));
    const std::uint64_t dropped = Random::threshold_of(rate);
    for_each_of(n, [&](std::size_t i) {
      const Random random(seed, Purpose::kDropout, key ^ (i < samples.size() ? samples[i] : i));
      T* const row = factors + i * width;
      for (std::size_t j = 0; j < width; ++j)
        row[j] = kept * static_cast<T>(!random.is_below_at(j, dropped));
    });
  }

  void sigmoid_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                             std::size_t classes, T scale, T* gradient, T* totals) override {
    for (std::size_t i = 0; i < n; ++i) {
      T* const slope = gradient == nullptr ? nullptr : gradient + i * classes;
      sigmoid_cross_entropy_row(logits + i * classes, labels + i * classes, classes, scale, slope,
                                totals[0], totals[1]);
    }
  }

  void hyperbolic_tangent(const T* x, T* y, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) y[i] = std::tanh(x[i]);
  }
  void hyperbolic_tangent_backward(const T* y, const T* dy, T* dx, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
  }
  void logistic(const T* x, T* y, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) y[i] = logistic_of(x[i]);
  }
  void logistic_backward(const T* y, const T* dy, T* dx, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
  }
  void multiply(const T* a, const T* b, T* product, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) product[i] = a[i] * b[i];
  }
  void add(const T* a, const T* b, T* sum, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
  }
  void copy(const T* x, T* y, std::size_t count) override { std::copy_n(x, count, y); }

  [[nodiscard]] std::vector<std::string> implementations() const override {
    return convolutions_.implementations();
  }
  [[nodiscard]] Result<> status() const override { return status_; }

 private:
  /// Calls work(i) for i < n on several threads, for images or other independent
  /// parts of the output.
  template <typename Work>
  void for_each_of(std::size_t n, const Work& work) const {
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t image = 0; image < n; ++image) work(image);
  }

  /// Computes sums[j] = the sum of x[:, j] in the order of the rows. Each
  /// thread takes some columns.
  void sum_columns(const T* x, std::size_t rows, std::size_t columns, T* sums) const {
    constexpr std::size_t kLine = 64 / sizeof(T);
    const std::size_t lines = (columns + kLine - 1) / kLine;
    const std::size_t part = (lines + static_cast<std::size_t>(threads_) - 1) /
                             static_cast<std::size_t>(threads_) * kLine;
    for_each_of((columns + part - 1) / part, [&](std::size_t i) {
      loops::sum_columns(x + i * part, rows, columns, std::min(part, columns - i * part),
                         sums + i * part);
    });
  }

  /// Computes sums_ = the sum of add(row, block) over all rows, 2 x channels numbers. Each thread
  /// takes whole blocks, and the blocks are added in order.
  template <typename Add>
  void sum_blocks(std::size_t rows, std::size_t channels, const Add& add) {
    constexpr std::size_t kRows = 512;
    const std::size_t width = 2 * channels;
    const std::size_t blocks = (rows + kRows - 1) / kRows;
    block_sums_.assign(blocks * width, 0);
    for_each_of(blocks, [&](std::size_t block) {
      for (std::size_t row = block * kRows; row < std::min(rows, (block + 1) * kRows); ++row)
        add(row, block_sums_.data() + block * width);
    });
    sums_.assign(width, 0);
    for (std::size_t i = 0; i < block_sums_.size(); ++i) sums_[i % width] += block_sums_[i];
  }

  /// Adds sums_ over all ranks that are normalised together. Returns their number of rows.
  double add_up(std::size_t rows, const SumOverRanks* sum_over_ranks) {
    sums_.push_back(static_cast<double>(rows));
    if (sum_over_ranks != nullptr) (*sum_over_ranks)(sums_);
    return sums_.back();
  }

  void keep(Result<> result) {
    if (!result && status_) status_ = std::move(result);
  }

  int threads_;
  std::conditional_t<std::is_same_v<T, float>, OnednnConvolutions, PlainConvolutions> convolutions_;
  std::vector<double> block_sums_;
  std::vector<double> sums_;
  Result<> status_;
};

}  // namespace

template <typename T>
std::unique_ptr<LayerKernels<T>> make_cpu_layer_kernels(int threads) {
  return std::make_unique<CpuLayerKernels<T>>(threads);
}
template std::unique_ptr<LayerKernels<float>> make_cpu_layer_kernels(int);
template std::unique_ptr<LayerKernels<double>> make_cpu_layer_kernels(int);

}  // namespace dlrun::trainer
