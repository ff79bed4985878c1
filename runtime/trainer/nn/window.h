#pragma once
// Shapes of images and of windows that move over them. CUDA's compiler reads this file too (C++17).

#include <cstddef>

namespace dlrun::trainer {

struct ImageShape {
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t channels = 1;

  [[nodiscard]] std::size_t size() const { return height * width * channels; }
  friend bool operator==(const ImageShape& a, const ImageShape& b) {
    return a.height == b.height && a.width == b.width && a.channels == b.channels;
  }
};

/// A square window that moves over images. In both directions output = (input + 2 padding
/// - size) / stride + 1.
struct Window {
  ImageShape input;
  ImageShape output;
  std::size_t size = 1;
  std::size_t stride = 1;
  std::size_t padding = 0;  ///< zeros on each side; 0 for pooling

  friend bool operator==(const Window& a, const Window& b) {
    return a.input == b.input && a.output == b.output && a.size == b.size && a.stride == b.stride &&
           a.padding == b.padding;
  }
};

}  // namespace dlrun::trainer
