// CUDA kernels for layers (depthwise convolutions, pooling, normalisation, dropout, activations),
// for the augmentation of images and for the sigmoid loss. All sums are added in a fixed order, so
// that every run gives the same bits.

#include <climits>

#include "runtime/trainer/cuda/launch.h"
#include "runtime/trainer/cuda/layer_loops.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/nn/layer_elements.h"

namespace dlrun::trainer::cuda {
namespace {

/// Computes to[i] = value(i). value() may read `to` itself, but only at i.
template <typename Value>
__global__ void each_kernel(Value value, float* to, std::size_t count) {
  for (std::size_t i = first(); i < count; i += stride()) to[i] = value(i);
}

template <typename Value>
void each(Value value, float* to, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(each_kernel<Value>, blocks_for(count), kThreads, stream, value, to, count);
}

/// Returns i modulo channels. A 64-bit division costs ten times as much as a 32-bit one.
__device__ std::size_t channel_of(std::size_t i, std::size_t channels) {
  return i <= UINT_MAX ? static_cast<unsigned>(i) % static_cast<unsigned>(channels) : i % channels;
}

constexpr unsigned kTile = 32;
constexpr unsigned kThreadRows = 8;  // a block of transpose_kernel has kTile x kThreadRows threads

/// Transposes through tiles in shared memory, so that both arrays are accessed row by row. A tile's
/// rows have one extra element, so that the elements of a column are in 32 different banks.
__global__ void transpose_kernel(const float* x, std::size_t rows, std::size_t columns, float* y) {
  __shared__ float tile[kTile][kTile + 1];
  const auto tiles_per_row = static_cast<unsigned>((columns + kTile - 1) / kTile);
  const std::size_t row = std::size_t{blockIdx.x / tiles_per_row} * kTile;
  const std::size_t column = std::size_t{blockIdx.x % tiles_per_row} * kTile;
  for (unsigned i = threadIdx.y; i < kTile; i += kThreadRows) {
    if (row + i < rows && column + threadIdx.x < columns)
      tile[i][threadIdx.x] = x[(row + i) * columns + column + threadIdx.x];
  }
  __syncthreads();
  for (unsigned i = threadIdx.y; i < kTile; i += kThreadRows) {
    if (column + i < columns && row + threadIdx.x < rows)
      y[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
  }
}

/// Computes to[image, row, column, k] = value(image, row, column, k). Uses one block
/// per row of an image.
template <typename Value>
__global__ void image_kernel(Value value, ImageShape shape, float* to) {
  const unsigned image = blockIdx.x / static_cast<unsigned>(shape.height);
  const unsigned row = blockIdx.x % static_cast<unsigned>(shape.height);
  const auto channels = static_cast<unsigned>(shape.channels);
  const unsigned elements = static_cast<unsigned>(shape.width) * channels;
  float* const line = to + element_index(shape, image, row, 0, 0);
  for (unsigned at = threadIdx.x; at < elements; at += blockDim.x)
    line[at] = value(image, row, at / channels, at % channels);
}

template <typename Value>
void each_of_images(Value value, const ImageShape& shape, std::size_t n, float* to,
                    cudaStream_t stream) {
  if (n == 0) return;
  const std::size_t warps = (shape.width * shape.channels + kWarp - 1) / kWarp;
  const auto threads = static_cast<unsigned>(warps * kWarp < kThreads ? warps * kWarp : kThreads);
  launch(image_kernel<Value>, static_cast<unsigned>(n * shape.height), threads, stream, value,
         shape, to);
}

// Each warp of a block adds one row of kWarp channels at a time. There is one block for each
// kWarpsPerBlock * kRowsPerWarp rows, but there are at most kMostRowBlocks blocks, which then add
// more rows each.
constexpr unsigned kWarpsPerBlock = kThreads / kWarp;
constexpr std::size_t kRowsPerWarp = 16;
constexpr std::size_t kMostRowBlocks = 256;

/// Returns the number of blocks that add `rows` rows.
std::size_t row_block_count(std::size_t rows) {
  const std::size_t blocks =
      (rows + kWarpsPerBlock * kRowsPerWarp - 1) / (kWarpsPerBlock * kRowsPerWarp);
  return blocks < 1 ? 1 : blocks < kMostRowBlocks ? blocks : kMostRowBlocks;
}

struct Pair {
  double a;
  double b;
};

/// Computes partials, [blocks x 2 x channels]: for each block, the sums over its rows of
/// value(i, channel).a for all channels, then those of value(i, channel).b. The number of blocks
/// depends only on the number of rows, and their sums are added in order, so every run gives the
/// same bits.
template <typename Value>
__global__ void partial_sums_kernel(Value value, std::size_t rows, std::size_t channels,
                                    double* partials) {
  __shared__ double a_sums[kWarpsPerBlock][kWarp];
  __shared__ double b_sums[kWarpsPerBlock][kWarp];
  const std::size_t channel = std::size_t{blockIdx.x} * kWarp + threadIdx.x;
  Pair sum{0, 0};
  if (channel < channels) {
    for (std::size_t row = std::size_t{blockIdx.y} * kWarpsPerBlock + threadIdx.y; row < rows;
         row += std::size_t{gridDim.y} * kWarpsPerBlock) {
      const Pair part = value(row * channels + channel, channel);
      sum.a += part.a;
      sum.b += part.b;
    }
  }
  a_sums[threadIdx.y][threadIdx.x] = sum.a;
  b_sums[threadIdx.y][threadIdx.x] = sum.b;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  for (unsigned warp = 1; warp < kWarpsPerBlock; ++warp) {
    sum.a += a_sums[warp][threadIdx.x];
    sum.b += b_sums[warp][threadIdx.x];
  }
  double* const block = partials + std::size_t{blockIdx.y} * 2 * channels;
  block[channel] = sum.a;
  block[channels + channel] = sum.b;
}

/// Computes sums[j] = the sum of partials[:, j] for j < count. partials: [blocks x width].
template <typename Sum>
__global__ void add_partials_kernel(const double* partials, std::size_t blocks, std::size_t width,
                                    std::size_t count, Sum* sums) {
  for (std::size_t j = first(); j < count; j += stride()) {
    double sum = 0;
    for (std::size_t block = 0; block < blocks; ++block) sum += partials[block * width + j];
    sums[j] = static_cast<Sum>(sum);
  }
}

/// Computes sums, [count]: the first `count` of the 2 x channels sums of value(i, channel) over all
/// rows.
template <typename Value, typename Sum>
void sum_over_rows(Value value, std::size_t rows, std::size_t channels, double* partials,
                   std::size_t count, Sum* sums, cudaStream_t stream) {
  const std::size_t blocks = row_block_count(rows);
  const dim3 grid(static_cast<unsigned>((channels + kWarp - 1) / kWarp),
                  static_cast<unsigned>(blocks));
  launch(partial_sums_kernel<Value>, grid, dim3(kWarp, kWarpsPerBlock), stream, value, rows,
         channels, partials);
  launch(add_partials_kernel<Sum>, blocks_for(count), kThreads, stream, partials, blocks,
         2 * channels, count, sums);
}

__global__ void batch_statistics_kernel(const double* sums, double rows, double sample_fraction,
                                        std::size_t channels, const float* running,
                                        float* statistics, float* observed) {
  for (std::size_t k = first(); k < channels; k += stride())
    batch_statistics_element(k, channels, sums, rows, sample_fraction, running, statistics,
                             observed);
}

__global__ void statistics_from_running_kernel(const float* running, std::size_t channels,
                                               float* statistics) {
  for (std::size_t k = first(); k < channels; k += stride())
    statistics_from_running_element(k, channels, running, statistics);
}

/// Uses one block per sample.
__global__ void dropout_factors_kernel(std::uint64_t seed, std::uint64_t key,
                                       const std::uint32_t* samples, std::size_t sample_count,
                                       std::size_t width, double rate, float kept_factor,
                                       float* factors) {
  const std::size_t row = blockIdx.x;
  const Random random(seed, Purpose::kDropout, key ^ (row < sample_count ? samples[row] : row));
  for (std::size_t j = threadIdx.x; j < width; j += blockDim.x)
    factors[row * width + j] = random.uniform_at(j) < rate ? 0.0F : kept_factor;
}

/// Uses a single block for all rows, like softmax_cross_entropy_kernel.
__global__ void sigmoid_cross_entropy_kernel(const float* logits, const std::uint8_t* labels,
                                             std::size_t n, std::size_t classes, float scale,
                                             float* gradient, float* totals) {
  float loss = 0;
  float correct = 0;
  for (std::size_t i = threadIdx.x; i < n; i += kThreads) {
    float* const gradient_row = gradient == nullptr ? nullptr : gradient + i * classes;
    sigmoid_cross_entropy_row(logits + i * classes, labels + i * classes, classes, scale,
                              gradient_row, loss, correct);
  }
  add_to_totals(loss, correct, totals);
}

/// Uses one thread per class, so that no two threads add to the counts of one class.
__global__ void count_confusions_kernel(const float* logits, const std::uint8_t* labels,
                                        std::size_t n, std::size_t classes, std::uint32_t* counts) {
  for (std::size_t k = first(); k < classes; k += stride())
    count_confusions_of(k, logits, labels, n, classes, counts);
}

}  // namespace

void transpose(const float* x, std::size_t rows, std::size_t columns, float* y,
               cudaStream_t stream) {
  if (rows * columns == 0) return;
  const std::size_t tiles = ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  launch(transpose_kernel, static_cast<unsigned>(tiles), dim3(kTile, kThreadRows), stream, x, rows,
         columns, y);
}

void add_channel_bias(float* y, const float* bias, std::size_t rows, std::size_t channels,
                      bool with_relu, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const float value = y[i] + bias[channel_of(i, channels)];
        return !with_relu || value > 0 ? value : 0.0F;
      },
      y, rows * channels, stream);
}

void depthwise(const Window& window, std::size_t n, const float* x, const float* w,
               const float* bias, bool with_relu, float* y, cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t i, std::size_t j, std::size_t k) {
        const float sum = depthwise_element(window, x, w, image, i, j, k);
        const float value = bias == nullptr ? sum : sum + bias[k];
        return !with_relu || value > 0 ? value : 0.0F;
      },
      window.output, n, y, stream);
}

void depthwise_backward_input(const Window& window, std::size_t n, const float* w, const float* dy,
                              float* dx, cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t row, std::size_t column, std::size_t k) {
        return depthwise_backward_element(window, w, dy, image, row, column, k);
      },
      window.input, n, dx, stream);
}

void depthwise_backward_weights(const Window& window, std::size_t n, const float* x,
                                const float* dy, double* partials, float* dw, cudaStream_t stream) {
  const std::size_t rows = n * window.output.height * window.output.width;
  const std::size_t channels = window.output.channels;
  for (std::size_t a = 0; a < window.size; ++a) {
    for (std::size_t b = 0; b < window.size; ++b) {
      sum_over_rows(
          [=] __device__(std::size_t i, std::size_t channel) {
            const float from = depthwise_input(window, x, i / channels, channel, a, b);
            return Pair{double{from} * double{dy[i]}, 0};
          },
          rows, channels, partials, channels, dw + (a * window.size + b) * channels, stream);
    }
  }
}

void channel_means(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                   float* means, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const float* const from = x + i / channels * pixels * channels + i % channels;
        float sum = 0;
        for (std::size_t pixel = 0; pixel < pixels; ++pixel) sum += from[pixel * channels];
        return sum / static_cast<float>(pixels);
      },
      means, n * channels, stream);
}

void channel_means_backward(std::size_t n, std::size_t pixels, std::size_t channels,
                            const float* dmeans, bool is_added, float* dx, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const std::size_t sample = i / (pixels * channels);
        const float part = dmeans[sample * channels + i % channels] / static_cast<float>(pixels);
        return is_added ? dx[i] + part : part;
      },
      dx, n * pixels * channels, stream);
}

void scale_channels(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                    const float* factors, float* y, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        return x[i] * factors[i / (pixels * channels) * channels + i % channels];
      },
      y, n * pixels * channels, stream);
}

void channel_products(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                      const float* dy, float* products, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const std::size_t first_pixel = i / channels * pixels * channels + i % channels;
        float sum = 0;
        for (std::size_t pixel = 0; pixel < pixels; ++pixel)
          sum += x[first_pixel + pixel * channels] * dy[first_pixel + pixel * channels];
        return sum;
      },
      products, n * channels, stream);
}

void max_pool(const Window& window, std::size_t n, const float* x, float* y, cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t i, std::size_t j, std::size_t k) {
        return max_pool_element(window, x, image, i, j, k);
      },
      window.output, n, y, stream);
}

void max_pool_backward(const Window& window, std::size_t n, const float* x, const float* y,
                       const float* dy, float* dx, cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t row, std::size_t column, std::size_t k) {
        return max_pool_backward_element(window, x, y, dy, image, row, column, k);
      },
      window.input, n, dx, stream);
}

void average_pool(const Window& window, std::size_t n, const float* x, float* y,
                  cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t i, std::size_t j, std::size_t k) {
        return average_pool_element(window, x, image, i, j, k);
      },
      window.output, n, y, stream);
}

void average_pool_backward(const Window& window, std::size_t n, const float* dy, float* dx,
                           cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t row, std::size_t column, std::size_t k) {
        return average_pool_backward_element(window, dy, image, row, column, k);
      },
      window.input, n, dx, stream);
}

std::size_t count_of_partials(std::size_t rows, std::size_t channels) {
  return row_block_count(rows) * 2 * channels;
}

void channel_sums(const float* x, std::size_t rows, std::size_t channels, double* partials,
                  float* sums, cudaStream_t stream) {
  sum_over_rows(
      [=] __device__(std::size_t i, std::size_t) {
        return Pair{x[i], 0};
      },
      rows, channels, partials, channels, sums, stream);
}

void batch_sums(const float* x, const float* running_mean, std::size_t rows, std::size_t channels,
                double* partials, double* sums, cudaStream_t stream) {
  sum_over_rows(
      [=] __device__(std::size_t i, std::size_t channel) {
        const double value = double{x[i]} - double{running_mean[channel]};
        return Pair{value, value * value};
      },
      rows, channels, partials, 2 * channels, sums, stream);
}

void backward_sums(const float* x, const float* dy, const float* statistics, std::size_t rows,
                   std::size_t channels, double* partials, double* sums, cudaStream_t stream) {
  sum_over_rows(
      [=] __device__(std::size_t i, std::size_t channel) {
        const float z = (x[i] - statistics[channel]) * statistics[channels + channel];
        return Pair{dy[i], double{dy[i]} * double{z}};
      },
      rows, channels, partials, 2 * channels, sums, stream);
}

void batch_statistics(const double* sums, double rows, double sample_fraction, std::size_t channels,
                      const float* running, float* statistics, float* observed,
                      cudaStream_t stream) {
  launch(batch_statistics_kernel, blocks_for(channels), kThreads, stream, sums, rows,
         sample_fraction, channels, running, statistics, observed);
}

void statistics_from_running(const float* running, std::size_t channels, float* statistics,
                             cudaStream_t stream) {
  launch(statistics_from_running_kernel, blocks_for(channels), kThreads, stream, running, channels,
         statistics);
}

void normalise(const float* x, const float* statistics, const float* parameters, std::size_t rows,
               std::size_t channels, bool with_relu, float* y, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const float value =
            normalised(x[i], channel_of(i, channels), channels, statistics, parameters);
        return !with_relu || value > 0 ? value : 0.0F;
      },
      y, rows * channels, stream);
}

void normalisation_parameter_gradients(const double* sums, std::size_t channels, float* gradients,
                                       cudaStream_t stream) {
  each(
      [=] __device__(std::size_t j) {
        return static_cast<float>(sums[j < channels ? channels + j : j - channels]);
      },
      gradients, 2 * channels, stream);
}

void normalisation_backward_means(const double* sums, double rows, std::size_t channels,
                                  float* means, cudaStream_t stream) {
  each([=] __device__(std::size_t j) { return static_cast<float>(sums[j] / rows); }, means,
       2 * channels, stream);
}

void normalise_backward_input(const float* x, const float* dy, const float* statistics,
                              const float* gamma, const float* means, std::size_t rows,
                              std::size_t channels, float* dx, cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        return normalised_backward(x[i], dy[i], channel_of(i, channels), channels, statistics,
                                   gamma, means);
      },
      dx, rows * channels, stream);
}

void dropout_factors(std::uint64_t seed, std::uint64_t key, const std::uint32_t* samples,
                     std::size_t sample_count, std::size_t n, std::size_t width, double rate,
                     float* factors, cudaStream_t stream) {
  if (n == 0) return;
  const auto kept_factor = static_cast<float>(1 / (1 - rate));
  launch(dropout_factors_kernel, static_cast<unsigned>(n), kThreads, stream, seed, key, samples,
         sample_count, width, rate, kept_factor, factors);
}

void change_images(const ImageShape& shape, const ImageChange* changes, std::size_t n,
                   const float* x, float* y, cudaStream_t stream) {
  each_of_images(
      [=] __device__(std::size_t image, std::size_t row, std::size_t column, std::size_t k) {
        return changed_element(shape, changes[image], x + image * shape.size(), row, column, k);
      },
      shape, n, y, stream);
}

void sigmoid_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                           std::size_t classes, float scale, float* gradient, float* totals,
                           cudaStream_t stream) {
  if (n == 0) return;
  launch(sigmoid_cross_entropy_kernel, 1, kThreads, stream, logits, labels, n, classes, scale,
         gradient, totals);
}

void count_confusions(const float* logits, const std::uint8_t* labels, std::size_t n,
                      std::size_t classes, std::uint32_t* counts, cudaStream_t stream) {
  if (n == 0) return;
  launch(count_confusions_kernel, blocks_for(classes), kThreads, stream, logits, labels, n, classes,
         counts);
}

void hyperbolic_tangent(const float* x, float* y, std::size_t count, cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return tanhf(x[i]); }, y, count, stream);
}

void hyperbolic_tangent_backward(const float* y, const float* dy, float* dx, std::size_t count,
                                 cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return dy[i] * (1 - y[i] * y[i]); }, dx, count, stream);
}

void logistic(const float* x, float* y, std::size_t count, cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return logistic_of(x[i]); }, y, count, stream);
}

void logistic_backward(const float* y, const float* dy, float* dx, std::size_t count,
                       cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return dy[i] * y[i] * (1 - y[i]); }, dx, count, stream);
}

void silu(const float* x, float* y, std::size_t count, cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return silu_of(x[i]); }, y, count, stream);
}

void silu_backward(const float* x, const float* dy, float* dx, std::size_t count,
                   cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return silu_backward_of(x[i], dy[i]); }, dx, count, stream);
}

void multiply(const float* a, const float* b, float* product, std::size_t count,
              cudaStream_t stream) {
  each([=] __device__(std::size_t i) { return a[i] * b[i]; }, product, count, stream);
}

void add(const float* a, const float* b, bool with_relu, float* sum, std::size_t count,
         cudaStream_t stream) {
  each(
      [=] __device__(std::size_t i) {
        const float value = a[i] + b[i];
        return !with_relu || value > 0 ? value : 0.0F;
      },
      sum, count, stream);
}

}  // namespace dlrun::trainer::cuda
