// All tiles of a group of images are transformed into 36 matrices [tiles x input channels]. Each
// matrix is multiplied with its matrix of transformed weights, [input channels x output channels],
// and the 36 products [tiles x output channels] are transformed back.

#include "runtime/trainer/nn/winograd_convolutions.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/trainer/nn/matrix_product.h"
#include "runtime/trainer/nn/winograd_loops.h"

namespace dlrun::trainer {
namespace {

using loops::kPlanes;
using loops::kTileInputEdge;
using loops::kTileOutputEdge;

/// Returns the number of elements to allocate for a plane of `count` elements. The padding makes
/// the planes begin in different cache sets: if their distance were a power of two, the 36 elements
/// of a channel would be in one set.
std::size_t padded_plane_size(std::size_t count) {
  constexpr std::size_t kLine = 16;  // elements of a cache line
  return (count + kLine - 1) / kLine * kLine + 5 * kLine;
}

/// Returns pointers to the pixels of a square whose upper left pixel is at (row, column), counted
/// from the start of the padding. Pixels outside of the image point to `outside`.
template <std::size_t kEdge, typename T>
std::array<T*, kEdge * kEdge> pixels_of_square(T* image, const ImageShape& shape, std::size_t row,
                                               std::size_t column, std::size_t padding,
                                               T* outside) {
  std::array<T*, kEdge * kEdge> pixels;
  for (std::size_t i = 0; i < kEdge; ++i) {
    for (std::size_t j = 0; j < kEdge; ++j) {
      const std::size_t r = row + i;
      const std::size_t c = column + j;
      const bool is_inside =
          r >= padding && r - padding < shape.height && c >= padding && c - padding < shape.width;
      pixels[i * kEdge + j] =
          is_inside ? image + ((r - padding) * shape.width + c - padding) * shape.channels
                    : outside;
    }
  }
  return pixels;
}

}  // namespace

/// The tiles of a convolution from images of shape `from` to images of shape `to`.
struct WinogradConvolutions::Tiles {
  ImageShape from;
  ImageShape to;
  std::size_t padding;
  std::size_t n;

  std::size_t rows = (to.height + kTileOutputEdge - 1) / kTileOutputEdge;
  std::size_t columns = (to.width + kTileOutputEdge - 1) / kTileOutputEdge;
  /// Number of images that are processed together, as a group. About 256 tiles keep the transformed
  /// data in the second-level cache, and are enough for fast products.
  std::size_t images_per_group = std::clamp<std::size_t>(256 / (rows * columns), 1, n);
  std::size_t from_plane_size =
      padded_plane_size(images_per_group * rows * columns * from.channels);
  std::size_t to_plane_size = padded_plane_size(images_per_group * rows * columns * to.channels);
  std::size_t weight_plane_size = padded_plane_size(from.channels * to.channels);

  /// Calls work(first_image, tile_count) for each group of images.
  template <typename Work>
  void for_each_group(const Work& work) const {
    for (std::size_t at = 0; at < n; at += images_per_group) {
      const std::size_t images = std::min(images_per_group, n - at);
      work(at, images * rows * columns);
    }
  }

  /// Calls work(image, row, column, tile) for `tile_count` tiles from the first tile of image
  /// `first_image` on. (row, column) is the output pixel where the tile begins; `tile` is its index
  /// in the group.
  template <typename Work>
  void for_each_tile(int threads, std::size_t first_image, std::size_t tile_count,
                     const Work& work) const {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (std::size_t tile = 0; tile < tile_count; ++tile) {
      work(first_image + tile / (rows * columns), tile / columns % rows * kTileOutputEdge,
           tile % columns * kTileOutputEdge, tile);
    }
  }

  /// Transforms the inputs of `tile_count` tiles from image `first_image` on.
  void transform_inputs(int threads, std::size_t first_image, std::size_t tile_count,
                        const float* x, float* transformed) const {
    const std::vector<float> zeros(from.channels);
    for_each_tile(threads, first_image, tile_count,
                  [&](std::size_t image, std::size_t row, std::size_t column, std::size_t tile) {
                    loops::winograd_inputs(
                        pixels_of_square<kTileInputEdge>(x + image * from.size(), from, row, column,
                                                         padding, zeros.data()),
                        from.channels, from_plane_size, transformed + tile * from.channels);
                  });
  }
};

bool WinogradConvolutions::suits(const Window& window) {
  // With fewer channels the transforms take longer than the products. The transforms of the weights
  // pay off only if there are several tiles.
  constexpr std::size_t kLeastChannels = 64;
  constexpr std::size_t kLeastPixels = 64;
  const auto fits = [](std::size_t channels) {
    return channels >= kLeastChannels && channels % loops::kWinogradLanes == 0;
  };
  return window.size == 3 && window.stride == 1 && window.padding <= 2 && !window.is_depthwise &&
         fits(window.input.channels) && fits(window.output.channels) &&
         window.output.height * window.output.width >= kLeastPixels;
}

Result<> WinogradConvolutions::convolve(const Tiles& tiles, const float* x, const float* w,
                                        bool is_backward, float* y) {
  is_used_ = true;
  const std::size_t input_channels = tiles.from.channels;
  const std::size_t output_channels = tiles.to.channels;
  DLRUN_TRY_ASSIGN(float* const weights,
                   weight_scratch_.reserve(kPlanes * tiles.weight_plane_size));
  DLRUN_TRY_ASSIGN(float* const transformed,
                   input_scratch_.reserve(kPlanes * tiles.from_plane_size));
  DLRUN_TRY_ASSIGN(float* const products, output_scratch_.reserve(kPlanes * tiles.to_plane_size));
  loops::winograd_weights(w, input_channels * output_channels, is_backward, tiles.weight_plane_size,
                          weights);
  tiles.for_each_group([&](std::size_t first_image, std::size_t tile_count) {
    tiles.transform_inputs(threads_, first_image, tile_count, x, transformed);
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t p = 0; p < kPlanes; ++p) {
      multiply_matrices(Transpose::kNo, is_backward ? Transpose::kYes : Transpose::kNo, tile_count,
                        output_channels, input_channels, transformed + p * tiles.from_plane_size,
                        weights + p * tiles.weight_plane_size, 0,
                        products + p * tiles.to_plane_size);
    }
    tiles.for_each_tile(
        threads_, first_image, tile_count,
        [&](std::size_t image, std::size_t row, std::size_t column, std::size_t tile) {
          // A tile may reach beyond the image.
          thread_local std::vector<float> unused;
          unused.resize(std::max(unused.size(), output_channels));
          loops::winograd_outputs(
              products + tile * output_channels, output_channels, tiles.to_plane_size,
              pixels_of_square<kTileOutputEdge>(y + image * tiles.to.size(), tiles.to, row, column,
                                                0, unused.data()));
        });
  });
  return {};
}

Result<> WinogradConvolutions::forward(const Window& window, std::size_t n, const float* x,
                                       const float* w, const float* bias, bool with_relu,
                                       float* y) {
  DLRUN_TRY(convolve({window.input, window.output, window.padding, n}, x, w, false, y));
  if (bias != nullptr || with_relu) {
    const std::size_t pixels = window.output.height * window.output.width;
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t image = 0; image < n; ++image) {
      loops::add_bias(bias, pixels, window.output.channels, with_relu,
                      y + image * window.output.size());
    }
  }
  return {};
}

Result<> WinogradConvolutions::backward_input(const Window& window, std::size_t n, const float* w,
                                              const float* dy, float* dx) {
  // The gradient of the inputs is a convolution of dy with the weights in reverse order.
  return convolve({window.output, window.input, window.size - 1 - window.padding, n}, dy, w, true,
                  dx);
}

Result<> WinogradConvolutions::backward_weights(const Window& window, std::size_t n, const float* x,
                                                const float* dy, float* dw) {
  is_used_ = true;
  const Tiles tiles{window.input, window.output, window.padding, n};
  const std::size_t input_channels = tiles.from.channels;
  const std::size_t output_channels = tiles.to.channels;
  DLRUN_TRY_ASSIGN(float* const gradients,
                   weight_scratch_.reserve(kPlanes * tiles.weight_plane_size));
  DLRUN_TRY_ASSIGN(float* const transformed,
                   input_scratch_.reserve(kPlanes * tiles.from_plane_size));
  DLRUN_TRY_ASSIGN(float* const output_gradients,
                   output_scratch_.reserve(kPlanes * tiles.to_plane_size));
  const std::vector<float> zeros(output_channels);
  tiles.for_each_group([&](std::size_t first_image, std::size_t tile_count) {
    tiles.transform_inputs(threads_, first_image, tile_count, x, transformed);
    tiles.for_each_tile(
        threads_, first_image, tile_count,
        [&](std::size_t image, std::size_t row, std::size_t column, std::size_t tile) {
          loops::winograd_output_gradients(
              pixels_of_square<kTileOutputEdge>(dy + image * tiles.to.size(), tiles.to, row, column,
                                                0, zeros.data()),
              output_channels, tiles.to_plane_size, output_gradients + tile * output_channels);
        });
#pragma omp parallel for num_threads(threads_) if (threads_ > 1) schedule(static)
    for (std::size_t p = 0; p < kPlanes; ++p) {
      multiply_matrices(Transpose::kYes, Transpose::kNo, input_channels, output_channels,
                        tile_count, transformed + p * tiles.from_plane_size,
                        output_gradients + p * tiles.to_plane_size, first_image == 0 ? 0 : 1,
                        gradients + p * tiles.weight_plane_size);
    }
  });
  loops::winograd_weight_gradients(gradients, input_channels * output_channels,
                                   tiles.weight_plane_size, dw);
  return {};
}

}  // namespace dlrun::trainer
