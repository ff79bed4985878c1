#pragma once
// Shapes of images and of windows that move over them. CUDA's compiler reads this file too (C++17).

#include <cstddef>

#include "runtime/trainer/host_device.h"

namespace dlrun::trainer {

struct ImageShape {
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t channels = 1;

  [[nodiscard]] DLRUN_HOST_DEVICE std::size_t size() const { return height * width * channels; }
  friend bool operator==(const ImageShape& a, const ImageShape& b) {
    return a.height == b.height && a.width == b.width && a.channels == b.channels;
  }
};

/// A square window that moves over images. In both directions,
///   output = (input + 2 padding - size) / stride + 1.
struct Window {
  ImageShape input;
  ImageShape output;
  std::size_t size = 1;
  std::size_t stride = 1;
  /// Number of pixels added on each side. A convolution reads them as zeros, and a max pool ignores
  /// them. 0 for an average pool.
  std::size_t padding = 0;
  /// True if a convolution has separate weights for each channel and does not mix channels; input
  /// and output then have the same number of channels.
  bool is_depthwise = false;

  /// Returns the number of weights of a convolution, without the biases.
  [[nodiscard]] std::size_t weight_count() const {
    return size * size * (is_depthwise ? 1 : input.channels) * output.channels;
  }

  friend bool operator==(const Window& a, const Window& b) {
    return a.input == b.input && a.output == b.output && a.size == b.size && a.stride == b.stride &&
           a.padding == b.padding && a.is_depthwise == b.is_depthwise;
  }
};

}  // namespace dlrun::trainer
