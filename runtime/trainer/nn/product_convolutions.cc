#include "runtime/trainer/nn/product_convolutions.h"

#include <algorithm>

#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/nn/matrix_product.h"
#include "runtime/trainer/nn/winograd_loops.h"

namespace dlrun::trainer {

/// The matrix of the inputs under each window, for a group of images at a time.
struct ProductConvolutions::Matrix {
  const Window& w;
  std::size_t n;
  int threads;

  std::size_t rows = w.output.height * w.output.width;  // of one image
  std::size_t columns = w.size * w.size * w.input.channels;
  /// The matrix is the input itself, without a copy.
  bool is_input = w.size == 1 && w.stride == 1 && w.padding == 0;
  std::size_t images_per_group = choose_images_per_group();

  /// Returns the number of images in a group (the last group may have fewer). The matrix of a
  /// group has at most 8 MiB, except if one image needs more.
  [[nodiscard]] std::size_t choose_images_per_group() const {
    constexpr std::size_t kMostElements = std::size_t{2} << 20U;
    if (is_input) return n;
    const std::size_t most_images = std::max<std::size_t>(kMostElements / (rows * columns), 1);
    const std::size_t groups = (n + most_images - 1) / most_images;
    return (n + groups - 1) / groups;
  }
  [[nodiscard]] std::size_t scratch_elements() const {
    return is_input ? 0 : images_per_group * rows * columns;
  }

  /// Calls work(first, count) for each group of `count` images from image `first` on.
  template <typename Work>
  void for_each_group(const Work& work) const {
    for (std::size_t at = 0; at < n; at += images_per_group)
      work(at, std::min(images_per_group, n - at));
  }

  /// Calls visit(at, pixel, is_inside) for each pixel of each window of one image. at, pixel: the
  /// offsets of the pixel's first channel in the matrix and in the image. is_inside: false in the
  /// padding; pixel is then 0.
  template <typename Visit>
  void for_each_window_pixel(const Visit& visit) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < w.output.height; ++i) {
      for (std::size_t j = 0; j < w.output.width; ++j) {
        for (std::size_t a = 0; a < w.size; ++a) {
          for (std::size_t b = 0; b < w.size; ++b, at += w.input.channels) {
            const std::size_t r = i * w.stride + a;
            const std::size_t c = j * w.stride + b;
            const bool is_inside = r >= w.padding && r - w.padding < w.input.height &&
                                   c >= w.padding && c - w.padding < w.input.width;
            visit(at,
                  is_inside ? ((r - w.padding) * w.input.width + c - w.padding) * w.input.channels
                            : 0,
                  is_inside);
          }
        }
      }
    }
  }

  /// Returns the matrix of `count` images: the images themselves, or a copy in `memory`.
  const float* gather(const float* x, std::size_t count, float* memory) const {
    if (is_input) return x;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (std::size_t image = 0; image < count; ++image) {
      const float* const from = x + image * w.input.size();
      float* const to = memory + image * rows * columns;
      for_each_window_pixel([&](std::size_t at, std::size_t pixel, bool is_inside) {
        if (is_inside) {
          std::copy_n(from + pixel, w.input.channels, to + at);
        } else {
          std::fill_n(to + at, w.input.channels, 0.0F);
        }
      });
    }
    return memory;
  }

  /// Computes dx, the gradient of `count` images, from the gradient of their matrix.
  void scatter(const float* matrix, std::size_t count, float* dx) const {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (std::size_t image = 0; image < count; ++image) {
      const float* const from = matrix + image * rows * columns;
      float* const to = dx + image * w.input.size();
      std::fill_n(to, w.input.size(), 0.0F);
      for_each_window_pixel([&](std::size_t at, std::size_t pixel, bool is_inside) {
        if (is_inside) loops::add_scaled(to + pixel, 1, from + at, w.input.channels);
      });
    }
  }
};

bool ProductConvolutions::suits(const Window& window) {
  // The alternative is oneDNN's convolution, which copies the weights. oneDNN is faster with few
  // channels, because the weights are then small, and with many output pixels, because this class's
  // copies into the matrix then take long.
  constexpr std::size_t kLeastChannels = 64;
  constexpr std::size_t kMostPixels = 256;
  return !window.is_depthwise && window.input.channels >= kLeastChannels &&
         window.output.channels >= kLeastChannels &&
         (window.size == 1 ||
          (window.size == 3 && window.output.height * window.output.width <= kMostPixels));
}

Result<> ProductConvolutions::forward(const Window& window, std::size_t n, const float* x,
                                      const float* w, const float* bias, bool with_relu, float* y) {
  is_used_ = true;
  const Matrix matrix{window, n, threads_};
  const std::size_t channels = window.output.channels;
  DLRUN_TRY_ASSIGN(float* const memory, scratch_.reserve(matrix.scratch_elements()));
  matrix.for_each_group([&](std::size_t first, std::size_t count) {
    float* const out = y + first * window.output.size();
    multiply_matrices(Transpose::kNo, Transpose::kNo, count * matrix.rows, channels, matrix.columns,
                      matrix.gather(x + first * window.input.size(), count, memory), w, 0, out);
    if (bias == nullptr && !with_relu) return;
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t image = 0; image < count; ++image)
      loops::add_bias(bias, matrix.rows, channels, with_relu, out + image * window.output.size());
  });
  return {};
}

Result<> ProductConvolutions::backward_input(const Window& window, std::size_t n, const float* w,
                                             const float* dy, float* dx) {
  is_used_ = true;
  const Matrix matrix{window, n, threads_};
  DLRUN_TRY_ASSIGN(float* const memory, scratch_.reserve(matrix.scratch_elements()));
  matrix.for_each_group([&](std::size_t first, std::size_t count) {
    float* const to = dx + first * window.input.size();
    multiply_matrices(Transpose::kNo, Transpose::kYes, count * matrix.rows, matrix.columns,
                      window.output.channels, dy + first * window.output.size(), w, 0,
                      matrix.is_input ? to : memory);
    if (!matrix.is_input) matrix.scatter(memory, count, to);
  });
  return {};
}

Result<> ProductConvolutions::backward_weights(const Window& window, std::size_t n, const float* x,
                                               const float* dy, float* dw) {
  is_used_ = true;
  const Matrix matrix{window, n, threads_};
  DLRUN_TRY_ASSIGN(float* const memory, scratch_.reserve(matrix.scratch_elements()));
  matrix.for_each_group([&](std::size_t first, std::size_t count) {
    multiply_matrices(Transpose::kYes, Transpose::kNo, matrix.columns, window.output.channels,
                      count * matrix.rows,
                      matrix.gather(x + first * window.input.size(), count, memory),
                      dy + first * window.output.size(), first == 0 ? 0 : 1, dw);
  });
  return {};
}

}  // namespace dlrun::trainer
