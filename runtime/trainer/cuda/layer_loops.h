#pragma once
// CUDA kernels for the functions of LayerKernels<float> (nn/layer_kernels.h). Many kernels apply a
// function of nn/layer_elements.h to every element. cuDNN computes all convolutions except the
// depthwise ones. Each function that takes a stream queues kernels on it and does not wait for
// them. Unless a comment says otherwise, arrays are device memory with the contents that
// LayerKernels<float> defines for the function of the same name; depthwise* correspond to
// LayerKernels::convolve*.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "runtime/trainer/nn/image_change.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer::cuda {

/// Computes y[j, i] = x[i, j]. x: [rows x columns], y: [columns x rows].
void transpose(const float* x, std::size_t rows, std::size_t columns, float* y,
               cudaStream_t stream);
/// Computes y[i, :] += bias, then max(y, 0) if with_relu. y: [rows x channels], bias: [channels].
void add_channel_bias(float* y, const float* bias, std::size_t rows, std::size_t channels,
                      bool with_relu, cudaStream_t stream);

// Depthwise convolutions. bias: nullptr for zeros. partials: scratch memory for
// count_of_partials(n x output.height x output.width, output.channels) doubles.
void depthwise(const Window& window, std::size_t n, const float* x, const float* w,
               const float* bias, bool with_relu, float* y, cudaStream_t stream);
void depthwise_backward_input(const Window& window, std::size_t n, const float* w, const float* dy,
                              float* dx, cudaStream_t stream);
void depthwise_backward_weights(const Window& window, std::size_t n, const float* x,
                                const float* dy, double* partials, float* dw, cudaStream_t stream);

void channel_means(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                   float* means, cudaStream_t stream);
void channel_means_backward(std::size_t n, std::size_t pixels, std::size_t channels,
                            const float* dmeans, bool is_added, float* dx, cudaStream_t stream);
void scale_channels(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                    const float* factors, float* y, cudaStream_t stream);
void channel_products(std::size_t n, std::size_t pixels, std::size_t channels, const float* x,
                      const float* dy, float* products, cudaStream_t stream);

void max_pool(const Window& window, std::size_t n, const float* x, float* y, cudaStream_t stream);
void max_pool_backward(const Window& window, std::size_t n, const float* x, const float* y,
                       const float* dy, float* dx, cudaStream_t stream);
void average_pool(const Window& window, std::size_t n, const float* x, float* y,
                  cudaStream_t stream);
void average_pool_backward(const Window& window, std::size_t n, const float* dy, float* dx,
                           cudaStream_t stream);

/// Returns the number of doubles that the sums over rows need as scratch memory (`partials`).
[[nodiscard]] std::size_t count_of_partials(std::size_t rows, std::size_t channels);
/// Sums x over the rows. x: [rows x channels], sums: [channels].
void channel_sums(const float* x, std::size_t rows, std::size_t channels, double* partials,
                  float* sums, cudaStream_t stream);
/// Sums the difference x - running_mean, and its square, over the rows. running_mean: [channels],
/// sums: [2 x channels].
void batch_sums(const float* x, const float* running_mean, std::size_t rows, std::size_t channels,
                double* partials, double* sums, cudaStream_t stream);
/// Sums dy, and the product dy * (x - mean) * scale, over the rows. statistics: mean, then scale;
/// sums: [2 x channels].
void backward_sums(const float* x, const float* dy, const float* statistics, std::size_t rows,
                   std::size_t channels, double* partials, double* sums, cudaStream_t stream);

/// Computes LayerKernels::batch_statistics from `sums`. `rows` is the number of rows of all ranks
/// that `sums` includes.
void batch_statistics(const double* sums, double rows, double sample_fraction, std::size_t channels,
                      const float* running, float* statistics, float* observed,
                      cudaStream_t stream);
void statistics_from_running(const float* running, std::size_t channels, float* statistics,
                             cudaStream_t stream);
void normalise(const float* x, const float* statistics, const float* parameters, std::size_t rows,
               std::size_t channels, bool with_relu, float* y, cudaStream_t stream);
/// Computes gradients = the second half of `sums`, then the first half. sums: the result of
/// backward_sums(); gradients: [2 x channels].
void normalisation_parameter_gradients(const double* sums, std::size_t channels, float* gradients,
                                       cudaStream_t stream);
/// Computes means = sums / rows. sums, means: [2 x channels].
void normalisation_backward_means(const double* sums, double rows, std::size_t channels,
                                  float* means, cudaStream_t stream);
void normalise_backward_input(const float* x, const float* dy, const float* statistics,
                              const float* gamma, const float* means, std::size_t rows,
                              std::size_t channels, float* dx, cudaStream_t stream);

/// samples: device memory, [sample_count]. If sample_count < n, the function uses i in place of
/// samples[i] for i >= sample_count.
void dropout_factors(std::uint64_t seed, std::uint64_t key, const std::uint32_t* samples,
                     std::size_t sample_count, std::size_t n, std::size_t width, double rate,
                     float* factors, cudaStream_t stream);
/// changes: device memory, [n].
void change_images(const ImageShape& shape, const ImageChange* changes, std::size_t n,
                   const float* x, float* y, cudaStream_t stream);
void sigmoid_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t n,
                           std::size_t classes, float scale, float* gradient, float* totals,
                           cudaStream_t stream);
void count_confusions(const float* logits, const std::uint8_t* labels, std::size_t n,
                      std::size_t classes, std::uint32_t* counts, cudaStream_t stream);

void hyperbolic_tangent(const float* x, float* y, std::size_t count, cudaStream_t stream);
void hyperbolic_tangent_backward(const float* y, const float* dy, float* dx, std::size_t count,
                                 cudaStream_t stream);
void logistic(const float* x, float* y, std::size_t count, cudaStream_t stream);
void logistic_backward(const float* y, const float* dy, float* dx, std::size_t count,
                       cudaStream_t stream);
void silu(const float* x, float* y, std::size_t count, cudaStream_t stream);
void silu_backward(const float* x, const float* dy, float* dx, std::size_t count,
                   cudaStream_t stream);
void multiply(const float* a, const float* b, float* product, std::size_t count,
              cudaStream_t stream);
void add(const float* a, const float* b, bool with_relu, float* sum, std::size_t count,
         cudaStream_t stream);

}  // namespace dlrun::trainer::cuda
