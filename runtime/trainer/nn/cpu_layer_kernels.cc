// The CPU's implementation of layer_kernels.h.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/cpu_convolutions.h"
#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/nn/layer_elements.h"
#include "runtime/trainer/nn/layer_kernels.h"
#include "runtime/trainer/nn/normalise_loops.h"
#include "runtime/trainer/nn/plain_convolutions.h"

namespace dlrun::trainer {
namespace {

template <typename T>
class CpuLayerKernels final : public LayerKernels<T> {
 public:
  explicit CpuLayerKernels(int threads) : threads_(threads), convolutions_(threads) {}

  [[nodiscard]] std::size_t samples_per_part(std::size_t bytes_per_sample) const override {
    // Limit for a thread's samples in the largest array. Measured on cores with 1 MiB of cache:
    // the model cnn is equally fast with 7 and 8 samples per thread, and slower with 14 and 28.
    constexpr std::size_t kBytesPerThread = std::size_t{1280} << 10U;
    return static_cast<std::size_t>(threads_) *
           std::max<std::size_t>(kBytesPerThread / std::max<std::size_t>(bytes_per_sample, 1), 1);
  }

  void convolve(const Window& window, std::size_t n, const T* x, const T* w, const T* bias,
                bool with_relu, T* y) override {
    remember_failure(convolutions_.forward(window, n, x, w, bias, with_relu, y));
  }
  void convolve_backward_input(const Window& window, std::size_t n, const T* w, const T* dy,
                               T* dx) override {
    remember_failure(convolutions_.backward_input(window, n, w, dy, dx));
  }
  void convolve_backward_weights(const Window& window, std::size_t n, const T* x, const T* dy,
                                 T* dw, T* dbias) override {
    remember_failure(convolutions_.backward_weights(window, n, x, dy, dw));
    if (dbias == nullptr) return;
    sum_columns(dy, n * window.output.height * window.output.width, window.output.channels, dbias);
  }

  void max_pool(const Window& window, std::size_t n, const T* x, T* y) override {
    const std::size_t channels = window.input.channels;
    for_each_of(n, [&](std::size_t image) {
      for_each_output(window, [&](std::size_t i, std::size_t j) {
        T* out = pixel(y, window.output, image, i, j);
        bool is_first = true;
        for_each_inside(window, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          const T* from = pixel(x, window.input, image, r, c);
                          if (is_first) {
                            std::copy_n(from, channels, out);
                          } else {
                            loops::max_in_place(from, out, channels);
                          }
                          is_first = false;
                        });
      });
    });
  }

  void max_pool_backward(const Window& window, std::size_t n, const T* x, const T* y, const T* dy,
                         T* dx) override {
    const std::size_t channels = window.input.channels;
    // If windows tile the image, each element is in exactly one window, so dx needs no zeros first.
    const bool is_tiling = window.stride == window.size && window.padding == 0 &&
                           window.output.height * window.size == window.input.height &&
                           window.output.width * window.size == window.input.width;
    for_each_of(n, [&](std::size_t image) {
      if (!is_tiling) std::fill_n(dx + image * window.input.size(), window.input.size(), T{0});
      // For each channel, dy until it is added to an element of dx, then 0.
      std::vector<T> remaining(channels);
      for_each_output(window, [&](std::size_t i, std::size_t j) {
        const T* out = pixel(y, window.output, image, i, j);
        std::copy_n(pixel(dy, window.output, image, i, j), channels, remaining.data());
        for_each_inside(window, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          const T* from = pixel(x, window.input, image, r, c);
                          T* to = pixel(dx, window.input, image, r, c);
                          if (is_tiling) {
                            loops::store_max_gradient(from, out, remaining.data(), to, channels);
                          } else {
                            loops::add_max_gradient(from, out, remaining.data(), to, channels);
                          }
                        });
      });
    });
  }

  void average_pool(const Window& window, std::size_t n, const T* x, T* y) override {
    const std::size_t channels = window.input.channels;
    const T weight = T{1} / static_cast<T>(window.size * window.size);
    for_each_of(n, [&](std::size_t image) {
      for_each_output(window, [&](std::size_t i, std::size_t j) {
        T* out = pixel(y, window.output, image, i, j);
        std::fill_n(out, channels, T{0});
        for_each_inside(window, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          const T* from = pixel(x, window.input, image, r, c);
                          for (std::size_t k = 0; k < channels; ++k) out[k] += weight * from[k];
                        });
      });
    });
  }

  void average_pool_backward(const Window& window, std::size_t n, const T* dy, T* dx) override {
    const std::size_t channels = window.input.channels;
    const T weight = T{1} / static_cast<T>(window.size * window.size);
    for_each_of(n, [&](std::size_t image) {
      std::fill_n(dx + image * window.input.size(), window.input.size(), T{0});
      for_each_output(window, [&](std::size_t i, std::size_t j) {
        const T* dout = pixel(dy, window.output, image, i, j);
        for_each_inside(window, i, j,
                        [&](std::size_t /*a*/, std::size_t /*b*/, std::size_t r, std::size_t c) {
                          T* to = pixel(dx, window.input, image, r, c);
                          for (std::size_t k = 0; k < channels; ++k) to[k] += weight * dout[k];
                        });
      });
    });
  }

  void channel_means(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                     T* means) override {
    for_each_of(n, [&](std::size_t i) {
      T* const out = means + i * channels;
      loops::sum_columns(x + i * pixels * channels, pixels, channels, channels, out);
      for (std::size_t k = 0; k < channels; ++k) out[k] /= static_cast<T>(pixels);
    });
  }

  void channel_means_backward(std::size_t n, std::size_t pixels, std::size_t channels,
                              const T* dmeans, bool is_added, T* dx) override {
    for_each_of(n * pixels, [&](std::size_t row) {
      const T* const from = dmeans + row / pixels * channels;
      T* const to = dx + row * channels;
      for (std::size_t k = 0; k < channels; ++k)
        to[k] = (is_added ? to[k] : T{0}) + from[k] / static_cast<T>(pixels);
    });
  }

  void scale_channels(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                      const T* factors, T* y) override {
    for_each_of(n * pixels, [&](std::size_t row) {
      const T* const factor = factors + row / pixels * channels;
      for (std::size_t k = 0; k < channels; ++k)
        y[row * channels + k] = x[row * channels + k] * factor[k];
    });
  }

  void channel_products(std::size_t n, std::size_t pixels, std::size_t channels, const T* x,
                        const T* dy, T* products) override {
    for_each_of(n, [&](std::size_t i) {
      T* const out = products + i * channels;
      std::fill_n(out, channels, T{0});
      for (std::size_t at = i * pixels * channels; at < (i + 1) * pixels * channels; at += channels)
        for (std::size_t k = 0; k < channels; ++k) out[k] += x[at + k] * dy[at + k];
    });
  }

  void batch_statistics(const T* x, std::size_t rows, std::size_t channels,
                        const SumOverRanks* sum_over_ranks, double sample_fraction,
                        const T* running, T* statistics, T* observed) override {
    sum_blocks(rows, channels, [&](std::size_t row, std::size_t count, double* block) {
      loops::add_centred_sums(x + row * channels, running, count, channels, block);
    });
    const double all_rows = add_up_over_ranks(rows, sum_over_ranks);
    if (rows == 0) return;
    for (std::size_t k = 0; k < channels; ++k)
      batch_statistics_element(k, channels, sums_.data(), all_rows, sample_fraction, running,
                               statistics, observed);
  }

  void statistics_from_running(const T* running, std::size_t channels, T* statistics) override {
    for (std::size_t k = 0; k < channels; ++k)
      statistics_from_running_element(k, channels, running, statistics);
  }

  void normalise(const T* x, const T* statistics, const T* parameters, std::size_t rows,
                 std::size_t channels, bool with_relu, T* y) override {
    for_each_block(rows, [&](std::size_t row, std::size_t count) {
      loops::normalise(x + row * channels, statistics, parameters, count, channels, with_relu,
                       y + row * channels);
    });
  }

  void normalise_backward_sums(const T* x, const T* dy, const T* statistics, std::size_t rows,
                               std::size_t channels, const SumOverRanks* sum_over_ranks,
                               T* gradients, T* means) override {
    sum_blocks(rows, channels, [&](std::size_t row, std::size_t count, double* block) {
      loops::add_backward_sums(x + row * channels, dy + row * channels, statistics, count, channels,
                               block);
    });
    for (std::size_t k = 0; k < channels; ++k) {
      gradients[k] = static_cast<T>(sums_[channels + k]);
      gradients[channels + k] = static_cast<T>(sums_[k]);
    }
    const double all_rows = add_up_over_ranks(rows, sum_over_ranks);
    for (std::size_t k = 0; k < 2 * channels && rows > 0; ++k)
      means[k] = static_cast<T>(sums_[k] / all_rows);
  }

  void normalise_backward_input(const T* x, const T* dy, const T* statistics, const T* gamma,
                                const T* means, std::size_t rows, std::size_t channels,
                                T* dx) override {
    for_each_block(rows, [&](std::size_t row, std::size_t count) {
      loops::normalise_backward(x + row * channels, dy + row * channels, statistics, gamma, means,
                                count, channels, dx + row * channels);
    });
  }

  void dropout_factors(std::uint64_t seed, std::uint64_t key,
                       std::span<const std::uint32_t> samples, std::size_t n, std::size_t width,
                       double rate, T* factors) override {
    const T kept_factor = static_cast<T>(1 / (1 - rate));
    const std::uint64_t threshold = Random::threshold_of(rate);
    for_each_of(n, [&](std::size_t i) {
      const Random random(seed, Purpose::kDropout, key ^ (i < samples.size() ? samples[i] : i));
      T* const row = factors + i * width;
      for (std::size_t j = 0; j < width; ++j)
        row[j] = kept_factor * static_cast<T>(!random.is_below_at(j, threshold));
    });
  }

  void change_images(const ImageShape& shape, std::span<const ImageChange> changes, const T* x,
                     T* y) override {
    for_each_of(changes.size(), [&](std::size_t i) {
      const T* const from = x + i * shape.size();
      T* to = y + i * shape.size();
      for (std::size_t row = 0; row < shape.height; ++row) {
        for (std::size_t column = 0; column < shape.width; ++column) {
          for (std::size_t k = 0; k < shape.channels; ++k)
            *to++ = changed_element(shape, changes[i], from, row, column, k);
        }
      }
    });
  }

  void sigmoid_cross_entropy(const T* logits, const std::uint8_t* labels, std::size_t n,
                             std::size_t classes, T scale, T* gradient, T* totals) override {
    for (std::size_t i = 0; i < n; ++i) {
      T* const gradient_row = gradient == nullptr ? nullptr : gradient + i * classes;
      sigmoid_cross_entropy_row(logits + i * classes, labels + i * classes, classes, scale,
                                gradient_row, totals[0], totals[1]);
    }
  }

  void count_confusions(const T* logits, const std::uint8_t* labels, std::size_t n,
                        std::size_t classes, std::uint32_t* counts) override {
    for (std::size_t k = 0; k < classes; ++k)
      count_confusions_of(k, logits, labels, n, classes, counts);
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
  void silu(const T* x, T* y, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) y[i] = silu_of(x[i]);
  }
  void silu_backward(const T* x, const T* dy, T* dx, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) dx[i] = silu_backward_of(x[i], dy[i]);
  }
  void multiply(const T* a, const T* b, T* product, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) product[i] = a[i] * b[i];
  }
  void add(const T* a, const T* b, bool with_relu, T* sum, std::size_t count) override {
    loops::add(a, b, with_relu, sum, count);
  }
  void copy(const T* x, T* y, std::size_t count) override { std::copy_n(x, count, y); }

  [[nodiscard]] std::vector<std::string> implementations() const override {
    return convolutions_.implementations();
  }
  [[nodiscard]] Result<> status() const override { return status_; }

 private:
  /// Calls work(i) for i < n on several threads, for images or other independent parts of the
  /// output.
  template <typename Work>
  void for_each_of(std::size_t n, const Work& work) const {
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t i = 0; i < n; ++i) work(i);
  }

  /// Computes sums[j] = the sum of x[:, j] in the order of the rows. Each thread processes some
  /// columns.
  void sum_columns(const T* x, std::size_t rows, std::size_t columns, T* sums) const {
    constexpr std::size_t kLine = 64 / sizeof(T);  // elements of a cache line
    const std::size_t lines = (columns + kLine - 1) / kLine;
    const std::size_t part_size = (lines + static_cast<std::size_t>(threads_) - 1) /
                                  static_cast<std::size_t>(threads_) * kLine;
    for_each_of((columns + part_size - 1) / part_size, [&](std::size_t i) {
      const std::size_t at = i * part_size;
      loops::sum_columns(x + at, rows, columns, std::min(part_size, columns - at), sums + at);
    });
  }

  static constexpr std::size_t kBlockRows = 512;

  /// Calls work(row, count) for blocks of rows, spread over the threads.
  template <typename Work>
  void for_each_block(std::size_t rows, const Work& work) const {
    for_each_of((rows + kBlockRows - 1) / kBlockRows, [&](std::size_t block) {
      const std::size_t row = block * kBlockRows;
      work(row, std::min(kBlockRows, rows - row));
    });
  }

  /// Computes sums_, [2 x channels]. add(row, count, block) adds the values of rows [row, row +
  /// count) to `block`. Each thread processes whole blocks, and the blocks are added in order.
  template <typename Add>
  void sum_blocks(std::size_t rows, std::size_t channels, const Add& add) {
    const std::size_t width = 2 * channels;
    block_sums_.assign((rows + kBlockRows - 1) / kBlockRows * width, 0);
    for_each_block(rows, [&](std::size_t row, std::size_t count) {
      add(row, count, block_sums_.data() + row / kBlockRows * width);
    });
    sums_.assign(width, 0);
    for (std::size_t i = 0; i < block_sums_.size(); ++i) sums_[i % width] += block_sums_[i];
  }

  /// Replaces sums_ by its sum over all ranks whose batches are normalised together. Appends the
  /// number of rows of these ranks to sums_, and returns this number.
  double add_up_over_ranks(std::size_t rows, const SumOverRanks* sum_over_ranks) {
    sums_.push_back(static_cast<double>(rows));
    if (sum_over_ranks != nullptr) (*sum_over_ranks)(sums_);
    return sums_.back();
  }

  void remember_failure(Result<> result) {
    if (!result && status_) status_ = std::move(result);
  }

  int threads_;
  std::conditional_t<std::is_same_v<T, float>, CpuConvolutions, PlainConvolutions> convolutions_;
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
