#pragma once
// The computations of layers for a single element, shared by all devices. Only the GPU uses the
// functions of pooling and of depthwise convolutions, with one element per thread; the CPU
// processes all channels of a pixel together. These functions are in this file so that tests can
// run them without a GPU. Images are [n x height x width x channels]. Statistics, parameters,
// gradients and means of batch normalisation are [2 x channels], as in layer_kernels.h. The code is
// C++17, because nvcc compiles it.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/trainer/host_device.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

inline constexpr double kBatchNormEpsilon = 1e-5;

/// Computes mean and 1 / sqrt(variance + epsilon) of channel k. sums, [2 x channels]: the sums of
/// (x - running mean), then of its square, over `rows` rows. Adds sample_fraction times mean and
/// unbiased variance to `observed`, unless `observed` is nullptr. sample_fraction: see
/// LayerKernels::batch_statistics.
template <typename T>
DLRUN_HOST_DEVICE inline void batch_statistics_element(std::size_t k, std::size_t channels,
                                                       const double* sums, double rows,
                                                       double sample_fraction, const T* running,
                                                       T* statistics, T* observed) {
  const double offset = sums[k] / rows;
  const double spread = sums[channels + k] / rows - offset * offset;
  const double variance = spread > 0 ? spread : 0;
  statistics[k] = static_cast<T>(running[k] + offset);
  statistics[channels + k] = static_cast<T>(1 / std::sqrt(variance + kBatchNormEpsilon));
  if (observed == nullptr) return;
  observed[k] += static_cast<T>(sample_fraction * (running[k] + offset));
  observed[channels + k] +=
      static_cast<T>(sample_fraction * variance * (rows > 1 ? rows / (rows - 1) : 1));
}

/// Computes LayerKernels::statistics_from_running for channel k.
template <typename T>
DLRUN_HOST_DEVICE inline void statistics_from_running_element(std::size_t k, std::size_t channels,
                                                              const T* running, T* statistics) {
  statistics[k] = running[k];
  statistics[channels + k] =
      static_cast<T>(1 / std::sqrt(running[channels + k] + kBatchNormEpsilon));
}

/// Computes LayerKernels::normalise for one element x of channel k, without the ReLU.
template <typename T>
DLRUN_HOST_DEVICE inline T normalised(T x, std::size_t k, std::size_t channels, const T* statistics,
                                      const T* parameters) {
  return (x - statistics[k]) * statistics[channels + k] * parameters[k] + parameters[channels + k];
}

/// Computes LayerKernels::normalise_backward_input for one element of channel k.
template <typename T>
DLRUN_HOST_DEVICE inline T normalised_backward(T x, T dy, std::size_t k, std::size_t channels,
                                               const T* statistics, const T* gamma,
                                               const T* gradient_means) {
  const T scale = statistics[channels + k];
  return gamma[k] * scale *
         (dy - gradient_means[k] - (x - statistics[k]) * scale * gradient_means[channels + k]);
}

/// Computes LayerKernels::sigmoid_cross_entropy for one sample. logits, labels, gradient:
/// [classes]; gradient may be nullptr. Adds to `loss` and `correct`.
template <typename T>
DLRUN_HOST_DEVICE inline void sigmoid_cross_entropy_row(const T* logits, const std::uint8_t* labels,
                                                        std::size_t classes, T scale, T* gradient,
                                                        T& loss, T& correct) {
  const T factor = T{1} / static_cast<T>(classes);
  T losses = 0;
  T correct_classes = 0;
  for (std::size_t j = 0; j < classes; ++j) {
    const T x = logits[j];
    const T y = labels[j] == 0 ? T{0} : T{1};
    const T exponential = std::exp(-std::abs(x));
    losses += (x > 0 ? x : T{0}) - x * y + std::log1p(exponential);
    correct_classes += (x > 0) == (labels[j] != 0) ? T{1} : T{0};
    if (gradient != nullptr)
      gradient[j] = ((x >= 0 ? 1 : exponential) / (1 + exponential) - y) * scale * factor;
  }
  loss += losses * factor;
  correct += correct_classes * factor;
}

/// Computes LayerKernels::count_confusions for class k.
template <typename T>
DLRUN_HOST_DEVICE inline void count_confusions_of(std::size_t k, const T* logits,
                                                  const std::uint8_t* labels, std::size_t n,
                                                  std::size_t classes, std::uint32_t* counts) {
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_predicted = logits[i * classes + k] > 0;
    const bool has_label = labels[i * classes + k] != 0;
    if (is_predicted || has_label)
      ++counts[(is_predicted && has_label ? 0 : is_predicted ? 1 : 2) * classes + k];
  }
}

/// Returns 1 / (1 + exp(-x)).
template <typename T>
DLRUN_HOST_DEVICE inline T logistic_of(T x) {
  return 1 / (1 + std::exp(-x));
}

/// Returns x logistic(x). For large negative x, exp(-x) overflows to infinity, and the result is 0.
template <typename T>
DLRUN_HOST_DEVICE inline T silu_of(T x) {
  return x * logistic_of(x);
}

/// Returns the derivative of silu at x, times dy: s (1 + x (1 - s)) with s = logistic(x).
template <typename T>
DLRUN_HOST_DEVICE inline T silu_backward_of(T x, T dy) {
  const T s = logistic_of(x);
  return dy * s * (1 + x * (1 - s));
}

/// Returns the index of element (image, row, column, k) in images of this shape.
DLRUN_HOST_DEVICE inline std::size_t element_index(const ImageShape& shape, std::size_t image,
                                                   std::size_t row, std::size_t column,
                                                   std::size_t k) {
  return ((image * shape.height + row) * shape.width + column) * shape.channels + k;
}

/// A range of positions [first, end) in one direction; empty if first >= end.
struct Positions {
  std::size_t first;
  std::size_t end;
};
/// Returns the output positions whose windows contain input position `position`, in one direction.
/// outputs: the number of output positions in this direction.
DLRUN_HOST_DEVICE inline Positions windows_over(std::size_t position, const Window& w,
                                                std::size_t outputs) {
  // Counted from the start of the padding, window i covers [i stride, i stride + size).
  const std::size_t padded = position + w.padding;
  const std::size_t end = padded / w.stride + 1;
  return {padded < w.size ? 0 : (padded - w.size) / w.stride + 1, end < outputs ? end : outputs};
}

/// Returns the positions [first, end) of the input, in one direction, that window i covers. inputs:
/// the number of input positions in this direction.
DLRUN_HOST_DEVICE inline Positions positions_under(std::size_t i, const Window& w,
                                                   std::size_t inputs) {
  const std::size_t begin = i * w.stride;
  const std::size_t end = begin + w.size < w.padding ? 0 : begin + w.size - w.padding;
  return {begin < w.padding ? 0 : begin - w.padding, end < inputs ? end : inputs};
}

/// Returns the largest value of channel k in the window of output position (i, j).
template <typename T>
DLRUN_HOST_DEVICE inline T max_pool_element(const Window& w, const T* x, std::size_t image,
                                            std::size_t i, std::size_t j, std::size_t k) {
  const Positions rows = positions_under(i, w, w.input.height);
  const Positions columns = positions_under(j, w, w.input.width);
  T largest = x[element_index(w.input, image, rows.first, columns.first, k)];
  for (std::size_t r = rows.first; r < rows.end; ++r) {
    for (std::size_t c = columns.first; c < columns.end; ++c) {
      const T value = x[element_index(w.input, image, r, c, k)];
      if (value > largest) largest = value;
    }
  }
  return largest;
}

/// Returns the gradient of input element (row, column, k): the sum of dy over all windows in which
/// this element is the first one that has the largest value.
template <typename T>
DLRUN_HOST_DEVICE inline T max_pool_backward_element(const Window& w, const T* x, const T* y,
                                                     const T* dy, std::size_t image,
                                                     std::size_t row, std::size_t column,
                                                     std::size_t k) {
  const T value = x[element_index(w.input, image, row, column, k)];
  const Positions rows = windows_over(row, w, w.output.height);
  const Positions columns = windows_over(column, w, w.output.width);
  T sum = 0;
  for (std::size_t i = rows.first; i < rows.end; ++i) {
    for (std::size_t j = columns.first; j < columns.end; ++j) {
      const std::size_t out = element_index(w.output, image, i, j, k);
      bool is_first = y[out] == value;
      const Positions window_columns = positions_under(j, w, w.input.width);
      for (std::size_t r = positions_under(i, w, w.input.height).first; is_first && r <= row; ++r) {
        const std::size_t end = r < row ? window_columns.end : column;
        for (std::size_t c = window_columns.first; is_first && c < end; ++c)
          is_first = x[element_index(w.input, image, r, c, k)] != value;
      }
      if (is_first) sum += dy[out];
    }
  }
  return sum;
}

/// Returns the mean of channel k over the window of output position (i, j).
template <typename T>
DLRUN_HOST_DEVICE inline T average_pool_element(const Window& w, const T* x, std::size_t image,
                                                std::size_t i, std::size_t j, std::size_t k) {
  const T factor = T{1} / static_cast<T>(w.size * w.size);
  const T* const from = x + element_index(w.input, image, i * w.stride, j * w.stride, k);
  T sum = 0;
  for (std::size_t a = 0; a < w.size; ++a) {
    for (std::size_t b = 0; b < w.size; ++b)
      sum += factor * from[(a * w.input.width + b) * w.input.channels];
  }
  return sum;
}

/// Returns the gradient of input element (row, column, k) of an average pool.
template <typename T>
DLRUN_HOST_DEVICE inline T average_pool_backward_element(const Window& w, const T* dy,
                                                         std::size_t image, std::size_t row,
                                                         std::size_t column, std::size_t k) {
  const T factor = T{1} / static_cast<T>(w.size * w.size);
  const Positions rows = windows_over(row, w, w.output.height);
  const Positions columns = windows_over(column, w, w.output.width);
  T sum = 0;
  for (std::size_t i = rows.first; i < rows.end; ++i) {
    for (std::size_t j = columns.first; j < columns.end; ++j)
      sum += factor * dy[element_index(w.output, image, i, j, k)];
  }
  return sum;
}

/// Returns channel k of the output of a depthwise convolution at output position (i, j), without
/// the bias.
template <typename T>
DLRUN_HOST_DEVICE inline T depthwise_element(const Window& w, const T* x, const T* weights,
                                             std::size_t image, std::size_t i, std::size_t j,
                                             std::size_t k) {
  const Positions rows = positions_under(i, w, w.input.height);
  const Positions columns = positions_under(j, w, w.input.width);
  T sum = 0;
  for (std::size_t r = rows.first; r < rows.end; ++r) {
    for (std::size_t c = columns.first; c < columns.end; ++c) {
      const std::size_t a = r + w.padding - i * w.stride;
      const std::size_t b = c + w.padding - j * w.stride;
      sum += x[element_index(w.input, image, r, c, k)] *
             weights[(a * w.size + b) * w.input.channels + k];
    }
  }
  return sum;
}

/// Returns the gradient of input element (row, column, k) of a depthwise convolution.
template <typename T>
DLRUN_HOST_DEVICE inline T depthwise_backward_element(const Window& w, const T* weights,
                                                      const T* dy, std::size_t image,
                                                      std::size_t row, std::size_t column,
                                                      std::size_t k) {
  const Positions rows = windows_over(row, w, w.output.height);
  const Positions columns = windows_over(column, w, w.output.width);
  T sum = 0;
  for (std::size_t i = rows.first; i < rows.end; ++i) {
    for (std::size_t j = columns.first; j < columns.end; ++j) {
      const std::size_t a = row + w.padding - i * w.stride;
      const std::size_t b = column + w.padding - j * w.stride;
      sum += dy[element_index(w.output, image, i, j, k)] *
             weights[(a * w.size + b) * w.input.channels + k];
    }
  }
  return sum;
}

/// Returns the input element that weight (a, b) multiplies at output position `at` of channel k,
/// where `at` counts the positions of all images. Returns 0 outside of the image.
template <typename T>
DLRUN_HOST_DEVICE inline T depthwise_input(const Window& w, const T* x, std::size_t at,
                                           std::size_t k, std::size_t a, std::size_t b) {
  const std::size_t j = at % w.output.width;
  const std::size_t i = at / w.output.width % w.output.height;
  const std::size_t r = i * w.stride + a;
  const std::size_t c = j * w.stride + b;
  const bool is_inside = r >= w.padding && r - w.padding < w.input.height && c >= w.padding &&
                         c - w.padding < w.input.width;
  const std::size_t image = at / w.output.width / w.output.height;
  return is_inside ? x[element_index(w.input, image, r - w.padding, c - w.padding, k)] : T{0};
}

}  // namespace dlrun::trainer
